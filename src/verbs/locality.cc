#include "verbs/locality.h"

#include <hwloc.h>

namespace roce::verbs {
namespace {

struct BitmapFree {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapFree>;

hwloc_obj_t find_os_device(hwloc_topology_t topology, const std::string& name) {
  if (name.empty()) return nullptr;
  for (hwloc_obj_t device = hwloc_get_next_osdev(topology, nullptr); device != nullptr;
       device = hwloc_get_next_osdev(topology, device)) {
    if (device->name != nullptr && name == device->name) return device;
  }
  return nullptr;
}

}  // namespace

void Locality::Unload::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

Locality::Locality() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return;
  topology_.reset(topology);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(topology) != 0) topology_.reset();
}

Locality::~Locality() = default;

int Locality::distance(const std::string& device, const std::string& netdev) const {
  hwloc_topology_t topology = topology_.get();
  if (topology == nullptr) return -1;
  hwloc_obj_t found = find_os_device(topology, device);
  if (found == nullptr) found = find_os_device(topology, netdev);
  if (found == nullptr) return -1;
  hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, found);
  if (near == nullptr || near->cpuset == nullptr) return -1;

  const Bitmap bound(hwloc_bitmap_alloc());
  if (bound == nullptr || hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    return -1;
  }
  if (hwloc_bitmap_intersects(near->cpuset, bound.get())) return 0;
  hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, near);
  if (package != nullptr && hwloc_bitmap_intersects(package->cpuset, bound.get())) return 1;
  return 2;
}

}  // namespace roce::verbs

#include "verbs/locality.h"

#include <hwloc.h>
#include <hwloc/linux.h>

namespace roce::verbs {
namespace {

struct BitmapFree {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapFree>;

// Processors near the PCI device behind this entry of /sys/class; false if there is none. Read here
// because hwloc itself would load its PCI and GPU plugins for it.
bool read_local_cpus(const char* device_class, const std::string& name, hwloc_bitmap_t cpus) {
  if (name.empty() || name.find('/') != std::string::npos) return false;
  const std::string path =
      std::string("/sys/class/") + device_class + "/" + name + "/device/local_cpus";
  return hwloc_linux_read_path_as_cpumask(path.c_str(), cpus) == 0;
}

}  // namespace

int processor_distance(hwloc_topology* topology, const hwloc_bitmap_s* near,
                       const hwloc_bitmap_s* bound) {
  if (hwloc_bitmap_intersects(near, bound)) return 0;
  hwloc_obj_t package = nullptr;
  while ((package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, package)) != nullptr) {
    if (hwloc_bitmap_intersects(package->cpuset, near) &&
        hwloc_bitmap_intersects(package->cpuset, bound)) {
      return 1;
    }
  }
  return 2;
}

void Locality::Unload::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

Locality::Locality() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return;
  topology_.reset(topology);
  if (hwloc_topology_load(topology) != 0) topology_.reset();
}

Locality::~Locality() = default;

int Locality::distance(const std::string& device, const std::string& netdev) const {
  hwloc_topology_t topology = topology_.get();
  if (topology == nullptr) return -1;
  const Bitmap near(hwloc_bitmap_alloc()), bound(hwloc_bitmap_alloc());
  if (near == nullptr || bound == nullptr) return -1;
  if (!read_local_cpus("infiniband", device, near.get()) &&
      !read_local_cpus("net", netdev, near.get())) {
    return -1;
  }
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) != 0) return -1;
  return processor_distance(topology, near.get(), bound.get());
}

}  // namespace roce::verbs

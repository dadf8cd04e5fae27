// How near a device is to the processors this process runs on.
#ifndef ROCE_VERBS_LOCALITY_H_
#define ROCE_VERBS_LOCALITY_H_

#include <memory>
#include <string>

struct hwloc_topology;
struct hwloc_bitmap_s;

namespace roce::verbs {

/// 0 if the two sets of processors meet, 1 if they only share a package, 2 otherwise.
int processor_distance(hwloc_topology* topology, const hwloc_bitmap_s* near,
                       const hwloc_bitmap_s* bound);

/// The machine's topology, loaded once. Everything answers "not known" where it cannot be loaded
/// (containers without /sys, for one).
class Locality {
 public:
  Locality();
  ~Locality();
  Locality(const Locality&) = delete;
  Locality& operator=(const Locality&) = delete;

  /// For an RDMA device or network interface: 0 if the process may run on processors next to it
  /// (same NUMA node), 1 if in the same package only, 2 if farther; -1 if not known.
  int distance(const std::string& device, const std::string& netdev) const;

 private:
  struct Unload {
    void operator()(hwloc_topology* topology) const;
  };
  std::unique_ptr<hwloc_topology, Unload> topology_;
};

}  // namespace roce::verbs

#endif  // ROCE_VERBS_LOCALITY_H_

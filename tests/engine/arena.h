// Memory of a test host: regions with keys in one synthetic address space, guard bytes between
// them.
#ifndef ROCE_TESTS_ENGINE_ARENA_H_
#define ROCE_TESTS_ENGINE_ARENA_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/types.h"

namespace roce::engine::test {

/// Runs part(address, bytes) for the elements of [offset, offset + length) of a scatter list.
/// False: the list is shorter.
template <typename Part>
bool for_each_part(std::span<const Sge> sges, uint64_t offset, uint64_t length, Part part) {
  for (const Sge& sge : sges) {
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint64_t bytes = std::min<uint64_t>(length, sge.length - offset);
    if (bytes != 0) part(sge.addr + offset, bytes);
    length -= bytes;
    offset = 0;
  }
  return length == 0;
}

class Arena : public Memory {
 public:
  static constexpr uint64_t kBase = 0x7f0000000000;
  static constexpr uint32_t kGuardBytes = 64;
  static constexpr uint8_t kGuard = 0xA5;

  /// has_bytes false: the arena only knows lengths.
  explicit Arena(bool has_bytes) : has_bytes_(has_bytes) {}

  struct Region {
    uint64_t va = 0;
    uint64_t length = 0;
    unsigned access = 0;
    bool valid = false;
  };

  uint32_t add(uint64_t length, unsigned access) {
    Region region;
    region.va = kBase + next_ + kGuardBytes;
    region.length = length;
    region.access = access;
    region.valid = true;
    next_ += length + 2 * kGuardBytes;
    if (has_bytes_) bytes_.resize(next_, kGuard);
    regions_.push_back(region);
    return static_cast<uint32_t>(regions_.size());  // Key 0 is never valid.
  }
  void remove(uint32_t key) { regions_[key - 1].valid = false; }
  const Region& region(uint32_t key) const { return regions_[key - 1]; }
  uint64_t va(uint32_t key) const { return region(key).va; }
  Sge sge(uint32_t key, uint64_t offset, uint32_t length) const {
    return {va(key) + offset, length, key};
  }

  bool remote_ok(uint32_t key, uint64_t va, uint64_t length, unsigned access) const override {
    return length == 0 || covers(key, va, length, access);
  }
  bool local_ok(std::span<const Sge> sges, bool write) const override {
    for (const Sge& sge : sges) {
      if (!covers(sge.lkey, sge.addr, sge.length, write ? unsigned{kLocalWrite} : 0u)) return false;
    }
    return true;
  }

  uint8_t* bytes(uint64_t va) { return bytes_.data() + (va - kBase); }
  const uint8_t* bytes(uint64_t va) const { return bytes_.data() + (va - kBase); }
  bool has_bytes() const { return has_bytes_; }

  bool guards_intact() const {
    if (!has_bytes_) return true;
    for (const Region& region : regions_) {
      for (uint32_t i = 0; i < kGuardBytes; ++i) {
        if (*bytes(region.va - 1 - i) != kGuard) return false;
        if (*bytes(region.va + region.length + i) != kGuard) return false;
      }
    }
    return true;
  }

 private:
  bool covers(uint32_t key, uint64_t va, uint64_t length, unsigned access) const {
    if (key == 0 || key > regions_.size()) return false;
    const Region& region = regions_[key - 1];
    return region.valid && (region.access & access) == access && va >= region.va &&
           length <= region.length && va - region.va <= region.length - length;
  }

  const bool has_bytes_;
  std::vector<Region> regions_;
  std::vector<uint8_t> bytes_;
  uint64_t next_ = 0;
};

}  // namespace roce::engine::test

#endif  // ROCE_TESTS_ENGINE_ARENA_H_

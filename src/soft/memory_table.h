// Memory regions by key.
//
// Keys are 32 random bits (getrandom), so that a peer cannot guess one; local and remote key of a
// region are the same number. A hash table with open addressing finds a region in one probe or two,
// whatever their number. Everything here is called by the holder of the progress lock.
#ifndef ROCE_SOFT_MEMORY_TABLE_H_
#define ROCE_SOFT_MEMORY_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/types.h"

namespace roce::soft {

struct Pd;

inline constexpr uint32_t kMaxRegions = 1u << 20;

struct Region {
  const Pd* pd = nullptr;
  uint8_t* address = nullptr;
  uint64_t iova = 0;  ///< What peers and work requests call the first byte.
  uint64_t length = 0;
  unsigned access = 0;
  uint32_t key = 0;
  bool invalidated = false;  ///< By a peer's send with invalidate.
};

class MemoryTable {
 public:
  MemoryTable();
  /// Most bytes that all regions may have together, in whole pages; 0: no limit.
  void set_limit(uint64_t bytes) { most_bytes_ = bytes; }
  /// Gives the region a key and enters it. False if there are too many regions or bytes.
  bool insert(Region& region);
  void erase(const Region& region);
  /// Another length for a region. False, and nothing changed, if that is too much.
  bool resize(Region& region, uint64_t length);

  /// Host address of [va, va + length) in the region `key` of the domain with all of `access`;
  /// nullptr otherwise. Not for length 0.
  uint8_t* translate(const Pd* pd, uint32_t key, uint64_t va, uint64_t length,
                     unsigned access) const;
  /// A peer's send with invalidate: the key stops working; the region stays until deregistered.
  void invalidate(const Pd* pd, uint32_t key);
  size_t count() const { return count_; }

 private:
  struct Slot {
    uint32_t key = 0;
    bool used = false;  ///< A key stands or stood here.
    Region* region = nullptr;
  };
  size_t home(uint32_t key) const { return (key * 0x9E3779B1u) >> shift_; }
  const Slot* find(uint32_t key) const;
  void place(Region& region);
  void grow();
  bool may_have(uint64_t bytes) const {
    return most_bytes_ == 0 || bytes <= most_bytes_ - std::min(most_bytes_, bytes_);
  }
  uint32_t random_key();

  std::vector<Slot> slots_;
  int shift_;
  size_t count_ = 0;
  size_t used_ = 0;
  uint64_t bytes_ = 0, most_bytes_ = 0;
  uint32_t random_[64];
  size_t random_left_ = 0;
};

/// The engine's questions about the memory of one protection domain.
class RegionAccess final : public engine::Memory {
 public:
  RegionAccess(const MemoryTable& table, const Pd* pd) : table_(table), pd_(pd) {}
  bool remote_ok(uint32_t rkey, uint64_t va, uint64_t length, unsigned access) const override;
  bool local_ok(std::span<const engine::Sge> sges, bool write) const override;

 private:
  const MemoryTable& table_;
  const Pd* pd_;
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_MEMORY_TABLE_H_

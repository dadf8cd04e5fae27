#include "soft/memory_table.h"

#include <sys/random.h>

#include <bit>
#include <chrono>
#include <random>

namespace roce::soft {
namespace {
constexpr size_t kFirstSlots = 256;

uint64_t whole_pages(uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

MemoryTable::MemoryTable() : slots_(kFirstSlots), shift_(32 - std::countr_zero(kFirstSlots)) {}

uint32_t MemoryTable::random_key() {
  if (random_left_ == 0) {
    if (getrandom(random_, sizeof random_, 0) != sizeof random_) {
      // Only before the kernel's pool is ready or without the call; the device's own source will do
      // then.
      std::random_device source;
      for (uint32_t& word : random_) word = source();
    }
    random_left_ = std::size(random_);
  }
  return random_[--random_left_];
}

const MemoryTable::Slot* MemoryTable::find(uint32_t key) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = home(key);; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (!slot.used) return nullptr;
    if (slot.key == key && slot.region != nullptr) return &slot;
  }
}

void MemoryTable::place(Region& region) {
  const size_t mask = slots_.size() - 1;
  size_t at = home(region.key);
  while (slots_[at].region != nullptr) at = (at + 1) & mask;
  if (!slots_[at].used) ++used_;
  slots_[at] = {region.key, true, &region};
}

void MemoryTable::grow() {
  std::vector<Slot> old(
      std::bit_ceil(4 * (count_ + 1) < kFirstSlots ? kFirstSlots : 4 * (count_ + 1)));
  old.swap(slots_);
  shift_ = 32 - std::countr_zero(slots_.size());
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.region != nullptr) place(*slot.region);
  }
}

bool MemoryTable::insert(Region& region) {
  if (count_ >= kMaxRegions || !may_have(whole_pages(region.length))) return false;
  if (2 * (used_ + 1) > slots_.size()) grow();
  do {
    region.key = random_key();
  } while (region.key == 0 || find(region.key) != nullptr);
  place(region);
  ++count_;
  bytes_ += whole_pages(region.length);
  return true;
}

void MemoryTable::erase(const Region& region) {
  const Slot* slot = find(region.key);
  if (slot == nullptr || slot->region != &region) return;
  slots_[static_cast<size_t>(slot - slots_.data())].region = nullptr;
  --count_;
  bytes_ -= whole_pages(region.length);
}

bool MemoryTable::resize(Region& region, uint64_t length) {
  const uint64_t before = whole_pages(region.length), after = whole_pages(length);
  if (after > before && !may_have(after - before)) return false;
  bytes_ += after - before;
  region.length = length;
  return true;
}

uint8_t* MemoryTable::translate(const Pd* pd, uint32_t key, uint64_t va, uint64_t length,
                                unsigned access) const {
  const Slot* slot = find(key);
  if (slot == nullptr) return nullptr;
  const Region& region = *slot->region;
  if (region.pd != pd || region.invalidated || (access & ~region.access) != 0) return nullptr;
  const uint64_t offset = va - region.iova;  // Wraps to a large value below the region.
  if (offset > region.length || length > region.length - offset) return nullptr;
  return region.address + offset;
}

void MemoryTable::invalidate(const Pd* pd, uint32_t key) {
  const Slot* slot = find(key);
  if (slot != nullptr && slot->region->pd == pd) slot->region->invalidated = true;
}

bool RegionAccess::remote_ok(uint32_t rkey, uint64_t va, uint64_t length, unsigned access) const {
  return length == 0 || table_.translate(pd_, rkey, va, length, access) != nullptr;
}

bool RegionAccess::local_ok(std::span<const engine::Sge> sges, bool write) const {
  const unsigned access = write ? engine::kLocalWrite : 0u;
  for (const engine::Sge& sge : sges) {
    if (sge.length != 0 &&
        table_.translate(pd_, sge.lkey, sge.addr, sge.length, access) == nullptr) {
      return false;
    }
  }
  return true;
}

}  // namespace roce::soft

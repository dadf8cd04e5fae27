// A ring of places that grows: what a queue pair never uses takes no memory.
#ifndef ROCE_ENGINE_INDEX_RING_H_
#define ROCE_ENGINE_INDEX_RING_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace roce::engine {

/// Places that a ring of work requests begins with; it doubles when it is full.
inline constexpr uint32_t kFirstPlaces = 8;

/// Numbered modulo 2^32. Entries [first, first + n) of consecutive numbers live in it, n at most
/// what was reserved.
template <typename Entry>
class IndexRing {
 public:
  /// Room for `count` entries, and never less than before; those numbered [first, end) stay. False:
  /// out of memory, and nothing has changed.
  bool reserve(uint32_t count, uint32_t first, uint32_t end) {
    const uint32_t places = std::bit_ceil(count);
    if (count == 0 || places <= places_) return true;
    std::unique_ptr<Entry[]> larger(new (std::nothrow) Entry[places]());
    if (larger == nullptr) return false;
    for (uint32_t i = first; i != end; ++i) larger[i & (places - 1)] = std::move((*this)[i]);
    entries_ = std::move(larger);
    places_ = places;
    return true;
  }
  uint32_t places() const { return places_; }
  size_t bytes() const { return size_t{places_} * sizeof(Entry); }
  Entry& operator[](uint32_t number) { return entries_[number & (places_ - 1)]; }
  const Entry& operator[](uint32_t number) const { return entries_[number & (places_ - 1)]; }

 private:
  std::unique_ptr<Entry[]> entries_;
  uint32_t places_ = 0;
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_INDEX_RING_H_

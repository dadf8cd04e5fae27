#include "soft/work_ring.h"

#include <algorithm>
#include <bit>
#include <new>

namespace roce::soft {

// The requests before `end` use every place that there is.
bool SendRing::grow(uint32_t end) {
  if (room == depth_) return false;
  const uint32_t wanted = std::min(std::max(2 * room, engine::kFirstPlaces), depth_);
  if (!inline_places_.reserve(wanted, end - inline_places_.places(), end)) return false;
  room = wanted;
  return true;
}

bool SendRing::grow_waiting(uint32_t end) {
  const uint32_t wanted = end - taken + 1;
  if (!sges_.reserve(wanted * stride_, taken * stride_, end * stride_)) return false;
  for (uint32_t i = taken; i != end; ++i) requests_[i].sges = {sges(i), requests_[i].sges.size()};
  return requests_.reserve(wanted, taken, end);
}

uint8_t* SendRing::enlarge(InlinePlace& place, size_t bytes) {
  constexpr size_t kStep = 16;
  const size_t size = (bytes + kStep - 1) / kStep * kStep;
  std::unique_ptr<uint8_t[]> larger(new (std::nothrow) uint8_t[size]);
  if (larger == nullptr) return nullptr;
  place = {std::move(larger), size};
  return place.bytes.get();
}

size_t SendRing::bytes() const {
  size_t sum = requests_.bytes() + sges_.bytes() + inline_places_.bytes();
  for (uint32_t i = 0; i < inline_places_.places(); ++i) sum += inline_places_[i].size;
  return sum;
}

}  // namespace roce::soft

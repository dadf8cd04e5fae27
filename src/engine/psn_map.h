// Which packets beyond the next one are there already: one bit for each of 512 sequence numbers.
#ifndef ROCE_ENGINE_PSN_MAP_H_
#define ROCE_ENGINE_PSN_MAP_H_

#include <cstdint>

#include "wire/packet.h"

namespace roce::engine {

/// A window that slides: sequence numbers s and s + kPsns share a bit, so the owner clears what it
/// leaves behind. Works for PSNs and for the requester's wider numbers alike.
class PsnMap {
 public:
  static constexpr uint32_t kPsns = wire::kSackPsns;

  bool any() const { return count_ != 0; }
  bool test(uint64_t seq) const { return (word(seq) >> (seq % 64) & 1) != 0; }
  void set(uint64_t seq) {
    if (test(seq)) return;
    words_[seq % kPsns / 64] |= uint64_t{1} << (seq % 64);
    ++count_;
  }
  void clear(uint64_t seq) {
    if (!test(seq)) return;
    words_[seq % kPsns / 64] &= ~(uint64_t{1} << (seq % 64));
    --count_;
  }
  /// Clears [from, to).
  void clear(uint64_t from, uint64_t to) {
    for (; any() && from < to; ++from) clear(from);
  }
  void reset() { *this = PsnMap(); }

  /// Bit i of the result is that of base + i.
  void copy(uint64_t base, uint64_t (&out)[wire::kSackWords]) const {
    const uint32_t shift = base % 64;
    for (uint32_t i = 0; i < wire::kSackWords; ++i) {
      const uint64_t at = base + uint64_t{64} * i;
      out[i] = word(at) >> shift;
      if (shift != 0) out[i] |= word(at + 64) << (64 - shift);
    }
  }

 private:
  uint64_t word(uint64_t seq) const { return words_[seq % kPsns / 64]; }

  uint64_t words_[wire::kSackWords] = {};
  uint32_t count_ = 0;
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_PSN_MAP_H_

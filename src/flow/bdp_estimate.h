// How much may be in flight on a path: twice its bandwidth-delay product, learned from what comes.
//
// Chunks that are fetched show both: the rate at which bytes come in while the fetcher always has
// more to ask for, and how long a chunk takes at least from its request to its last byte. Twice the
// product keeps the path busy and lets at most one more product stand in its queues. The rate is
// the highest of the last rounds, the time the shortest of the last 2 s; when that is older, the
// queues are drained and a few chunks fetched alone, to measure it again (as BBR does: RFC draft
// ietf-ccwg-bbr). Where chunks come in bursts, since a core or a link is away for a while, as much
// as the largest burst is allowed beside the product. Messages that come in between use the same
// path, so they are part of the rate and take their share of the bound. No clock: times come from
// the caller.
#ifndef ROCE_FLOW_BDP_ESTIMATE_H_
#define ROCE_FLOW_BDP_ESTIMATE_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace roce::flow {

using TimeNs = uint64_t;

class BdpEstimate {
 public:
  static constexpr uint32_t kLeastChunks = 4;
  static constexpr TimeNs kShortestIsOldNs = 2'000'000'000;
  static constexpr TimeNs kLeastRoundNs = 50'000;
  static constexpr int kRounds = 8;
  static constexpr int kProbeChunks = 3;
  static constexpr TimeNs kProbeEndsNs = 100'000'000;

  /// Size of a full chunk, and the most that may ever be in flight.
  void start(uint32_t chunk_bytes, uint64_t most_bytes) {
    chunk_ = chunk_bytes;
    most_ = most_bytes;
    least_ = std::min(most_bytes, uint64_t{kLeastChunks} * chunk_bytes);
    bound_ = product_ = least_;
  }

  /// Bytes that may be in flight now.
  uint64_t bound_bytes() const { return bound_; }

  /// The first chunk is asked for after a time without any in flight.
  void begin(TimeNs now) {
    round_since_ = now;
    round_chunks_ = round_messages_ = 0;
    burst_ = 0;
    burst_at_ = now;
    resumed_ = true;
  }

  /// Bytes of chunks and of messages have come. limited: somebody waited for room since the last
  /// call, so the path, or the bound, was what is scarce.
  void delivered(uint64_t chunk_bytes, uint64_t message_bytes, bool limited, TimeNs now) {
    if (probes_left_ != 0 && now - probing_since_ > std::max(kProbeEndsNs, 16 * shortest_)) {
      // No full chunks are asked for any more.
      probes_left_ = 0;
      shortest_at_ = now;
      update();
    }
    if (resumed_) message_bytes = 0;
    resumed_ = false;
    round_chunks_ += chunk_bytes;
    round_messages_ += message_bytes;
    note_burst(chunk_bytes + message_bytes, now);
    round_limited_ |= limited;
    if (now - round_since_ < std::max(kLeastRoundNs, 4 * shortest_)) return;
    const double rate = static_cast<double>(round_chunks_ + round_messages_) /
                        static_cast<double>(now - round_since_);
    if (round_limited_ || rate > fastest()) {
      bursts_[round_ % kRounds] = round_burst_;
      rates_[round_++ % kRounds] = rate;
      share_ = static_cast<double>(round_chunks_) /
               static_cast<double>(std::max<uint64_t>(1, round_chunks_ + round_messages_));
    }
    round_chunks_ = round_messages_ = 0;
    round_burst_ = 0;
    round_limited_ = false;
    round_since_ = now;
    update();
  }

  /// A full chunk that was asked for at `asked` has come.
  void took(TimeNs asked, TimeNs now) {
    const TimeNs time = std::max<TimeNs>(1, now - asked);
    if (shortest_ == 0 || time <= shortest_) {
      shortest_ = time;
      shortest_at_ = now;
      probes_left_ = 0;
    } else if (probes_left_ != 0) {
      if (asked < probing_since_) return;
      probed_ = std::min(probed_, time);
      if (--probes_left_ != 0) return;
      shortest_ = probed_;
      shortest_at_ = now;
    } else if (now - shortest_at_ > kShortestIsOldNs) {
      probes_left_ = kProbeChunks;
      probing_since_ = now;
      probed_ = UINT64_MAX;
    } else {
      return;
    }
    update();
  }

 private:
  static constexpr double kLeastShare = 0.25;
  static constexpr double kBurstRate = 1.25;

  double fastest() const { return *std::max_element(rates_.begin(), rates_.end()); }

  /// What comes ahead of the rate; a little above it is none.
  void note_burst(uint64_t bytes, TimeNs now) {
    if (fastest() == 0) return;
    const double explained = kBurstRate * fastest() * static_cast<double>(now - burst_at_);
    burst_ = std::max(burst_ + static_cast<double>(bytes) - explained, 0.0);
    burst_at_ = now;
    round_burst_ = std::max(round_burst_, burst_);
  }

  void update() {
    if (shortest_ != 0 && fastest() != 0) {
      const double product = fastest() * static_cast<double>(shortest_);
      const double burst = *std::max_element(bursts_.begin(), bursts_.end());
      product_ = std::clamp(static_cast<uint64_t>(2 * product + burst), least_, most_);
    }
    bound_ =
        probes_left_ != 0
            ? chunk_
            : static_cast<uint64_t>(static_cast<double>(product_) * std::max(share_, kLeastShare));
  }

  uint64_t chunk_ = 0, least_ = 0, most_ = 0;
  uint64_t product_ = 0;  ///< Twice the bandwidth-delay product and a burst, within the limits.
  uint64_t bound_ = 0;

  std::array<double, kRounds> rates_{};  ///< Bytes per ns.
  std::array<double, kRounds> bursts_{};
  uint32_t round_ = 0;
  TimeNs round_since_ = 0;
  uint64_t round_chunks_ = 0, round_messages_ = 0;
  bool round_limited_ = false;
  bool resumed_ = true;  ///< What messages brought is not of this round alone.
  double round_burst_ = 0;
  double burst_ = 0;  ///< Bytes that have come ahead of the rate.
  TimeNs burst_at_ = 0;
  double share_ = 1;  ///< Of the chunks in all that comes.

  TimeNs shortest_ = 0, shortest_at_ = 0;  ///< 0: none yet.
  int probes_left_ = 0;
  TimeNs probing_since_ = 0, probed_ = 0;
};

}  // namespace roce::flow

#endif  // ROCE_FLOW_BDP_ESTIMATE_H_

// The clock of the requester: timeouts, going back, round trip time, congestion window.
#include <algorithm>

#include "engine/requester.h"

namespace roce::engine {

namespace {

constexpr TimeNs kMinResendNs = 1'000'000;
/// Before the first round trip has been measured.
constexpr TimeNs kInitialResendNs = 4'000'000;
/// Bound of the adaptive resend where the attribute `timeout` is 0 (never gives up).
constexpr TimeNs kMaxResendNs = 1'000'000'000;
constexpr uint32_t kMaxBackoff = 16;

}  // namespace

/// RFC 6298 with a floor of 1 ms, doubled for every resend until a round trip has been measured
/// again, at most one unit. Progress alone does not end the doubling (5.7 and Karn's algorithm):
/// where a queue has grown, answers come later than expected, but they come.
TimeNs Requester::resend_timeout() const {
  const TimeNs measured =
      srtt_ns_ == 0 ? kInitialResendNs : std::max(kMinResendNs, srtt_ns_ + 4 * rttvar_ns_);
  return std::min({measured << patience_, core_.ack_timeout_ns, kMaxResendNs});
}

/// A packet that must be answered leaves.
void Requester::arm_timer(TimeNs now) {
  if (resend_deadline_ == kNever) resend_deadline_ = now + resend_timeout();
  if (due_since_ != kNever) return;
  due_since_ = now;
  retries_ = 0;
  unit_deadline_ = core_.ack_timeout_ns == kNever ? kNever : now + core_.ack_timeout_ns;
}

void Requester::stop_timer() {
  due_since_ = unit_deadline_ = resend_deadline_ = kNever;
  retries_ = 0;
}

/// The oldest unacknowledged packet is another one than before.
void Requester::restart_timer(TimeNs now) {
  stop_timer();
  if (answer_owed()) arm_timer(now);
}

void Requester::handle_timer(TimeNs now) {
  if (rnr_until_ != kNever && now >= rnr_until_) rnr_until_ = kNever;
  if (now >= unit_deadline_) {
    ++core_.counters.local_ack_timeout_err;
    if (++retries_ > core_.attributes.retry_cnt) {
      ++core_.counters.retry_exceeded;
      fail(WcStatus::kRetryExceeded);
      return;
    }
    // From now, not from the old deadline: a driver that was away for several units still gives
    // every retry its time.
    unit_deadline_ = now + core_.ack_timeout_ns;
    go_back(Loss::kTimeout, now);
  } else if (now >= resend_deadline_) {
    ++core_.counters.adaptive_resends;
    go_back(Loss::kTimeout, now);
  }
}

TimeNs Requester::poll_timer() const {
  return std::min({unit_deadline_, resend_deadline_, rnr_until_});
}

/// Everything from the oldest unacknowledged packet on will be sent again.
void Requester::go_back(Loss loss, TimeNs now) {
  if (una_ == max_) return;
  if (loss == Loss::kRnr) {
    // The responder is alive: its delay does not use up the acknowledgement budget.
    stop_timer();
    backoff_ = 0;
  } else if (una_ >= recover_) {
    recover_ = max_;
    window_bytes_ = std::max(window_bytes_ / 2, core_.mtu());
  }
  if (loss == Loss::kTimeout) {
    peer_has_.reset();
    backoff_ = std::min(backoff_ + 1, kMaxBackoff);
    patience_ = std::min(patience_ + 1, kMaxBackoff);
    probing_ = true;
  } else {
    probing_ = false;
  }
  went_back_at_ = repaired_at_ = now;
  timed_end_ = 0;
  resend_deadline_ = kNever;
  asked_ = una_;
  since_asked_ = 0;
  ask_next_ = true;
  rewind();
  // An RNR NAK is about one packet.
  resend_from_ = una_;
  resend_to_ = repaired_to_ = loss == Loss::kRnr ? una_ + 1 : max_;
}

void Requester::rewind() {
  inflight_bytes_ = inflight_packets_ = 0;
  read_bytes_ = 0;
  outstanding_.clear();
  peer_has_.clear(una_);
  seek(una_);
}

/// The packet that was timed has been answered, in its turn or early.
void Requester::end_timing(TimeNs now) {
  take_rtt_sample(now - timed_at_);
  timed_end_ = 0;
}

/// RFC 6298, 2.2 and 2.3.
void Requester::take_rtt_sample(TimeNs sample) {
  sample = std::max<TimeNs>(sample, 1);
  min_rtt_ns_ = std::min(min_rtt_ns_, sample);
  patience_ = 0;
  if (srtt_ns_ == 0) {
    srtt_ns_ = sample;
    rttvar_ns_ = sample / 2;
    return;
  }
  const TimeNs error = srtt_ns_ > sample ? srtt_ns_ - sample : sample - srtt_ns_;
  rttvar_ns_ = (3 * rttvar_ns_ + error) / 4;
  srtt_ns_ = (7 * srtt_ns_ + sample) / 8;
}

/// About one packet more per window acknowledged.
void Requester::grow_window(uint64_t acked_bytes) {
  const uint32_t bound = core_.limits.max_inflight_bytes;
  if (window_bytes_ >= bound) return;
  const uint64_t step =
      std::max<uint64_t>(1, core_.mtu() * acked_bytes / std::max(window_bytes_, 1u));
  window_bytes_ = static_cast<uint32_t>(std::min<uint64_t>(bound, window_bytes_ + step));
}

}  // namespace roce::engine

// What the responder answers: ACK, NAK, RNR NAK, READ responses, atomic acknowledges.
#include <algorithm>

#include "engine/requester.h"

namespace roce::engine {

namespace {

constexpr uint8_t kAethKindMask = 0xE0;
constexpr uint8_t kAethValueMask = 0x1F;

}  // namespace

/// PSNs of a peer lie within 2^23 of the oldest unacknowledged one.
uint64_t Requester::seq_of(uint32_t psn) const {
  return una_ + wire::psn_diff(psn, static_cast<uint32_t>(una_) & wire::kPsnMask);
}

void Requester::handle_response(const wire::Header& header, uint32_t payload_length, TimeNs now,
                                Effects& effects) {
  const bool selective = header.opcode == wire::Opcode::kRcSelectiveAck;
  if (selective && core_.attributes.selective) {
    handle_selective_ack(header, now, effects);
    return;
  }
  // A peer that heard of the agreement first is right to send one: it is a sequence NAK at least.
  if (!selective && header.opcode != wire::Opcode::kRcAck) {
    handle_data(header, payload_length, now, effects);
    return;
  }
  ++core_.counters.acks_received;
  const uint64_t seq = seq_of(header.psn);
  if ((header.syndrome & kAethKindMask) == 0) {
    handle_ack(header, now, effects);
  } else if (seq < una_ || seq >= max_) {
    core_.drop(effects, Drop::kStaleAck);
  } else {
    handle_nak(header, seq, now, effects);
  }
}

/// Takes everything below `end` as acknowledged, up to the first READ or atomic that has not been
/// answered. False: stopped there.
bool Requester::acknowledge(uint64_t end) {
  uint64_t bytes = 0;
  while (una_ < end) {
    const WorkRequest& request = ring_.at(ring_.done());
    if (request.is_answered()) break;
    const uint64_t upto = std::min(end, request.end_seq());
    const uint64_t mtu = core_.mtu();
    const uint64_t length = request.length;
    const uint64_t before = std::min(length, (una_ - request.first_seq) * mtu);
    const uint64_t after = std::min(length, (upto - request.first_seq) * mtu);
    bytes += after - before;
    if (upto <= nxt_) {
      inflight_bytes_ -= static_cast<uint32_t>(after - before);
      inflight_packets_ -= static_cast<uint32_t>(upto - una_);
    } else {
      // An answer to packets sent before a go-back reaches beyond those sent since.
      inflight_bytes_ = inflight_packets_ = 0;
    }
    advance_una(upto);
    if (una_ == request.end_seq()) ring_.finish_one();
  }
  if (una_ > nxt_) seek(una_);
  if (bytes > 0) grow_window(bytes);
  return una_ >= end;
}

/// After every answer: una_ was `before`.
void Requester::progress(uint64_t before, TimeNs now) {
  if (una_ == before) return;
  backoff_ = retries_ = sequence_naks_ = rnr_naks_ = 0;
  went_back_at_ = kNever;
  probing_ = false;
  if (timed_end_ != 0 && una_ >= timed_end_) end_timing(now);
  restart_timer(now);
  if (ring_.done() == fault_) fail(WcStatus::kLocalProtection);
  check_drained();
}

void Requester::handle_ack(const wire::Header& header, TimeNs now, Effects& effects) {
  const uint64_t seq = seq_of(header.psn);
  const uint64_t before = una_;
  if (seq < una_ || seq >= max_) {
    core_.drop(effects, Drop::kStaleAck);
    return;
  }
  const bool all = acknowledge(seq + 1);
  progress(before, now);
  if (!all) implied_nak(seq + 1, now);
}

void Requester::handle_nak(const wire::Header& header, uint64_t seq, TimeNs now, Effects& effects) {
  WcStatus status = WcStatus::kSuccess;
  const bool rnr = (header.syndrome & kAethKindMask) == wire::kAethRnrNak;
  const bool sequence = header.syndrome == wire::kAethNakSequence;
  if (!rnr && !sequence) {
    switch (header.syndrome) {
      case wire::kAethNakInvalidRequest:
      case wire::kAethNakInvalidRead:
        status = WcStatus::kRemoteInvalidRequest;
        break;
      case wire::kAethNakRemoteAccess:
        status = WcStatus::kRemoteAccess;
        break;
      case wire::kAethNakRemoteOperation:
        status = WcStatus::kRemoteOperation;
        break;
      default:
        core_.drop(effects, Drop::kBadOpcode);
        return;
    }
  }
  const uint64_t before = una_;
  const bool all = acknowledge(seq);
  progress(before, now);
  if (core_.state == QpState::kErr) return;
  if (status != WcStatus::kSuccess && (all || seq < ring_.at(ring_.done()).end_seq())) {
    if (status == WcStatus::kRemoteInvalidRequest) ++core_.counters.remote_invalid_requests;
    if (status == WcStatus::kRemoteAccess) ++core_.counters.remote_access_errors;
    if (status == WcStatus::kRemoteOperation) ++core_.counters.remote_operation_errors;
    fail(status);
  } else if (!all) {
    implied_nak(seq, now);
  } else if (rnr) {
    handle_rnr(header.syndrome & kAethValueMask, now);
  } else {
    handle_sequence_nak(now);
  }
}

void Requester::handle_sequence_nak(TimeNs now) {
  ++core_.counters.packet_seq_err;
  if (went_back_at_ != kNever) {
    // Answers to what was sent before the last go-back arrive within one round trip of it.
    const TimeNs guard = min_rtt_ns_ == kNever ? 0 : min_rtt_ns_ * 3 / 4;
    if (now - went_back_at_ < guard) return;
  }
  // The first NAK for a PSN is no repetition yet.
  if (sequence_naks_++ > core_.attributes.retry_cnt) {
    ++core_.counters.retry_exceeded;
    fail(WcStatus::kRetryExceeded);
    return;
  }
  go_back(Loss::kSequenceNak, now);
}

/// The responder is past `end`, and not all responses below have come.
void Requester::implied_nak(uint64_t end, TimeNs now) {
  if (core_.state == QpState::kErr) return;
  if (core_.attributes.selective) {
    peer_passed(end);
    repair(end, now);
    return;
  }
  if (went_back_at_ != kNever && now - went_back_at_ < srtt_ns_) return;
  ++core_.counters.implied_nak_seq_err;
  go_back(Loss::kImpliedNak, now);
}

void Requester::handle_rnr(uint8_t code, TimeNs now) {
  ++core_.counters.rnr_naks_received;
  // A second NAK for the same attempt (the packet was duplicated on its way) changes nothing.
  if (rnr_until_ != kNever) return;
  if (core_.attributes.rnr_retry < 7 && ++rnr_naks_ > core_.attributes.rnr_retry) {
    ++core_.counters.rnr_retry_exceeded;
    fail(WcStatus::kRnrRetryExceeded);
    return;
  }
  go_back(Loss::kRnr, now);
  rnr_until_ = now + wire::rnr_timer_ns(code);
}

void Requester::handle_data(const wire::Header& header, uint32_t payload_length, TimeNs now,
                            Effects& effects) {
  const uint64_t seq = seq_of(header.psn);
  const uint64_t before = una_;
  if (seq < una_ || seq >= max_) {
    core_.drop(effects, Drop::kStaleAck);
    return;
  }
  acknowledge(seq);
  progress(before, now);
  if (core_.state == QpState::kErr) return;
  if (una_ != seq) {
    keep_or_drop(seq, now, effects);
    implied_nak(seq, now);
    return;
  }
  const WorkRequest& request = ring_.at(ring_.done());
  const bool atomic = header.opcode == wire::Opcode::kRcAtomicAck;
  if (atomic ? !request.is_atomic() : !request.is_read()) {
    core_.drop(effects, Drop::kBadOpcode);
    fail(WcStatus::kBadResponse);
  } else if (!core_.memory.local_ok(ring_.sges(ring_.done()), true)) {
    core_.drop(effects, Drop::kRefused);
    fail(WcStatus::kLocalProtection);
  } else if (atomic) {
    take_atomic_response(now, effects);
  } else {
    take_read_response(seq, payload_length, now, effects);
  }
}

void Requester::take_read_response(uint64_t seq, uint32_t payload_length, TimeNs now,
                                   Effects& effects) {
  const WorkRequest& request = ring_.at(ring_.done());
  const uint64_t offset = (seq - request.first_seq) * core_.mtu();
  if (payload_length != std::min<uint64_t>(core_.mtu(), request.length - offset)) {
    core_.drop(effects, Drop::kBadLength);
    fail(WcStatus::kBadResponse);
    return;
  }
  if (payload_length > 0) {
    effects.placement.kind = Placement::Kind::kScatter;
    effects.placement.length = payload_length;
    effects.placement.sges = ring_.sges(ring_.done());
    effects.placement.offset = offset;
  }
  if (seq < nxt_) read_bytes_ -= payload_length;
  answered_one(now);
}

void Requester::take_atomic_response(TimeNs now, Effects& effects) {
  effects.placement.kind = Placement::Kind::kScatter;
  effects.placement.length = sizeof(uint64_t);
  effects.placement.sges = ring_.sges(ring_.done());
  effects.placement.offset = 0;
  effects.placement.is_atomic_original = true;
  answered_one(now);
}

void Requester::answered_one(TimeNs now) {
  const uint64_t before = una_;
  advance_una(una_ + 1);
  outstanding_.pop_until(una_);
  if (una_ == ring_.at(ring_.done()).end_seq()) ring_.finish_one();
  if (una_ > nxt_) seek(una_);
  // What came after the answer has been acknowledged by later ones already.
  acknowledge(peer_expects_);
  progress(before, now);
}

void Requester::handle_gather_fault(uint32_t psn) {
  const uint64_t seq = seq_of(psn);
  if (core_.state == QpState::kErr || seq < una_ || seq >= max_) return;
  uint64_t index = ring_.done();
  while (seq >= ring_.at(index).end_seq()) ++index;
  // Requests before it are still on their way and complete first.
  fault_ = std::min(fault_, index);
  if (fault_ == ring_.done()) fail(WcStatus::kLocalProtection);
}

/// The oldest unfinished request ends with this status; all later ones are flushed. The timers keep
/// their values: trouble() is asked afterwards.
void Requester::fail(WcStatus status) {
  ring_.fail(ring_.done(), status);
  core_.enter_error();
}

}  // namespace roce::engine

// ACK and NAK: when they are owed, when they leave, what they say.
#include "engine/responder.h"

namespace roce::engine {

namespace {

/// An answer of the program within this time takes the ACK along.
constexpr TimeNs kDeferralNs = 20'000;
constexpr uint32_t kQuickAnswersNeeded = 2;
/// A lazy ACK may ride on data after the first time and goes alone after the second: together with
/// a round trip well below the shortest resend time, 1 ms.
constexpr TimeNs kLazyRideNs = 200'000;
constexpr TimeNs kLazyAloneNs = 400'000;

}  // namespace

void Responder::owe_ack(TimeNs now) {
  if (!exchange_open_ || now - exchange_since_ > kDeferralNs) {
    if (exchange_open_) quick_answers_ = 0;
    exchange_open_ = true;
    exchange_since_ = now;
  }
  if (ack_pending_ && !ack_lazy_) return;
  ack_pending_ = true;
  ack_lazy_ = false;
  ack_rides_from_ = 0;
  ack_deferred_ = quick_answers_ >= kQuickAnswersNeeded;
  ack_due_ = ack_deferred_ ? now + kDeferralNs : now;
}

/// The peer asked for nothing and waits for nothing.
void Responder::owe_lazy_ack(TimeNs now) {
  if (ack_pending_) return;
  ack_pending_ = ack_lazy_ = true;
  ack_deferred_ = false;
  ack_rides_from_ = now + kLazyRideNs;
  ack_due_ = now + kLazyAloneNs;
}

void Responder::data_leaves(TimeNs now) {
  if (!exchange_open_) return;
  exchange_open_ = false;
  quick_answers_ = now - exchange_since_ <= kDeferralNs ? quick_answers_ + 1 : 0;
}

void Responder::handle_duplicate(const wire::Header& header, TimeNs now, Effects& effects) {
  ++core_.counters.duplicate_request;
  core_.drop(effects, Drop::kDuplicate);
  switch (header.opcode) {
    case wire::Opcode::kRcReadRequest:
      replay_read(header);
      break;
    case wire::Opcode::kRcCompareSwap:
    case wire::Opcode::kRcFetchAdd:
      replay_atomic(header);
      break;
    default:
      // The requester is waiting: no deferral.
      ack_pending_ = true;
      ack_deferred_ = ack_lazy_ = false;
      ack_rides_from_ = 0;
      ack_due_ = now;
      tell_gap();
  }
}

/// No receive request: RNR NAK. What follows the refused packet is dropped without a word.
void Responder::answer_not_ready(Effects& effects) {
  core_.drop(effects, Drop::kNoReceive);
  if (!gap_) gap_highest_ = expected_;
  gap_ = true;
  gap_has_trigger_ = false;
  nak_ = Nak::kRnr;
}

void Responder::set_fatal(uint8_t syndrome, uint32_t psn) {
  nak_ = Nak::kFatal;
  nak_syndrome_ = syndrome;
  nak_psn_ = psn;
  fatal_ = true;
  core_.enter_error();
}

void Responder::handle_request_after_error(const wire::Header& header) {
  if (fatal_ && wire::psn_diff(header.psn, nak_psn_) <= 0) nak_ = Nak::kFatal;
}

bool Responder::poll_packet(OutPacket& out) {
  if (core_.state == QpState::kErr && !fatal_) return false;
  if (repairs_head_ != repairs_tail_ && poll_repair(out)) return true;
  return pending_ != 0 ? poll_response(out) : poll_nak(out);
}

bool Responder::poll_nak(OutPacket& out) {
  if (nak_ == Nak::kNone) return false;
  const bool fixed = nak_ == Nak::kFatal || nak_ == Nak::kRefused;
  begin_packet(core_, wire::Opcode::kRcAck, fixed ? nak_psn_ : expected_, out);
  out.header.msn = msn_;
  if (nak_ == Nak::kSequence) {
    out.header.syndrome = wire::kAethNakSequence;
  } else if (nak_ == Nak::kSelective) {
    write_selective(out.header);
    ++core_.counters.selective_acks_sent;
  } else if (nak_ == Nak::kRnr) {
    out.header.syndrome =
        static_cast<uint8_t>(wire::kAethRnrNak | (core_.attributes.min_rnr_timer & 0x1F));
    ++core_.counters.rnr_naks_sent;
  } else {
    out.header.syndrome = nak_syndrome_;
  }
  // A NAK acknowledges everything before its PSN.
  if (wire::psn_diff(out.header.psn, ack_psn_) > 0) ack_pending_ = ack_lazy_ = false;
  nak_ = Nak::kNone;
  core_.count_sent(out);
  return true;
}

bool Responder::ack_waits_for_response() const {
  if (pending_ == 0) return false;
  const Request& next = request(emit_);
  return wire::psn_diff(next.first_psn + next.next, ack_psn_) < 0;
}

bool Responder::poll_ack(TimeNs now, bool ride, OutPacket& out) {
  if (!ack_pending_ || !core_.receiving()) return false;
  if (now < (ride ? ack_rides_from_ : ack_due_)) return false;
  if (ack_waits_for_response()) return false;
  if (ack_deferred_ && !ride) quick_answers_ = 0;
  ack_pending_ = ack_lazy_ = false;
  begin_packet(core_, wire::Opcode::kRcAck, ack_psn_, out);
  out.header.syndrome = wire::kAethAckNoCredit;
  out.header.msn = msn_;
  ++core_.counters.acks_sent;
  core_.count_sent(out);
  return true;
}

TimeNs Responder::poll_timer() const {
  return ack_pending_ && !ack_waits_for_response() ? ack_due_ : kNever;
}

}  // namespace roce::engine

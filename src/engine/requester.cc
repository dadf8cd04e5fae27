#include "engine/requester.h"

#include <algorithm>
#include <cerrno>

namespace roce::engine {

namespace {

using wire::Opcode;

/// Sequence numbers start above 2^24, so that differences to older PSNs stay positive.
constexpr uint64_t kSeqBase = uint64_t{1} << 24;
/// Unacknowledged SEND and WRITE packets.
constexpr uint32_t kMaxInflightPackets = 8192;
/// Unacknowledged PSNs of all kinds; the limit of PSN comparison is 2^23.
constexpr uint32_t kMaxPsnSpan = 1u << 22;
constexpr uint32_t kMaxReadPackets = 1u << 21;
/// An acknowledgement is asked for at least this often inside a message.
constexpr uint32_t kAskInterval = 32;

struct MessageOpcodes {
  Opcode first, middle, last, only;
};

MessageOpcodes opcodes_of(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kWrite:
      return {Opcode::kRcWriteFirst, Opcode::kRcWriteMiddle, Opcode::kRcWriteLast,
              Opcode::kRcWriteOnly};
    case WrOpcode::kWriteImm:
      return {Opcode::kRcWriteFirst, Opcode::kRcWriteMiddle, Opcode::kRcWriteLastImm,
              Opcode::kRcWriteOnlyImm};
    case WrOpcode::kSendImm:
      return {Opcode::kRcSendFirst, Opcode::kRcSendMiddle, Opcode::kRcSendLastImm,
              Opcode::kRcSendOnlyImm};
    case WrOpcode::kSendInvalidate:
      return {Opcode::kRcSendFirst, Opcode::kRcSendMiddle, Opcode::kRcSendLastInvalidate,
              Opcode::kRcSendOnlyInvalidate};
    default:
      return {Opcode::kRcSendFirst, Opcode::kRcSendMiddle, Opcode::kRcSendLast,
              Opcode::kRcSendOnly};
  }
}

bool is_connected_opcode(WrOpcode opcode) {
  return static_cast<uint8_t>(opcode) <= static_cast<uint8_t>(WrOpcode::kFetchAdd) ||
         opcode == WrOpcode::kSendInvalidate;
}

}  // namespace

Requester::Requester(Core& core)
    : core_(core), ring_(core.config.send_depth, core.config.max_send_sge) {
  reset();
}

int Requester::post(const SendRequest& request) {
  if (!is_connected_opcode(request.opcode)) return EINVAL;
  const bool atomic =
      request.opcode == WrOpcode::kCompareSwap || request.opcode == WrOpcode::kFetchAdd;
  if (atomic) {
    uint64_t length = 0;
    for (const Sge& sge : request.sges) length += sge.length;
    if (length != sizeof(uint64_t)) return EINVAL;
  }
  return ring_.post(request, request.signaled || core_.config.signal_all, kMaxMessageBytes);
}

void Requester::start(uint32_t psn) {
  una_ = nxt_ = max_ = kSeqBase + (psn & wire::kPsnMask);
  recover_ = repaired_to_ = peer_expects_ = una_;
  asked_ = una_;
  window_bytes_ = core_.limits.max_inflight_bytes;
}

void Requester::reset() {
  ring_.reset();
  cur_ = started_ = offset_ = 0;
  fault_ = kNoRequest;
  draining_ = false;
  inflight_bytes_ = inflight_packets_ = 0;
  read_bytes_ = 0;
  outstanding_.clear();
  kept_.reset();
  peer_has_.reset();
  since_asked_ = 0;
  ask_next_ = probing_ = false;
  stop_timer();
  rnr_until_ = went_back_at_ = kNever;
  backoff_ = patience_ = sequence_naks_ = rnr_naks_ = 0;
  timed_end_ = 0;
  srtt_ns_ = rttvar_ns_ = 0;
  min_rtt_ns_ = kNever;
  start(0);
}

void Requester::limits_changed(const PathLimits& before) {
  const uint32_t bound = core_.limits.max_inflight_bytes;
  // A window that no loss has reduced follows its bound; a reduced one has to grow.
  window_bytes_ =
      window_bytes_ >= before.max_inflight_bytes ? bound : std::min(window_bytes_, bound);
}

void Requester::drain() {
  draining_ = true;
  check_drained();
}

void Requester::check_drained() {
  if (!draining_ || core_.state != QpState::kSqd || ring_.done() < started_) return;
  draining_ = false;
  core_.events |= kEventSqDrained;
}

bool Requester::may_send(TimeNs now) const {
  if (cur_ == ring_.head() || cur_ >= fault_) return false;
  if (core_.state != QpState::kRts && !(core_.state == QpState::kSqd && started(cur_))) {
    return false;
  }
  if (rnr_until_ != kNever && now < rnr_until_) return false;
  return !(probing_ && answer_owed());
}

bool Requester::poll_packet(TimeNs now, OutPacket& out) {
  if (!may_send(now)) return false;
  if (repairing()) {
    while (repairing() && skip_one(now)) {
    }
    if (!may_send(now)) return false;
  }
  WorkRequest& request = ring_.at(cur_);
  if (!started(cur_)) begin_request(request);
  if (nxt_ == request.first_seq && request.fence && outstanding_.count() > 0) return false;
  if (request.is_read()) return poll_read_request(request, now, out);
  if (request.is_atomic()) return poll_atomic_request(request, now, out);
  return poll_message_packet(request, now, out);
}

void Requester::begin_request(WorkRequest& request) {
  const uint32_t mtu = core_.mtu();
  request.first_seq = nxt_;
  request.packets = packets_of(request.length, mtu);
  if (request.is_read()) {
    // Kept for the life of the request: a repeated READ request must lie inside one that the
    // responder has seen, whatever the limits are by then.
    const uint32_t bytes = core_.limits.read_segment_bytes;
    request.read_segment_packets =
        bytes == 0 ? kMaxReadPackets : std::clamp(bytes / mtu, 1u, kMaxReadPackets);
  }
  started_ = cur_ + 1;
}

bool Requester::poll_message_packet(WorkRequest& request, TimeNs now, OutPacket& out) {
  const uint32_t mtu = core_.mtu();
  const uint32_t rest = request.length - static_cast<uint32_t>(offset_);
  const uint32_t payload = std::min(mtu, rest);
  const bool again = repairing();
  const bool window_open =
      again || (inflight_packets_ < kMaxInflightPackets && nxt_ - una_ < kMaxPsnSpan &&
                (inflight_packets_ == 0 || in_flight_with(payload) <= window_bytes_));
  // With nothing asked for (the bound was lowered in the middle of a message) waiting would never
  // end: one more packet leaves and asks.
  if (!window_open && answer_owed()) return false;

  const bool first = nxt_ == request.first_seq;
  const bool last = payload == rest;
  const MessageOpcodes opcodes = opcodes_of(request.opcode);
  begin_packet(
      core_, first ? (last ? opcodes.only : opcodes.first) : (last ? opcodes.last : opcodes.middle),
      static_cast<uint32_t>(nxt_), out);
  out.header.solicited = last && request.solicited;
  out.header.imm = request.imm;
  out.header.invalidate_rkey = request.imm;
  out.header.va = request.remote_addr;
  out.header.rkey = request.rkey;
  out.header.dma_length = request.length;
  if (payload > 0) {
    out.payload.kind = PayloadRef::Kind::kSendQueue;
    out.payload.length = payload;
    out.payload.sges = ring_.sges(cur_);
    out.payload.offset = offset_;
  }
  out.inlined = request.inlined;
  inflight_bytes_ += payload;
  ++inflight_packets_;
  // Nobody waits for the completion of an unsignaled message.
  const bool lazy = last && core_.attributes.lazy_ack && !request.signaled && !out.header.solicited;
  const uint32_t following = lazy ? mtu : std::min(mtu, rest - payload);
  const bool window_closes = inflight_packets_ >= kMaxInflightPackets ||
                             nxt_ + 1 - una_ >= kMaxPsnSpan ||
                             in_flight_with(following) > window_bytes_;
  const bool asks = (last && !lazy) || again || ask_next_ || probing_ || window_closes ||
                    since_asked_ + 1 >= kAskInterval;
  out.header.ack_req = asks;
  offset_ += payload;
  finish_packet(request, 1, asks, now, out);
  return true;
}

bool Requester::may_start_answered(uint64_t bytes) const {
  const uint32_t most = std::clamp(uint32_t{core_.attributes.max_rd_atomic}, 1u, kMaxRdAtomic);
  if (outstanding_.count() >= most) return false;
  return outstanding_.count() == 0 || read_bytes_ + bytes <= core_.limits.max_read_bytes;
}

bool Requester::poll_read_request(WorkRequest& request, TimeNs now, OutPacket& out) {
  const bool again = repairing();
  const uint32_t psns = read_run(request);
  const uint32_t bytes = static_cast<uint32_t>(
      std::min(uint64_t{request.length} - offset_, uint64_t{psns} * core_.mtu()));
  if (!again && !may_start_answered(bytes)) return false;
  if (nxt_ != una_ && nxt_ + psns - una_ > kMaxPsnSpan) return false;

  begin_packet(core_, Opcode::kRcReadRequest, static_cast<uint32_t>(nxt_), out);
  out.header.va = request.remote_addr + offset_;
  out.header.rkey = request.rkey;
  out.header.dma_length = bytes;
  out.header.ack_req = true;
  if (is_read_boundary(request, nxt_ + psns)) outstanding_.push(nxt_ + psns);
  read_bytes_ += bytes;
  offset_ += bytes;
  finish_packet(request, psns, true, now, out);
  return true;
}

bool Requester::poll_atomic_request(WorkRequest& request, TimeNs now, OutPacket& out) {
  if (!repairing() && (!may_start_answered(0) || nxt_ - una_ >= kMaxPsnSpan)) return false;
  const bool swap = request.opcode == WrOpcode::kCompareSwap;
  begin_packet(core_, swap ? Opcode::kRcCompareSwap : Opcode::kRcFetchAdd,
               static_cast<uint32_t>(nxt_), out);
  out.header.va = request.remote_addr;
  out.header.rkey = request.rkey;
  out.header.swap_add = swap ? request.swap : request.compare_add;
  out.header.compare = swap ? request.compare_add : 0;
  out.header.ack_req = true;
  outstanding_.push(nxt_ + 1);
  finish_packet(request, 1, true, now, out);
  return true;
}

void Requester::finish_packet(const WorkRequest& request, uint32_t psns, bool asks, TimeNs now,
                              OutPacket& out) {
  out.resend = nxt_ < max_;
  if (asks && !out.resend && timed_end_ == 0) {
    timed_end_ = nxt_ + 1;
    timed_at_ = now;
  }
  // Which of the two was answered would not be known.
  if (out.resend && timed_end_ > nxt_ && timed_end_ <= nxt_ + psns) timed_end_ = 0;
  nxt_ += psns;
  max_ = std::max(max_, nxt_);
  if (nxt_ == request.end_seq()) {
    ++cur_;
    offset_ = 0;
  }
  ++since_asked_;
  if (asks) {
    since_asked_ = 0;
    ask_next_ = false;
  }
  // The end of a message is acknowledged unasked too, if that was agreed.
  if (asks || (core_.attributes.lazy_ack && nxt_ == request.end_seq())) {
    asked_ = nxt_;
    arm_timer(now);
  }
  core_.count_sent(out);
}

void Requester::seek(uint64_t seq) {
  nxt_ = seq;
  cur_ = ring_.done();
  offset_ =
      started(cur_) && cur_ != ring_.head() ? (seq - ring_.at(cur_).first_seq) * core_.mtu() : 0;
}

QueuePair::Trouble Requester::trouble() const {
  QueuePair::Trouble out;
  out.oldest_unacked_since = due_since_;
  out.retries = retries_;
  out.resends = backoff_;
  out.last_acked_psn = static_cast<uint32_t>(una_ - 1) & wire::kPsnMask;
  return out;
}

}  // namespace roce::engine

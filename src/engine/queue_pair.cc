#include "engine/queue_pair.h"

#include <algorithm>
#include <cerrno>

#include "engine/core.h"
#include "engine/datagram.h"
#include "engine/requester.h"
#include "engine/responder.h"

namespace roce::engine {

namespace {

using wire::Opcode;

enum class Role : uint8_t { kNone, kRequest, kResponse };

/// Whom a packet of a reliable connection concerns. Operations that this engine does not implement
/// concern nobody.
Role role_of(Opcode opcode) {
  if (opcode <= Opcode::kRcReadRequest) return Role::kRequest;
  switch (opcode) {
    case Opcode::kRcReadResponseFirst:
    case Opcode::kRcReadResponseMiddle:
    case Opcode::kRcReadResponseLast:
    case Opcode::kRcReadResponseOnly:
    case Opcode::kRcAck:
    case Opcode::kRcAtomicAck:
    case Opcode::kRcSelectiveAck:
      return Role::kResponse;
    case Opcode::kRcCompareSwap:
    case Opcode::kRcFetchAdd:
    case Opcode::kRcSendLastInvalidate:
    case Opcode::kRcSendOnlyInvalidate:
      return Role::kRequest;
    default:
      return Role::kNone;
  }
}

bool may_post(QpState state) {
  return state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe ||
         state == QpState::kErr;
}

}  // namespace

QueuePair::QueuePair(const QpConfig& config, ReceiveQueue& receive, bool is_srq,
                     const Memory& memory, Counters& counters)
    : core_(std::make_unique<Core>(config, receive, is_srq, memory, counters)),
      is_rc_(config.type == QpType::kRc) {
  if (is_rc_) {
    requester_ = std::make_unique<Requester>(*core_);
    responder_ = std::make_unique<Responder>(*core_);
  } else {
    datagram_ = std::make_unique<Datagram>(*core_);
  }
}

QueuePair::~QueuePair() {
  if (responder_) responder_->reset();
  core_->receive_completions.clear(core_->receive);
}

SendRing& QueuePair::send_ring() { return is_rc_ ? requester_->ring() : datagram_->ring(); }

// ---- commands ----

int QueuePair::post_send(const SendRequest& request, TimeNs) {
  if (!may_post(core_->state)) return EINVAL;
  return is_rc_ ? requester_->post(request) : datagram_->post(request);
}

int QueuePair::post_recv(const RecvRequest& request) {
  if (core_->is_srq || core_->state == QpState::kReset) return EINVAL;
  if (request.sges.size() > core_->receive.max_sge()) return EINVAL;
  return core_->receive.post(request) ? 0 : ENOMEM;
}

int QueuePair::set_attributes(const QpAttributes& attributes) {
  // One READ or atomic request at a time is always allowed to be sent.
  const uint32_t sent = std::clamp(uint32_t{attributes.max_rd_atomic}, 1u, kMaxRdAtomic);
  const uint32_t taken = std::min(uint32_t{attributes.max_dest_rd_atomic}, kMaxRdAtomic);
  if (is_rc_ && !(requester_->reserve(sent) && responder_->reserve(taken))) return ENOMEM;
  core_->attributes = attributes;
  core_->ack_timeout_ns = wire::ack_timeout_ns(attributes.timeout);
  return 0;
}

void QueuePair::set_limits(const PathLimits& limits) {
  const PathLimits before = core_->limits;
  core_->limits = limits;
  if (is_rc_) requester_->limits_changed(before);
}

void QueuePair::set_state(QpState state, TimeNs) {
  const QpState before = core_->state;
  if (state == QpState::kErr) {
    core_->enter_error();
    return;
  }
  core_->state = state;
  if (state == QpState::kReset) {
    if (is_rc_) {
      requester_->reset();
      responder_->reset();
    } else {
      datagram_->reset();
    }
    core_->receive_completions.clear(core_->receive);
    core_->events = 0;
    ReceiveQueue::Taken taken;
    while (!core_->is_srq && core_->receive.take(taken)) core_->receive.release(taken.entry);
    return;
  }
  const bool fresh = before == QpState::kReset || before == QpState::kInit;
  const bool ready_to_send = state == QpState::kRts && (fresh || before == QpState::kRtr);
  if (is_rc_) {
    if (fresh && (state == QpState::kRtr || state == QpState::kRts)) {
      responder_->start(core_->attributes.rq_psn);
    }
    if (ready_to_send) requester_->start(core_->attributes.sq_psn);
    if (state == QpState::kSqd) requester_->drain();
  } else if (ready_to_send) {
    datagram_->start(core_->attributes.sq_psn);
  } else if (state == QpState::kSqd) {
    core_->events |= kEventSqDrained;
  }
}

// ---- events ----

void QueuePair::handle_packet(const wire::Header& header, uint32_t payload_length,
                              bool congestion_experienced, TimeNs now, Effects& effects) {
  effects.drop = Drop::kNone;
  effects.keep = Keep::kNone;
  effects.placement.kind = Placement::Kind::kNone;
  effects.placement.length = 0;
  effects.placement.is_atomic_original = effects.placement.grh = false;
  effects.atomic.valid = false;
  effects.invalidate_rkey = 0;
  Counters& counters = core_->counters;
  ++counters.rx_packets;
  counters.rx_payload_bytes += payload_length;
  if (congestion_experienced) ++counters.ce_packets;
  if (header.opcode == Opcode::kCnp) {
    ++counters.cnps_received;
    return;
  }
  const Role role = is_rc_ ? role_of(header.opcode) : Role::kNone;
  if (!core_->receiving()) {
    if (role == Role::kRequest && core_->state == QpState::kErr) {
      responder_->handle_request_after_error(header);
    }
    core_->drop(effects, Drop::kBadState);
  } else if (!is_rc_) {
    datagram_->handle_packet(header, payload_length, effects);
  } else if (role == Role::kRequest) {
    responder_->handle_request(header, payload_length, now, effects);
  } else if (role == Role::kNone) {
    core_->drop(effects, Drop::kBadOpcode);
  } else if (core_->state == QpState::kRtr) {
    core_->drop(effects, Drop::kBadState);
  } else {
    requester_->handle_response(header, payload_length, now, effects);
  }
}

void QueuePair::handle_atomic_result(uint64_t original) {
  if (is_rc_) responder_->handle_atomic_result(original);
}

void QueuePair::keep(Keep kind, uint32_t psn) {
  if (!is_rc_ || kind == Keep::kNone) return;
  ++core_->counters.kept_packets;
  kind == Keep::kRequest ? responder_->keep(psn) : requester_->keep(psn);
}

bool QueuePair::take_kept(Keep& kind, uint32_t& psn) {
  if (!is_rc_ || !core_->receiving()) return false;
  if (responder_->take_kept(psn)) {
    kind = Keep::kRequest;
    return true;
  }
  kind = Keep::kResponse;
  return requester_->take_kept(psn);
}

void QueuePair::handle_gather_fault(const OutPacket& packet, TimeNs) {
  if (!is_rc_) {
    datagram_->handle_gather_fault(packet.header.psn);
  } else if (packet.payload.kind == PayloadRef::Kind::kRemoteRegion) {
    responder_->handle_gather_fault(packet);
  } else {
    requester_->handle_gather_fault(packet.header.psn);
  }
}

void QueuePair::handle_timer(TimeNs now) {
  if (is_rc_ && core_->state != QpState::kErr) requester_->handle_timer(now);
}

// ---- outputs ----

bool QueuePair::poll_packet(TimeNs now, OutPacket& out) {
  if (!is_rc_) return datagram_->poll_packet(out);
  const bool responses = responder_->has_output();
  if (responses && responses_first_ && responder_->poll_packet(out)) {
    responses_first_ = false;
    return true;
  }
  responses_first_ = true;
  if (requester_->poll_packet(now, out)) {
    if (!out.resend) responder_->data_leaves(now);
    return true;
  }
  return responses && responder_->poll_packet(out);
}

bool QueuePair::poll_ack(TimeNs now, bool ride, OutPacket& out) {
  return is_rc_ && responder_->poll_ack(now, ride, out);
}

bool QueuePair::flushing() const {
  return core_->state == QpState::kErr || core_->state == QpState::kSqe;
}

bool QueuePair::poll_completion(Completion& out) {
  if (core_->receive_completions.poll(core_->receive, out)) return true;
  SendRing& ring = send_ring();
  const bool flush = flushing();
  if ((ring.has_finished() || flush) && ring.poll(flush, out)) return true;
  if (core_->state != QpState::kErr) return false;
  if (is_rc_ && responder_->poll_flushed(out)) return true;
  ReceiveQueue::Taken taken;
  if (core_->is_srq || !core_->receive.take(taken)) return false;
  core_->receive.release(taken.entry);
  out = flushed_receive(taken.wr_id);
  return true;
}

TimeNs QueuePair::poll_timer() const {
  if (!is_rc_ || !core_->receiving()) return kNever;
  return std::min(requester_->poll_timer(), responder_->poll_timer());
}

unsigned QueuePair::take_events() {
  const unsigned events = core_->events;
  core_->events = 0;
  return events;
}

// ---- getters ----

QpState QueuePair::state() const { return core_->state; }
uint32_t QueuePair::qpn() const { return core_->config.qpn; }
const QpAttributes& QueuePair::attributes() const { return core_->attributes; }

size_t QueuePair::bytes() const {
  const size_t common = sizeof *this + sizeof *core_;
  return is_rc_ ? common + requester_->bytes() + responder_->bytes() : common + datagram_->bytes();
}

uint32_t QueuePair::send_queue_used() const {
  return is_rc_ ? requester_->ring().used() : datagram_->ring().used();
}

uint32_t QueuePair::inflight_bytes() const { return is_rc_ ? requester_->inflight_bytes() : 0; }

uint32_t QueuePair::next_psn() const {
  return is_rc_ ? requester_->next_psn() : datagram_->next_psn();
}

uint32_t QueuePair::expected_psn() const { return is_rc_ ? responder_->expected_psn() : 0; }
TimeNs QueuePair::smoothed_rtt() const { return is_rc_ ? requester_->smoothed_rtt() : 0; }

QueuePair::Trouble QueuePair::trouble() const { return is_rc_ ? requester_->trouble() : Trouble{}; }

}  // namespace roce::engine

#include "engine/responder.h"

namespace roce::engine {

namespace {
using wire::Opcode;
}

void Responder::start(uint32_t psn) {
  expected_ = psn & wire::kPsnMask;
  ack_psn_ = wire::psn_add(expected_, wire::kPsnMask);
  msn_ = 0;
}

void Responder::reset() {
  if (has_receive_) core_.receive.release(receive_.entry);
  has_receive_ = heard_ = false;
  message_ = Message::kNone;
  received_bytes_ = 0;
  ack_pending_ = ack_deferred_ = ack_lazy_ = exchange_open_ = false;
  quick_answers_ = 0;
  nak_ = Nak::kNone;
  gap_ = gap_has_trigger_ = fatal_ = false;
  kept_.reset();
  oldest_ = newest_ = emit_ = pending_ = 0;
  repairs_head_ = repairs_tail_ = 0;
  awaits_result_ = false;
}

void Responder::handle_request(const wire::Header& header, uint32_t payload_length, TimeNs now,
                               Effects& effects) {
  if (!heard_) {
    heard_ = true;
    if (core_.state == QpState::kRtr) core_.events |= kEventCommEstablished;
  }
  const int32_t distance = wire::psn_diff(header.psn, expected_);
  if (distance == 0) {
    execute(header, payload_length, now, effects);
  } else if (distance < 0) {
    handle_duplicate(header, now, effects);
  } else {
    handle_gap(header, effects);
  }
}

void Responder::execute(const wire::Header& header, uint32_t payload_length, TimeNs now,
                        Effects& effects) {
  constexpr Message kSend = Message::kSend, kWrite = Message::kWrite;
  const auto send = [&](bool first, bool last, bool imm = false, bool invalidate = false) {
    execute_send({kSend, first, last, imm, invalidate}, header, payload_length, now, effects);
  };
  const auto write = [&](bool first, bool last, bool imm = false) {
    execute_write({kWrite, first, last, imm, false}, header, payload_length, now, effects);
  };
  switch (header.opcode) {
    case Opcode::kRcSendFirst:
      return send(true, false);
    case Opcode::kRcSendMiddle:
      return send(false, false);
    case Opcode::kRcSendLast:
      return send(false, true);
    case Opcode::kRcSendLastImm:
      return send(false, true, true);
    case Opcode::kRcSendLastInvalidate:
      return send(false, true, false, true);
    case Opcode::kRcSendOnly:
      return send(true, true);
    case Opcode::kRcSendOnlyImm:
      return send(true, true, true);
    case Opcode::kRcSendOnlyInvalidate:
      return send(true, true, false, true);
    case Opcode::kRcWriteFirst:
      return write(true, false);
    case Opcode::kRcWriteMiddle:
      return write(false, false);
    case Opcode::kRcWriteLast:
      return write(false, true);
    case Opcode::kRcWriteLastImm:
      return write(false, true, true);
    case Opcode::kRcWriteOnly:
      return write(true, true);
    case Opcode::kRcWriteOnlyImm:
      return write(true, true, true);
    case Opcode::kRcReadRequest:
      return execute_read(header, effects);
    case Opcode::kRcCompareSwap:
    case Opcode::kRcFetchAdd:
      return execute_atomic(header, effects);
    default:
      core_.drop(effects, Drop::kBadOpcode);
  }
}

bool Responder::legal_length(const Shape& shape, uint32_t payload_length) const {
  if (!shape.last) return payload_length == core_.mtu();
  return payload_length <= core_.mtu() && (shape.first || payload_length > 0);
}

void Responder::execute_send(const Shape& shape, const wire::Header& header,
                             uint32_t payload_length, TimeNs now, Effects& effects) {
  const bool in_order = message_ == (shape.first ? Message::kNone : Message::kSend);
  if (!in_order || !legal_length(shape, payload_length)) {
    refuse(wire::kAethNakInvalidRequest, effects);
    return;
  }
  if (core_.receive_completions.full()) {
    core_.drop(effects, Drop::kNoReceive);
    return;
  }
  if (shape.first) {
    if (!take_receive(effects)) return;
    received_bytes_ = 0;
  }
  if (received_bytes_ + payload_length > receive_.capacity_bytes) {
    complete_receive(WcStatus::kLocalLength);
    refuse(wire::kAethNakInvalidRequest, effects);
    return;
  }
  if (payload_length > 0) {
    if (!core_.memory.local_ok(receive_.sges, true)) {
      complete_receive(WcStatus::kLocalProtection);
      refuse(wire::kAethNakRemoteOperation, effects);
      return;
    }
    effects.placement.kind = Placement::Kind::kScatter;
    effects.placement.length = payload_length;
    effects.placement.sges = receive_.sges;
    effects.placement.offset = received_bytes_;
    received_bytes_ += payload_length;
  }
  message_ = shape.last ? Message::kNone : Message::kSend;
  if (shape.last) {
    complete_message(shape, header);
    if (shape.invalidate) effects.invalidate_rkey = header.invalidate_rkey;
  }
  accept(header, shape.last, now);
}

void Responder::execute_write(const Shape& shape, const wire::Header& header,
                              uint32_t payload_length, TimeNs now, Effects& effects) {
  const bool in_order = message_ == (shape.first ? Message::kNone : Message::kWrite);
  if (!in_order || !legal_length(shape, payload_length)) {
    refuse(wire::kAethNakInvalidRequest, effects);
    return;
  }
  const uint64_t before = shape.first ? 0 : received_bytes_;
  const uint64_t length = shape.first ? header.dma_length : write_length_;
  const uint64_t after = before + payload_length;
  if (length > kMaxMessageBytes || (shape.last ? after != length : after >= length)) {
    refuse(wire::kAethNakInvalidRequest, effects);
    return;
  }
  // The whole range at the start, and each later packet's own again: the region may have been
  // deregistered in between.
  const uint64_t va = shape.first ? header.va : write_va_ + before;
  const uint32_t rkey = shape.first ? header.rkey : write_rkey_;
  if ((core_.attributes.access & kRemoteWrite) == 0 ||
      !core_.memory.remote_ok(rkey, va, shape.first ? length : payload_length, kRemoteWrite)) {
    refuse(wire::kAethNakRemoteAccess, effects);
    return;
  }
  if (shape.imm) {
    if (core_.receive_completions.full()) {
      core_.drop(effects, Drop::kNoReceive);
      return;
    }
    if (!take_receive(effects)) return;
  }
  if (shape.first) {
    write_va_ = header.va;
    write_rkey_ = header.rkey;
    write_length_ = length;
  }
  if (payload_length > 0) {
    effects.placement.kind = Placement::Kind::kRemoteRegion;
    effects.placement.length = payload_length;
    effects.placement.rkey = rkey;
    effects.placement.va = va;
  }
  received_bytes_ = after;
  message_ = shape.last ? Message::kNone : Message::kWrite;
  if (shape.imm) complete_message(shape, header);
  accept(header, shape.last, now);
}

bool Responder::take_receive(Effects& effects) {
  has_receive_ = core_.receive.take(receive_);
  if (!has_receive_) answer_not_ready(effects);
  return has_receive_;
}

Completion& Responder::complete_receive(WcStatus status) {
  Completion& completion = core_.receive_completions.push(receive_.entry);
  completion.wr_id = receive_.wr_id;
  completion.status = status;
  completion.opcode = WcOpcode::kRecv;
  completion.solicited = status != WcStatus::kSuccess;
  has_receive_ = false;
  return completion;
}

void Responder::complete_message(const Shape& shape, const wire::Header& header) {
  Completion& completion = complete_receive(WcStatus::kSuccess);
  if (shape.message == Message::kWrite) completion.opcode = WcOpcode::kRecvWithImm;
  completion.solicited = header.solicited;
  completion.byte_len = static_cast<uint32_t>(received_bytes_);
  completion.has_imm = shape.imm;
  completion.invalidated = shape.invalidate;
  if (shape.imm) completion.imm = header.imm;
  if (shape.invalidate) completion.imm = header.invalidate_rkey;
}

/// A SEND or WRITE packet has been executed.
void Responder::accept(const wire::Header& header, bool ends_message, TimeNs now) {
  ack_psn_ = expected_;
  advance_expected(1);
  if (ends_message) msn_ = wire::psn_add(msn_, 1);
  if (header.ack_req) {
    owe_ack(now);
    tell_gap();
  } else if (core_.attributes.lazy_ack && ends_message) {
    owe_lazy_ack(now);
  }
}

/// Answers with a NAK that ends the connection.
void Responder::refuse(uint8_t syndrome, Effects& effects) {
  core_.drop(effects, Drop::kRefused);
  if (syndrome == wire::kAethNakInvalidRequest) core_.events |= kEventRequestError;
  if (syndrome == wire::kAethNakRemoteAccess) core_.events |= kEventAccessError;
  set_fatal(syndrome, expected_);
}

bool Responder::poll_flushed(Completion& out) {
  if (!has_receive_) return false;
  has_receive_ = false;
  core_.receive.release(receive_.entry);
  out = flushed_receive(receive_.wr_id);
  return true;
}

}  // namespace roce::engine

// READ and atomic requests: execution, responses, replay of duplicates.
#include <algorithm>

#include "engine/responder.h"

namespace roce::engine {

namespace {

using wire::Opcode;

}  // namespace

/// A new entry at the expected PSN; nullptr if the peer has more requests outstanding than allowed.
Responder::Request* Responder::add_request(const wire::Header& header) {
  const uint32_t most = std::min(uint32_t{core_.attributes.max_dest_rd_atomic}, kMaxRdAtomic);
  if (most == 0) return nullptr;
  // Every response below the new request has been received, or it would not have been sent: what is
  // given up here is history, unless the peer breaks the limit.
  while (newest_ - oldest_ >= most) {
    if (!request(oldest_).answered) return nullptr;
    if (request(oldest_).waits()) --pending_;
    ++oldest_;
  }
  if (static_cast<int32_t>(emit_ - oldest_) < 0) emit_ = oldest_;
  Request& added = request(newest_++);
  added = Request{};
  added.va = header.va;
  added.rkey = header.rkey;
  added.first_psn = expected_;
  return &added;
}

void Responder::execute_read(const wire::Header& header, Effects& effects) {
  const uint32_t length = header.dma_length;
  if (message_ != Message::kNone || length > kMaxMessageBytes) {
    refuse(wire::kAethNakInvalidRequest, effects);
    return;
  }
  if ((core_.attributes.access & kRemoteRead) == 0 ||
      !core_.memory.remote_ok(header.rkey, header.va, length, kRemoteRead)) {
    refuse(wire::kAethNakRemoteAccess, effects);
    return;
  }
  Request* added = add_request(header);
  if (added == nullptr) {
    refuse(wire::kAethNakInvalidRequest, effects);
    return;
  }
  msn_ = wire::psn_add(msn_, 1);
  added->length = length;
  added->count = packets_of(length, core_.mtu());
  added->msn = msn_;
  advance_expected(added->count);
  set_waiting(newest_ - 1, 0, added->count);
}

void Responder::execute_atomic(const wire::Header& header, Effects& effects) {
  if (message_ != Message::kNone || header.va % sizeof(uint64_t) != 0) {
    refuse(wire::kAethNakInvalidRequest, effects);
    return;
  }
  if ((core_.attributes.access & kRemoteAtomic) == 0 ||
      !core_.memory.remote_ok(header.rkey, header.va, sizeof(uint64_t), kRemoteAtomic)) {
    refuse(wire::kAethNakRemoteAccess, effects);
    return;
  }
  Request* added = add_request(header);
  if (added == nullptr) {
    refuse(wire::kAethNakInvalidRequest, effects);
    return;
  }
  msn_ = wire::psn_add(msn_, 1);
  added->is_atomic = true;
  added->count = 1;
  added->msn = msn_;
  effects.atomic.valid = true;
  effects.atomic.is_compare_swap = header.opcode == Opcode::kRcCompareSwap;
  effects.atomic.rkey = header.rkey;
  effects.atomic.va = header.va;
  effects.atomic.swap_add = header.swap_add;
  effects.atomic.compare = header.compare;
  awaits_result_ = true;
  advance_expected(1);
}

void Responder::handle_atomic_result(uint64_t original) {
  if (!awaits_result_) return;
  awaits_result_ = false;
  request(newest_ - 1).result = original;
  set_waiting(newest_ - 1, 0, 1);
}

/// The entry that covers a PSN; nullptr if it is older than the history.
Responder::Request* Responder::find(uint32_t psn, uint32_t& index) {
  for (index = newest_; index != oldest_;) {
    Request& candidate = request(--index);
    const int32_t distance = wire::psn_diff(psn, candidate.first_psn);
    if (distance >= 0) {
      return static_cast<uint32_t>(distance) < candidate.count ? &candidate : nullptr;
    }
  }
  return nullptr;
}

void Responder::set_waiting(uint32_t index, uint32_t begin, uint32_t end) {
  Request& entry = request(index);
  if (!entry.waits()) ++pending_;
  entry.begin = entry.next = begin;
  entry.end = end;
  if (pending_ == 1 || static_cast<int32_t>(index - emit_) < 0) emit_ = index;
}

/// A repeated READ request may ask for a part: from a later packet of the first one on.
void Responder::replay_read(const wire::Header& header) {
  uint32_t index = 0;
  Request* entry = find(header.psn, index);
  if (entry == nullptr || entry->is_atomic || entry->rkey != header.rkey) return;
  const uint32_t begin = static_cast<uint32_t>(wire::psn_diff(header.psn, entry->first_psn));
  const uint64_t offset = uint64_t{begin} * core_.mtu();
  const uint32_t count = packets_of(header.dma_length, core_.mtu());
  if (header.va != entry->va + offset ||
      header.dma_length !=
          std::min<uint64_t>(entry->length - offset, uint64_t{count} * core_.mtu())) {
    return;
  }
  if (core_.attributes.selective) {
    repair_read(index, begin, begin + count);
    return;
  }
  // Still being answered, and not yet up to there: it will come anyway.
  if (entry->waits() && begin > entry->next) return;
  entry->replay = entry->replay || begin < entry->next;
  set_waiting(index, begin, entry->waits() ? std::max(entry->end, begin + count) : begin + count);
}

/// Only what is missing, and before what has not been sent yet. A peer that does not get it asks
/// again.
void Responder::repair_read(uint32_t index, uint32_t begin, uint32_t end) {
  const Request& entry = request(index);
  if (entry.waits()) end = std::min(end, entry.next);
  if (begin >= end || repairs_head_ - repairs_tail_ == kMaxRepairs) return;
  repairs_[repairs_head_++ % kMaxRepairs] = {index, begin, begin, end};
}

void Responder::replay_atomic(const wire::Header& header) {
  uint32_t index = 0;
  Request* entry = find(header.psn, index);
  if (entry == nullptr || !entry->is_atomic || !entry->answered) return;
  entry->replay = true;
  set_waiting(index, 0, 1);
}

void Responder::cancel_responses() {
  for (uint32_t i = oldest_; i != newest_; ++i) request(i).next = request(i).end;
  pending_ = 0;
  repairs_tail_ = repairs_head_;
}

bool Responder::poll_response(OutPacket& out) {
  while (!request(emit_).waits()) ++emit_;
  Request& entry = request(emit_);
  const uint32_t at = entry.next++;
  const bool last = entry.next == entry.end;
  if (last) {
    --pending_;
    if (entry.end == entry.count) entry.answered = true;
  }
  write_response(entry, at, at == entry.begin, last, out);
  out.resend = entry.replay;
  // A response acknowledges every earlier request.
  if (wire::psn_diff(out.header.psn, ack_psn_) > 0) ack_pending_ = false;
  core_.count_sent(out);
  return true;
}

bool Responder::poll_repair(OutPacket& out) {
  for (; repairs_tail_ != repairs_head_; ++repairs_tail_) {
    Repair& repair = repairs_[repairs_tail_ % kMaxRepairs];
    const bool known = repair.index - oldest_ < newest_ - oldest_;
    if (!known || repair.next == repair.end) continue;
    const uint32_t at = repair.next++;
    write_response(request(repair.index), at, at == repair.begin, repair.next == repair.end, out);
    out.resend = true;
    core_.count_sent(out);
    return true;
  }
  return false;
}

void Responder::write_response(const Request& entry, uint32_t at, bool first, bool last,
                               OutPacket& out) {
  if (entry.is_atomic) {
    begin_packet(core_, Opcode::kRcAtomicAck, entry.first_psn, out);
    out.header.atomic_original = entry.result;
  } else {
    begin_packet(core_,
                 first ? (last ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseFirst)
                       : (last ? Opcode::kRcReadResponseLast : Opcode::kRcReadResponseMiddle),
                 entry.first_psn + at, out);
    const uint64_t offset = uint64_t{at} * core_.mtu();
    out.payload.length =
        static_cast<uint32_t>(std::min<uint64_t>(core_.mtu(), entry.length - offset));
    if (out.payload.length > 0) {
      out.payload.kind = PayloadRef::Kind::kRemoteRegion;
      out.payload.rkey = entry.rkey;
      out.payload.va = entry.va + offset;
    }
  }
  out.header.syndrome = wire::kAethAckNoCredit;
  out.header.msn = entry.msn;
}

void Responder::handle_gather_fault(const OutPacket& packet) {
  if (core_.state == QpState::kErr && !fatal_) return;
  cancel_responses();
  if (packet.resend) {
    // The request was answered before, so its requester may be long done with it and the region
    // gone for a good reason: the connection lives on unless the requester still wants the data.
    if (nak_ == Nak::kFatal) return;
    nak_ = Nak::kRefused;
    nak_syndrome_ = wire::kAethNakRemoteAccess;
    nak_psn_ = packet.header.psn;
    return;
  }
  core_.events |= kEventAccessError;
  set_fatal(wire::kAethNakRemoteAccess, packet.header.psn);
}

}  // namespace roce::engine

#include "engine/send_ring.h"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace roce::engine {

namespace {

WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kWrite:
    case WrOpcode::kWriteImm:
      return WcOpcode::kWrite;
    case WrOpcode::kRead:
      return WcOpcode::kRead;
    case WrOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case WrOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    default:
      return WcOpcode::kSend;
  }
}

}  // namespace

SendRing::SendRing(uint32_t depth, uint32_t max_sge)
    : depth_(depth), max_sge_(max_sge), stride_(std::bit_ceil(max_sge)) {}

bool SendRing::grow() {
  if (room_ == depth_) return false;
  const uint32_t wanted = std::min(std::max(2 * room_, kFirstPlaces), depth_);
  const auto first = static_cast<uint32_t>(tail_), end = static_cast<uint32_t>(head_);
  if (!slots_.reserve(wanted, first, end) ||
      !sges_.reserve(wanted * stride_, first * stride_, end * stride_)) {
    return false;
  }
  room_ = wanted;
  return true;
}

int SendRing::post(const SendRequest& request, bool signaled, uint64_t max_bytes) {
  if (used() >= room_) {
    drop_unsignaled();
    if (used() >= room_ && !grow()) return ENOMEM;
  }
  if (request.sges.size() > max_sge_) return EINVAL;
  uint64_t length = 0;
  Sge* to = &sges_[static_cast<uint32_t>(head_) * stride_];
  for (const Sge& sge : request.sges) {
    *to++ = sge;
    length += sge.length;
  }
  if (length > max_bytes) return EINVAL;
  WorkRequest& slot = at(head_);
  slot.wr_id = request.wr_id;
  slot.remote_addr = request.remote_addr;
  slot.compare_add = request.compare_add;
  slot.swap = request.swap;
  slot.length = static_cast<uint32_t>(length);
  slot.rkey = request.rkey;
  slot.imm = request.imm;
  slot.sge_count = static_cast<uint16_t>(request.sges.size());
  slot.opcode = request.opcode;
  slot.signaled = signaled;
  slot.solicited = request.solicited;
  slot.fence = request.fence;
  slot.inlined = request.inlined;
  ++head_;
  return 0;
}

void SendRing::drop_unsignaled() {
  while (tail_ != done_ && tail_ != failed_ && !at(tail_).signaled) ++tail_;
}

bool SendRing::poll(bool flush, Completion& out) {
  drop_unsignaled();
  if (tail_ == head_) return false;
  if (tail_ == done_) {
    if (!flush) return false;
    ++done_;
    report(tail_ == failed_ ? failed_status_ : WcStatus::kFlushed, out);
    return true;
  }
  report(tail_ == failed_ ? failed_status_ : WcStatus::kSuccess, out);
  return true;
}

void SendRing::report(WcStatus status, Completion& out) {
  const WorkRequest& slot = at(tail_);
  out = Completion{};
  out.wr_id = slot.wr_id;
  out.status = status;
  out.opcode = completion_opcode(slot.opcode);
  out.solicited = status != WcStatus::kSuccess;
  out.byte_len = slot.length;
  ++tail_;
}

void SendRing::reset() {
  head_ = done_ = tail_ = 0;
  failed_ = kNoRequest;
}

}  // namespace roce::engine

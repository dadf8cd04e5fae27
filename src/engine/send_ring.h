// The send queue of a queue pair: a ring of work requests with their scatter/gather elements.
//
// Requests are numbered from 0 without wrap. Invariant: tail <= done <= head. Requests in
// [tail, done) are finished and wait for poll to report them (or, unsignaled, to drop them); those
// in [done, head) belong to the protocol. Completions are made when they are polled, in order, so
// no packet stores one. The ring grows with what is posted, up to its depth.
#ifndef ROCE_ENGINE_SEND_RING_H_
#define ROCE_ENGINE_SEND_RING_H_

#include <cstdint>
#include <span>

#include "engine/index_ring.h"
#include "engine/types.h"

namespace roce::engine {

inline constexpr uint64_t kNoRequest = UINT64_MAX;

/// One work request and its place in the sequence of packets.
struct WorkRequest {
  uint64_t wr_id = 0;
  union {  // As in SendRequest.
    uint64_t remote_addr = 0;
    uint64_t address;
  };
  union {
    uint64_t compare_add = 0;
    uint32_t remote_qkey;
  };
  uint64_t swap = 0;
  uint64_t first_seq = 0;  ///< Sequence number of the first packet; set when first packetised.
  uint32_t packets = 0;    ///< PSNs that it takes; set with first_seq.
  uint32_t read_segment_packets =
      0;  ///< READ: longest single request, in PSNs; set with first_seq.
  uint32_t length = 0;
  union {
    uint32_t rkey = 0;
    uint32_t remote_qpn;
  };
  uint32_t imm = 0;
  uint16_t sge_count = 0;
  WrOpcode opcode = WrOpcode::kSend;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool inlined = false;

  bool is_read() const { return opcode == WrOpcode::kRead; }
  bool is_atomic() const {
    return opcode == WrOpcode::kCompareSwap || opcode == WrOpcode::kFetchAdd;
  }
  /// Answered by data instead of an ACK.
  bool is_answered() const { return is_read() || is_atomic(); }
  uint64_t end_seq() const { return first_seq + packets; }
};

class SendRing {
 public:
  SendRing(uint32_t depth, uint32_t max_sge);

  /// 0, ENOMEM (full, or out of memory) or EINVAL (too many elements, more than max_bytes).
  int post(const SendRequest& request, bool signaled, uint64_t max_bytes);

  WorkRequest& at(uint64_t index) { return slots_[static_cast<uint32_t>(index)]; }
  const WorkRequest& at(uint64_t index) const { return slots_[static_cast<uint32_t>(index)]; }
  /// Until the next post.
  std::span<const Sge> sges(uint64_t index) const {
    return {&sges_[static_cast<uint32_t>(index) * stride_], at(index).sge_count};
  }
  size_t bytes() const { return slots_.bytes() + sges_.bytes(); }

  uint64_t head() const { return head_; }
  uint64_t done() const { return done_; }
  bool has_finished() const { return tail_ != done_; }
  bool empty() const { return tail_ == head_; }
  uint32_t used() const { return static_cast<uint32_t>(head_ - tail_); }

  void finish_one() { ++done_; }
  /// The request completes with this status instead of success, whatever its signaling.
  void fail(uint64_t index, WcStatus status) {
    failed_ = index;
    failed_status_ = status;
  }
  bool reported(uint64_t index) const { return index < tail_; }

  /// Next completion in order. flush: requests that are not finished end with their failure or
  /// with kFlushed.
  bool poll(bool flush, Completion& out);
  void reset();

 private:
  bool grow();
  void drop_unsignaled();
  void report(WcStatus status, Completion& out);

  const uint32_t depth_, max_sge_;
  const uint32_t stride_;  ///< Elements kept for each request, a power of two.
  uint32_t room_ = 0;      ///< Requests that fit without growth.
  uint64_t head_ = 0, done_ = 0, tail_ = 0;
  uint64_t failed_ = kNoRequest;
  WcStatus failed_status_ = WcStatus::kSuccess;
  IndexRing<WorkRequest> slots_;
  IndexRing<Sge> sges_;
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_SEND_RING_H_

// The receive buffers of one rail: one registered block, shared by all peers through an SRQ, posted
// again in batches.
#ifndef ROCE_TRANSPORT_RECEIVE_POOL_H_
#define ROCE_TRANSPORT_RECEIVE_POOL_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "roce/status.h"
#include "transport/pages.h"
#include "transport/spinlock.h"
#include "verbs/objects.h"

namespace roce::transport {

/// Set in the wr_id of every receive; the rest is the buffer's index. Errors carry no opcode, so
/// the wr_id alone must tell.
inline constexpr uint64_t kReceiveBit = uint64_t{1} << 63;

class ReceivePool {
 public:
  /// Maps, registers and posts `count` buffers of `bytes` each.
  Status open(const verbs::ProtectionDomain& pd, uint32_t count, uint32_t bytes);

  uint8_t* buffer(uint32_t index) const { return memory_.data() + uint64_t{index} * stride_; }
  uint32_t count() const { return static_cast<uint32_t>(requests_.size()); }
  ibv_srq* srq() const { return srq_.get(); }
  bool is_open() const { return static_cast<bool>(srq_); }

  /// The buffer's message has been consumed; it is posted with the next batch.
  void recycle(uint32_t index);

 private:
  Status post(ibv_recv_wr* first);

  static constexpr uint32_t kBatch = 16;

  uint32_t stride_ = 0, batch_ = kBatch;
  Pages memory_;
  verbs::MemoryRegion region_;
  verbs::SharedReceiveQueue srq_;
  std::vector<ibv_recv_wr> requests_;  ///< One per buffer, made once.
  std::vector<ibv_sge> sges_;
  SpinLock lock_;
  ibv_recv_wr* pending_ = nullptr;  ///< Consumed, not posted yet.
  uint32_t pending_count_ = 0;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_RECEIVE_POOL_H_

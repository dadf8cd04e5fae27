// A ring of receive work requests: the receive queue of one queue pair, or a shared one.
#ifndef ROCE_ENGINE_RECEIVE_QUEUE_H_
#define ROCE_ENGINE_RECEIVE_QUEUE_H_

#include <cstdint>
#include <vector>

#include "engine/types.h"

namespace roce::engine {

class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t depth, uint32_t max_sge);

  /// False if the ring is full or the list is longer than max_sge.
  bool post(const RecvRequest& request);

  /// The oldest request is taken out; its scatter list stays valid until `release` (shared queues
  /// hand requests to several queue pairs, so release may come in any order). False if empty.
  /// entry: handle for release.
  struct Taken {
    uint64_t wr_id = 0;
    std::span<const Sge> sges;
    uint64_t capacity_bytes = 0;
    uint32_t entry = 0;
  };
  bool take(Taken& out);
  void release(uint32_t entry);

  uint32_t posted() const;               ///< Requests that wait to be taken.
  uint64_t next_capacity_bytes() const;  ///< Bytes of the request that take gives next; 0: none.
  uint32_t depth() const;
  uint32_t max_sge() const;

  /// Limit of ibv_modify_srq: armed when not 0; limit_reached() is true once, when fewer than
  /// `limit` requests wait, and disarms.
  void arm_limit(uint32_t limit);
  uint32_t limit() const;
  bool take_limit_event();

 private:
  struct Entry {
    uint64_t wr_id;
    uint64_t capacity_bytes;
    uint32_t sge_count;
    uint32_t next;
  };
  uint32_t max_sge_;
  std::vector<Entry> entries_;
  std::vector<Sge> sges_;
  uint32_t free_head_, posted_head_, posted_tail_, posted_count_ = 0;
  uint32_t limit_ = 0;
  bool limit_event_ = false;
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_RECEIVE_QUEUE_H_

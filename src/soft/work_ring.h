// Rings between the threads that post work requests and the one that drives the engine.
//
// A request is copied into its slot by the posting thread, under the ring's small lock; the holder
// of the progress lock takes requests up in order and hands them to the engine. A slot is free
// again when the engine has retired the request: inline data stays in it until then. Invariant:
// taken <= head, and (head - taken) + engine_used <= depth.
#ifndef ROCE_SOFT_WORK_RING_H_
#define ROCE_SOFT_WORK_RING_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/types.h"
#include "soft/spinlock.h"

namespace roce::soft {

static_assert(sizeof(engine::Sge) == sizeof(ibv_sge));

/// Counting part, common to both kinds of ring.
struct RingCounts {
  Spinlock lock;  ///< Guards head, taken and the slots between them.
  uint32_t depth = 0;
  uint32_t mask = 0;
  uint32_t head = 0;
  uint32_t taken = 0;
  std::atomic<uint32_t> waiting{0};  ///< head - taken, for a look without the lock.
  std::atomic<uint32_t> engine_used{
      0};  ///< Requests inside the engine; written by the progress holder.

  void set_depth(uint32_t requests) {
    depth = requests;
    mask = std::bit_ceil(requests == 0 ? 1 : requests) - 1;
  }
  /// Whether one more request fits beside `others` that stand behind the head.
  bool has_room(uint32_t others = 0) const {
    return (head - taken) + engine_used.load(std::memory_order_acquire) + others < depth;
  }
  void publish() { waiting.store(head - taken, std::memory_order_seq_cst); }
  void clear() {
    taken = head;
    engine_used.store(0, std::memory_order_release);
    publish();
  }
};

struct SendRing : RingCounts {
  uint32_t max_sge = 0;
  uint32_t max_inline = 0;
  std::vector<engine::SendRequest> requests;
  std::vector<engine::Sge> sges;            ///< max_sge per slot.
  std::unique_ptr<uint8_t[]> inline_bytes;  ///< max_inline per slot; not touched before its use.

  void allocate(uint32_t send_depth, uint32_t sge_limit, uint32_t inline_limit) {
    set_depth(send_depth);
    max_sge = sge_limit == 0 ? 1 : sge_limit;
    max_inline = inline_limit;
    const size_t slots = size_t{mask} + 1;
    requests.resize(slots);
    sges.resize(slots * max_sge);
    inline_bytes = std::make_unique_for_overwrite<uint8_t[]>(slots * max_inline);
  }
};

struct ReceiveRing : RingCounts {
  uint32_t max_sge = 0;
  std::vector<engine::RecvRequest> requests;
  std::vector<engine::Sge> sges;

  void allocate(uint32_t receive_depth, uint32_t sge_limit) {
    set_depth(receive_depth);
    max_sge = sge_limit == 0 ? 1 : sge_limit;
    const size_t slots = size_t{mask} + 1;
    requests.resize(slots);
    sges.resize(slots * max_sge);
  }
  /// 0, ENOMEM (full) or EINVAL (too many elements).
  int post(const ibv_recv_wr& request);
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_WORK_RING_H_

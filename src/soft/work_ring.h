// Rings between the threads that post work requests and the one that drives the engine.
//
// A request is copied into its slot by the posting thread, under the ring's small lock; the holder
// of the progress lock takes requests up in order and hands them to the engine. A slot is free
// again when the engine has retired the request: inline data stays in it until then. Invariant:
// taken <= head, and (head - taken) + engine_used <= room.
#ifndef ROCE_SOFT_WORK_RING_H_
#define ROCE_SOFT_WORK_RING_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/index_ring.h"
#include "engine/types.h"
#include "soft/spinlock.h"

namespace roce::soft {

static_assert(sizeof(engine::Sge) == sizeof(ibv_sge));

/// Counting part, common to both kinds of ring.
struct RingCounts {
  Spinlock lock;      ///< Guards head, taken and the slots between them.
  uint32_t room = 0;  ///< Requests that fit.
  uint32_t head = 0;
  uint32_t taken = 0;
  std::atomic<uint32_t> waiting{0};  ///< head - taken, for a look without the lock.
  std::atomic<uint32_t> engine_used{
      0};  ///< Requests inside the engine; written by the progress holder.

  /// Whether one more request fits beside `others` that stand behind the head.
  bool has_room(uint32_t others = 0) const {
    return (head - taken) + engine_used.load(std::memory_order_acquire) + others < room;
  }
  void publish() { waiting.store(head - taken, std::memory_order_seq_cst); }
  void clear() {
    taken = head;
    engine_used.store(0, std::memory_order_release);
    publish();
  }
};

/// Grows with what is posted, up to its depth.
class SendRing : public RingCounts {
 public:
  uint32_t max_sge = 0;
  uint32_t max_inline = 0;

  void start(uint32_t send_depth, uint32_t sge_limit, uint32_t inline_limit) {
    depth_ = send_depth;
    max_sge = sge_limit == 0 ? 1 : sge_limit;
    max_inline = inline_limit;
    stride_ = std::bit_ceil(max_sge);
  }
  /// Room for one more request behind the head and `others`, after growth if need be. By a posting
  /// thread that holds the lock. False: the ring is full, or out of memory.
  bool make_room(uint32_t others = 0) {
    const uint32_t end = head + others;
    return (has_room(others) || grow(end)) &&
           (end - taken < requests_.places() || grow_waiting(end));
  }

  engine::SendRequest& request(uint32_t position) { return requests_[position]; }
  engine::Sge* sges(uint32_t position) { return &sges_[position * stride_]; }
  /// Room for the inline data of a request, which stays where it is until the engine has retired
  /// the request. Null: out of memory, or `bytes` is 0.
  uint8_t* inline_place(uint32_t position, size_t bytes) {
    InlinePlace& place = inline_places_[position];
    return place.size >= bytes ? place.bytes.get() : enlarge(place, bytes);
  }
  size_t bytes() const;

 private:
  /// As large as the largest inline data that it has held: most are far below max_inline.
  struct InlinePlace {
    std::unique_ptr<uint8_t[]> bytes;
    size_t size = 0;
  };

  bool grow(uint32_t end);
  bool grow_waiting(uint32_t end);
  static uint8_t* enlarge(InlinePlace& place, size_t bytes);

  uint32_t depth_ = 0;
  uint32_t stride_ = 1;  ///< Elements kept for each slot, a power of two.
  engine::IndexRing<engine::SendRequest> requests_;  ///< Until they are taken.
  engine::IndexRing<engine::Sge> sges_;
  engine::IndexRing<InlinePlace> inline_places_;  ///< Until the engine has retired their requests.
};

struct ReceiveRing : RingCounts {
  uint32_t mask = 0;
  uint32_t max_sge = 0;
  std::vector<engine::RecvRequest> requests;
  std::vector<engine::Sge> sges;

  void allocate(uint32_t receive_depth, uint32_t sge_limit) {
    room = receive_depth;
    mask = std::bit_ceil(room == 0 ? 1 : room) - 1;
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

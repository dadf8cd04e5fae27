#include "engine/receive_queue.h"

namespace roce::engine {

namespace {
constexpr uint32_t kNil = UINT32_MAX;
}

ReceiveQueue::ReceiveQueue(uint32_t depth, uint32_t max_sge)
    : max_sge_(max_sge),
      entries_(depth),
      sges_(size_t{depth} * max_sge),
      free_head_(depth > 0 ? 0 : kNil),
      posted_head_(kNil),
      posted_tail_(kNil) {
  for (uint32_t i = 0; i < depth; ++i) entries_[i].next = i + 1 < depth ? i + 1 : kNil;
}

bool ReceiveQueue::post(const RecvRequest& request) {
  if (free_head_ == kNil || request.sges.size() > max_sge_) return false;
  const uint32_t index = free_head_;
  Entry& entry = entries_[index];
  free_head_ = entry.next;
  entry.wr_id = request.wr_id;
  entry.sge_count = static_cast<uint32_t>(request.sges.size());
  entry.capacity_bytes = 0;
  entry.next = kNil;
  Sge* to = sges_.data() + size_t{index} * max_sge_;
  for (const Sge& sge : request.sges) {
    *to++ = sge;
    entry.capacity_bytes += sge.length;
  }
  if (posted_tail_ == kNil) {
    posted_head_ = index;
  } else {
    entries_[posted_tail_].next = index;
  }
  posted_tail_ = index;
  ++posted_count_;
  return true;
}

bool ReceiveQueue::take(Taken& out) {
  if (posted_head_ == kNil) return false;
  const uint32_t index = posted_head_;
  const Entry& entry = entries_[index];
  posted_head_ = entry.next;
  if (posted_head_ == kNil) posted_tail_ = kNil;
  --posted_count_;
  out.wr_id = entry.wr_id;
  out.sges = std::span<const Sge>(sges_.data() + size_t{index} * max_sge_, entry.sge_count);
  out.capacity_bytes = entry.capacity_bytes;
  out.entry = index;
  if (posted_count_ < limit_) {
    limit_ = 0;
    limit_event_ = true;
  }
  return true;
}

void ReceiveQueue::release(uint32_t entry) {
  entries_[entry].next = free_head_;
  free_head_ = entry;
}

uint64_t ReceiveQueue::next_capacity_bytes() const {
  return posted_head_ == kNil ? 0 : entries_[posted_head_].capacity_bytes;
}

uint32_t ReceiveQueue::posted() const { return posted_count_; }
uint32_t ReceiveQueue::depth() const { return static_cast<uint32_t>(entries_.size()); }
uint32_t ReceiveQueue::max_sge() const { return max_sge_; }

void ReceiveQueue::arm_limit(uint32_t limit) {
  limit_ = limit;
  limit_event_ = false;
  if (posted_count_ < limit_) {
    limit_ = 0;
    limit_event_ = true;
  }
}

uint32_t ReceiveQueue::limit() const { return limit_; }

bool ReceiveQueue::take_limit_event() {
  const bool event = limit_event_;
  limit_event_ = false;
  return event;
}

}  // namespace roce::engine

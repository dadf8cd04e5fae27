#include "transport/receive_pool.h"

#include <algorithm>
#include <string>

namespace roce::transport {

Status ReceivePool::open(const verbs::ProtectionDomain& pd, uint32_t count, uint32_t bytes) {
  stride_ = (bytes + 63) / 64 * 64;
  batch_ = std::clamp<uint32_t>(count / 8, 1, kBatch);
  memory_ = Pages(uint64_t{count} * stride_);
  if (memory_.data() == nullptr) {
    return {Code::kOutOfResources, "no memory for " + std::to_string(count) +
                                       " receive buffers of " + std::to_string(stride_) +
                                       " bytes; lower receive_buffers"};
  }
  memory_.populate();
  auto region =
      verbs::MemoryRegion::create(pd, memory_.data(), memory_.bytes(), IBV_ACCESS_LOCAL_WRITE);
  if (!region) {
    return region.status();
  }
  region_ = std::move(region.value());
  auto srq = verbs::SharedReceiveQueue::create(pd, count, 1);
  if (!srq) {
    return srq.status();
  }
  srq_ = std::move(srq.value());
  requests_.resize(count);
  sges_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    sges_[i] = {reinterpret_cast<uintptr_t>(buffer(i)), bytes, region_.lkey()};
    requests_[i] = {kReceiveBit | i, i + 1 < count ? &requests_[i + 1] : nullptr, &sges_[i], 1};
  }
  return post(requests_.data());
}

Status ReceivePool::post(ibv_recv_wr* first) {
  ibv_recv_wr* bad = nullptr;
  int error = ibv_post_srq_recv(srq_.get(), first, &bad);
  if (error == 0) {
    return Status::ok();
  }
  return {Code::kDevice, "post_srq_recv: " + verbs::errno_text(error)};
}

void ReceivePool::recycle(uint32_t index) {
  ibv_recv_wr* request = &requests_[index];
  lock_.lock();
  request->next = pending_;
  pending_ = request;
  if (++pending_count_ < batch_) [[likely]] {
    lock_.unlock();
    return;
  }
  ibv_recv_wr* first = pending_;
  pending_ = nullptr;
  pending_count_ = 0;
  // Under the lock: the queue is never over-filled, since each buffer is posted once.
  Status status = post(first);
  (void)status;  // a queue that refuses its own buffers is a broken device: peers then see RNR
  lock_.unlock();
}

}  // namespace roce::transport

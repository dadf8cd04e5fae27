// Bounds the bytes that RDMA READs of one rail may have in flight towards this process, so that
// they fit its receive memory. Who finds it used up waits in a queue of endpoints.
#ifndef ROCE_TRANSPORT_GET_BUDGET_H_
#define ROCE_TRANSPORT_GET_BUDGET_H_

#include <cstdint>
#include <deque>

#include "transport/spinlock.h"

namespace roce::transport {

class Endpoint;

class GetBudget {
 public:
  /// 0: no limit.
  void set_limit(uint64_t bytes) { limit_bytes_ = bytes; }

  /// One chunk is always allowed. False: `endpoint` is queued and comes out of next_waiter.
  bool take(uint32_t bytes, Endpoint* endpoint) {
    if (limit_bytes_ == 0) {
      return true;
    }
    lock_.lock();
    bool fits = used_bytes_ == 0 || used_bytes_ + bytes <= limit_bytes_;
    if (fits) {
      used_bytes_ += bytes;
    } else {
      waiters_.push_back(endpoint);
    }
    lock_.unlock();
    return fits;
  }

  void give_back(uint64_t bytes) {
    if (limit_bytes_ == 0) {
      return;
    }
    lock_.lock();
    used_bytes_ -= bytes;
    lock_.unlock();
  }

  /// The endpoint that has waited longest, if there is room again; null if not.
  Endpoint* next_waiter() {
    if (limit_bytes_ == 0) {
      return nullptr;
    }
    Endpoint* endpoint = nullptr;
    lock_.lock();
    if (!waiters_.empty() && used_bytes_ < limit_bytes_) {
      endpoint = waiters_.front();
      waiters_.pop_front();
    }
    lock_.unlock();
    return endpoint;
  }

 private:
  uint64_t limit_bytes_ = 0;
  SpinLock lock_;
  uint64_t used_bytes_ = 0;
  std::deque<Endpoint*> waiters_;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_GET_BUDGET_H_

// The scheduler of a rail's gets, for all threads: src/flow/get_scheduler.h with a lock.
#ifndef ROCE_TRANSPORT_GET_TURNS_H_
#define ROCE_TRANSPORT_GET_TURNS_H_

#include <cstdint>
#include <mutex>

#include "flow/get_scheduler.h"
#include "transport/spinlock.h"

namespace roce::transport {

class GetTurns {
 public:
  void start(uint64_t bound_bytes, uint32_t senders) { scheduler_.start(bound_bytes, senders); }

  bool take(flow::Getter& peer, uint32_t bytes) {
    if (!scheduler_.is_bounded()) return true;
    std::lock_guard guard(lock_);
    return scheduler_.take(peer, bytes);
  }
  void give_back(flow::Getter& peer, uint32_t bytes) {
    if (!scheduler_.is_bounded()) return;
    std::lock_guard guard(lock_);
    scheduler_.give_back(peer, bytes);
  }
  flow::Getter* next() {
    if (!scheduler_.is_bounded()) return nullptr;
    std::lock_guard guard(lock_);
    return scheduler_.next();
  }
  void end_turn() {
    std::lock_guard guard(lock_);
    scheduler_.end_turn();
  }

 private:
  SpinLock lock_;
  flow::GetScheduler scheduler_;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_GET_TURNS_H_

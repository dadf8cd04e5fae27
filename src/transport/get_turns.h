// The scheduler of a rail's gets, for all threads: src/flow/get_scheduler.h with a lock and a
// clock.
#ifndef ROCE_TRANSPORT_GET_TURNS_H_
#define ROCE_TRANSPORT_GET_TURNS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "flow/get_scheduler.h"
#include "transport/spinlock.h"

namespace roce::transport {

class GetTurns {
 public:
  void start(uint32_t chunk_bytes, uint64_t most_bytes, uint32_t senders) {
    scheduler_.start(chunk_bytes, most_bytes, senders);
  }
  /// A message has come; by the poller alone.
  void message(uint32_t bytes) {
    message_bytes_.store(message_bytes_.load(std::memory_order_relaxed) + bytes,
                         std::memory_order_relaxed);
  }

  bool take(flow::Getter& peer, uint32_t bytes) {
    std::lock_guard guard(lock_);
    // Asked again at every header while it waits: no need to read the clock for that.
    const bool taken = !peer.waiting && scheduler_.take(peer, bytes, now());
    if (!taken) somebody_waits_.store(true, std::memory_order_relaxed);
    return taken;
  }
  void give_back(flow::Getter& peer, uint32_t bytes, bool has_come) {
    std::lock_guard guard(lock_);
    if (has_come) {
      scheduler_.come(peer, bytes, message_bytes_.load(std::memory_order_relaxed), now());
    } else {
      scheduler_.abandon(peer, bytes);
    }
  }
  flow::Getter* next() {
    if (!somebody_waits_.load(std::memory_order_relaxed)) return nullptr;
    std::lock_guard guard(lock_);
    flow::Getter* peer = scheduler_.next();
    somebody_waits_.store(scheduler_.somebody_waits(), std::memory_order_relaxed);
    return peer;
  }
  void end_turn() {
    std::lock_guard guard(lock_);
    scheduler_.end_turn();
  }

 private:
  /// With the lock held, so that the scheduler's times never run backwards.
  static flow::TimeNs now() {
    return static_cast<flow::TimeNs>(std::chrono::steady_clock::now().time_since_epoch().count());
  }

  std::atomic<uint64_t> message_bytes_{0};
  std::atomic<bool> somebody_waits_{false};  ///< So that polls need no lock.
  SpinLock lock_;
  flow::GetScheduler scheduler_;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_GET_TURNS_H_

// progress(): polls the completion queues and runs the adapter's callbacks.
#ifndef ROCE_TRANSPORT_POLLER_H_
#define ROCE_TRANSPORT_POLLER_H_

#include <atomic>

#include "transport/core.h"
#include "transport/events.h"
#include "transport/spinlock.h"

namespace roce::transport {

class Poller {
 public:
  explicit Poller(Core& core) : core_(core) {}

  /// Returns the number of events. Re-entrant and thread-safe.
  int progress();
  /// Polls on behalf of a program that does not: what it finds waits for the next progress().
  void poll_unattended() { (void)poll(nullptr); }
  /// Polls so far.
  uint64_t polls() const { return polls_.load(std::memory_order_relaxed); }
  /// From now on events are dropped instead of told: the adapter is going away.
  void silence() { silent_.store(true, std::memory_order_relaxed); }

 private:
  bool poll(Event* first);
  void poll_rail(Rail& rail, EventBatch& batch);
  void handle_receive(Rail& rail, const ibv_wc& wc, EventBatch& batch);
  void handle_send(const ibv_wc& wc, EventBatch& batch);
  void resume_waiters(Rail& rail);
  void run(const Event& event);
  void run_message(const Event& event);
  int run_deferred();

  Core& core_;
  SpinLock lock_;                   ///< Held by the poller.
  std::atomic<uint64_t> polls_{0};  ///< Written under lock_.
  std::atomic<bool> silent_{false};
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_POLLER_H_

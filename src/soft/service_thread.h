// The thread that makes progress when the program does not.
//
// Somebody watches the receive socket:
// - the thread itself, ARMED: it sleeps in ppoll on the socket, timers and full send buffers;
// - a guest: the only thread that waits in get_cq_event watches it besides its event, which saves
//   waking two threads, one after the other, for each message (event_wait.cc). The service thread
//   keeps to full send buffers and a tick of 1 ms, and takes the socket back at a tick that has
//   seen no guest since the last;
// - threads of the program that poll, DISARMED: it only ticks, after 1 ms, doubling to 16 ms. It is
//   disarmed after 50 us with a poll every 10 us on average and none more than 100 us after the
//   last; it is armed at start, by req_notify, and by a tick that finds the last poll more than
//   100 us old.
// So a program that stops watching is stalled for one tick, or two of a guest's, at most.
#ifndef ROCE_SOFT_SERVICE_THREAD_H_
#define ROCE_SOFT_SERVICE_THREAD_H_

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "engine/types.h"

namespace roce::soft {

class Process;

timespec to_timespec(engine::TimeNs ns);

class ServiceThread {
 public:
  static constexpr engine::TimeNs kDisarmAfterNs = 50'000;
  static constexpr engine::TimeNs kBusyPollNs = 10'000;
  static constexpr engine::TimeNs kArmAfterNs = 100'000;
  static constexpr engine::TimeNs kFirstTickNs = 1'000'000;
  static constexpr engine::TimeNs kLastTickNs = 16'000'000;
  /// How long to keep away from a lock that another thread holds.
  static constexpr engine::TimeNs kLockMissNs = 50'000;
  /// Longest sleep: bounds what a lost wake-up could cost.
  static constexpr engine::TimeNs kLongestSleepNs = 1'000'000'000;

  /// 0 if it runs, else errno. The thread blocks all signals.
  int start(Process& process);
  /// Ends and joins the thread; it waits for nothing longer than one round of progress.
  void stop();
  void arm();
  void disarm();
  bool armed() const { return watch_.load(std::memory_order_relaxed) == Watch::kService; }
  bool disarmed() const { return watch_.load(std::memory_order_relaxed) == Watch::kPolls; }
  /// The calling thread, about to wait for an event, would watch the socket. False: it need not.
  bool admit_guest();
  /// Others wait for events too: the service thread watches again.
  void dismiss_guest();

  /// By the lock's holder: makes the thread come at `at` if it would sleep longer.
  void need_by(engine::TimeNs at) {
    if (armed() && at < sleeps_until_.load(std::memory_order_relaxed)) hurry();
  }
  /// By the lock's holder, in the thread's own round: until when it may sleep.
  void plan(engine::TimeNs until) { sleeps_until_.store(until, std::memory_order_relaxed); }
  void hurry();
  /// In a child after fork: closes what the thread used.
  void close_in_child();

 private:
  enum class Watch : uint8_t { kService, kGuest, kPolls };

  static void* run(void* self);
  void loop();
  void serve_armed();
  void serve_beside_guest();
  void serve_disarmed();
  /// A round, or a pause where another thread has the lock. False: the latter.
  bool round(engine::TimeNs* next);
  /// Sleeps until a descriptor wants attention or the time has come; reads the wake and monitor
  /// descriptors. The others are those to receive from and to send to again, or -1.
  void wait(engine::TimeNs until, int receive_fd, int blocked_fd);
  bool change_watch(Watch from, Watch to) { return watch_.compare_exchange_strong(from, to); }
  void wake();

  std::mutex start_mutex_;
  Process* process_ = nullptr;
  pthread_t thread_{};
  bool running_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<Watch> watch_{Watch::kService};
  std::atomic<bool> guest_seen_{false};  ///< Since the last tick.
  /// Until when the thread sleeps; 0: it is awake and will look at everything anyway.
  std::atomic<engine::TimeNs> sleeps_until_{0};

  int wake_fd_ = -1;
  int monitor_fd_ = -1;
  engine::TimeNs tick_ns_ = kFirstTickNs;
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_SERVICE_THREAD_H_

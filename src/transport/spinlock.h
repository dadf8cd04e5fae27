// A lock for critical sections of some dozen instructions: one exchange to take, one store to
// leave. Waiters yield, because ranks may outnumber cores.
#ifndef ROCE_TRANSPORT_SPINLOCK_H_
#define ROCE_TRANSPORT_SPINLOCK_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace roce::transport {

/// How often a thread of this process has had to wait for a SpinLock.
inline std::atomic<uint64_t> spin_lock_waits{0};

class SpinLock {
 public:
  bool try_lock() {
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    if (!locked_.exchange(true, std::memory_order_acquire)) [[likely]] {
      return;
    }
    wait();
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  void wait() {
    spin_lock_waits.fetch_add(1, std::memory_order_relaxed);
    for (int spins = 0; !try_lock(); ++spins) {
      if (spins >= 64) {
        sched_yield();
      } else {
        __builtin_ia32_pause();
      }
    }
  }

  std::atomic<bool> locked_{false};
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_SPINLOCK_H_

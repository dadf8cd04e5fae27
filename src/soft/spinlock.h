// A one-byte lock for sections of a few dozen instructions. Waiting threads give up their core
// soon: on hosts with fewer cores than threads the holder may be the one that does not run.
#ifndef ROCE_SOFT_SPINLOCK_H_
#define ROCE_SOFT_SPINLOCK_H_

#include <sched.h>

#include <atomic>

namespace roce::soft {

inline void relax_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

class Spinlock {
 public:
  bool try_lock() {
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    for (unsigned spins = 0; !try_lock(); ++spins) {
      if (spins < 64) {
        relax_cpu();
      } else {
        sched_yield();
      }
    }
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_SPINLOCK_H_

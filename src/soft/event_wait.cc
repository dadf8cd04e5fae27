// Waiting for a completion event. The only thread that does so watches the socket itself, as the
// service thread's guest (service_thread.h): the packet that raises the event then wakes one thread
// and not two, one after the other.
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "soft/event_fd.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

/// Leaves the count also when the thread is cancelled, which unwinds the stack.
class Waiter {
 public:
  explicit Waiter(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
  ~Waiter() { count_.fetch_sub(1); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  bool alone() const { return count_.load() == 1; }

 private:
  std::atomic<int>& count_;
};

}  // namespace

bool Process::wait_for_event(int event_fd) {
  if (try_take_event_fd(event_fd)) return true;
  if (!is_blocking(event_fd)) return take_event_fd(event_fd);
  const Waiter waiter(event_waiters_);
  for (;;) {
    if (!waiter.alone()) service_.dismiss_guest();
    if (!waiter.alone() || !service_.admit_guest()) return take_event_fd(event_fd);
    if (!watch_as_guest(event_fd)) return false;
    if (try_take_event_fd(event_fd)) return true;
  }
}

/// One round, and a sleep unless the round raised the event. False with errno: a signal came, or
/// the descriptor is gone.
bool Process::watch_as_guest(int event_fd) {
  engine::TimeNs next = engine::kNever;
  const bool looked = guest_round(&next);
  pollfd fds[3] = {{event_fd, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLOUT, 0}};
  engine::TimeNs sleep = ServiceThread::kLockMissNs;
  if (looked) {
    fds[1].fd = receive_fd();
    fds[2].fd = blocked_fd();
    const engine::TimeNs time = now();
    sleep = next <= time ? 0 : std::min(next - time, ServiceThread::kLongestSleepNs);
  }
  const timespec limit = to_timespec(sleep);
  if (ppoll(fds, std::size(fds), &limit, nullptr) < 0) return false;
  if ((fds[0].revents & POLLNVAL) == 0) return true;
  errno = EBADF;
  return false;
}

}  // namespace roce::soft

#include "soft/service_thread.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "soft/event_fd.h"
#include "soft/interfaces.h"
#include "soft/process.h"

namespace roce::soft {
timespec to_timespec(engine::TimeNs ns) {
  constexpr engine::TimeNs kNsPerSecond = 1'000'000'000;
  return {static_cast<time_t>(ns / kNsPerSecond), static_cast<long>(ns % kNsPerSecond)};
}

int ServiceThread::start(Process& process) {
  std::lock_guard guard(start_mutex_);
  if (running_) return 0;
  process_ = &process;
  if (wake_fd_ < 0) wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return errno;
  if (monitor_fd_ < 0) monitor_fd_ = open_change_monitor();
  stop_.store(false);
  watch_.store(Watch::kService);
  // The thread must not run the program's signal handlers, so it starts with all signals blocked.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, &ServiceThread::run, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  running_ = error == 0;
  return error;
}

void ServiceThread::stop() {
  std::lock_guard guard(start_mutex_);
  if (!running_) return;
  stop_.store(true);
  wake();
  pthread_join(thread_, nullptr);
  running_ = false;
}

void ServiceThread::close_in_child() {
  close_descriptor(wake_fd_);
  close_descriptor(monitor_fd_);
  wake_fd_ = monitor_fd_ = -1;
}

void ServiceThread::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

void ServiceThread::hurry() {
  sleeps_until_.store(0, std::memory_order_relaxed);
  wake();
}

void ServiceThread::arm() {
  // A plain look first: programs arm completion queues often while the thread is armed already.
  if (disarmed() && change_watch(Watch::kPolls, Watch::kService)) wake();
}

void ServiceThread::disarm() {
  if (!disarmed() && watch_.exchange(Watch::kPolls) != Watch::kPolls) wake();
}

bool ServiceThread::admit_guest() {
  if (!guest_seen_.load(std::memory_order_relaxed)) guest_seen_.store(true);
  if (change_watch(Watch::kService, Watch::kGuest)) wake();
  return watch_.load() == Watch::kGuest;
}

void ServiceThread::dismiss_guest() {
  if (change_watch(Watch::kGuest, Watch::kService)) wake();
}

namespace {

/// Where programs compute on every core, the scheduler lets a thread that wakes wait for the end of
/// a time slice, milliseconds, unless it asks for less time than they do. Kernels from 6.12 on take
/// the wish (struct sched_attr, sched_runtime) from anyone; others ignore or refuse it, which is
/// harmless.
void ask_for_short_slices() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.runtime_ns = 100'000;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void* ServiceThread::run(void* self) {
  pthread_setname_np(pthread_self(), "roce-soft");
  // Deferred acknowledgements are due within 20 us; the default slack is 50.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  ask_for_short_slices();
  static_cast<ServiceThread*>(self)->loop();
  return nullptr;
}

void ServiceThread::loop() {
  while (!stop_.load()) {
    process_->count(Process::Count::kServiceWakes);
    switch (watch_.load()) {
      case Watch::kService:
        serve_armed();
        break;
      case Watch::kGuest:
        serve_beside_guest();
        break;
      case Watch::kPolls:
        serve_disarmed();
        break;
    }
  }
}

void ServiceThread::serve_armed() {
  tick_ns_ = kFirstTickNs;
  engine::TimeNs next = engine::kNever;
  if (round(&next)) wait(next, process_->receive_fd(), process_->blocked_fd());
}

void ServiceThread::serve_beside_guest() {
  tick_ns_ = kFirstTickNs;
  const engine::TimeNs until = Process::now() + tick_ns_;
  wait(until, -1, process_->blocked_fd());
  if (Process::now() < until) {
    engine::TimeNs next;
    if (process_->blocked_fd() >= 0) round(&next);
  } else if (!guest_seen_.exchange(false)) {
    change_watch(Watch::kGuest, Watch::kService);
  }
}

void ServiceThread::serve_disarmed() {
  const engine::TimeNs until = Process::now() + tick_ns_;
  wait(until, -1, -1);
  const engine::TimeNs now = Process::now();
  if (!disarmed() || now < until) return;  // Armed by req_notify, or the monitor spoke.
  tick_ns_ = std::min(2 * tick_ns_, kLastTickNs);
  if (now - std::min(now, process_->last_look_seen()) > kArmAfterNs) {
    change_watch(Watch::kPolls, Watch::kService);
  }
}

bool ServiceThread::round(engine::TimeNs* next) {
  if (process_->service_round(next)) return true;
  // The holder does the work. Watching the socket meanwhile would only spin.
  const timespec pause = to_timespec(kLockMissNs);
  nanosleep(&pause, nullptr);
  return false;
}

void ServiceThread::wait(engine::TimeNs until, int receive_fd, int blocked_fd) {
  pollfd fds[4] = {{wake_fd_, POLLIN, 0},
                   {monitor_fd_, POLLIN, 0},
                   {receive_fd, POLLIN, 0},
                   {blocked_fd, POLLOUT, 0}};
  const engine::TimeNs now = Process::now();
  const engine::TimeNs sleep = until <= now ? 0 : std::min(until - now, kLongestSleepNs);
  const timespec limit = to_timespec(sleep);
  const int ready = ppoll(fds, std::size(fds), &limit, nullptr);
  plan(0);
  if (ready <= 0) return;
  if (fds[0].revents != 0) {
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof count);
  }
  if (fds[1].revents != 0 && drain_change_monitor(monitor_fd_)) process_->refresh_devices();
}

}  // namespace roce::soft

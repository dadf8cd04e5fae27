// The progress lock and what its holder does with it.
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "soft/process.h"

namespace roce::soft {
namespace {

/// How long after a poll a burst of posts counts as polling.
constexpr engine::TimeNs kLongestBurstNs = 1'000'000;

}  // namespace

engine::TimeNs Process::now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<engine::TimeNs>(time.tv_sec) * 1'000'000'000 +
         static_cast<engine::TimeNs>(time.tv_nsec);
}

// ---- the lock ----
//
// A thread that is cancelled while it has the lock would keep it for ever, and the socket's calls
// are cancellation points; so whoever has it cannot be cancelled.

bool Process::try_enter() {
  // Control calls wait for the lock; a thread that polls in a loop must not keep it from them. The
  // waiter looks at the flags when it leaves, so nothing that was posted gets lost.
  if (control_waiters_.load(std::memory_order_seq_cst) != 0) return false;
  if (locked_.load(std::memory_order_seq_cst) || locked_.exchange(true, std::memory_order_seq_cst))
    return false;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  return true;
}

void Process::enter() {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  control_waiters_.fetch_add(1, std::memory_order_seq_cst);
  for (unsigned spins = 0; locked_.exchange(true, std::memory_order_seq_cst); ++spins) {
    if (spins < 100) {
      relax_cpu();
    } else if (spins < 1000) {
      sched_yield();
    } else {
      const timespec pause = {0, 20'000};
      nanosleep(&pause, nullptr);
    }
  }
  control_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  cancel_state_ = before;
}

bool Process::enter_within(std::chrono::milliseconds limit) {
  const engine::TimeNs end = now() + static_cast<engine::TimeNs>(limit.count()) * 1'000'000;
  while (locked_.exchange(true, std::memory_order_seq_cst)) {
    if (now() > end) return false;
    sched_yield();
  }
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  return true;
}

void Process::leave() {
  const int before = cancel_state_;
  for (;;) {
    locked_.store(false, std::memory_order_seq_cst);
    // A poster raises its flag, then tries the lock; this thread let the lock go, then looks at the
    // flags. One of the two sees the other.
    if (flagged_.load(std::memory_order_seq_cst) == nullptr || !try_enter()) break;
    drive(now());
  }
  pthread_setcancelstate(before, nullptr);
}

// ---- flags ----

void Process::raise_flag(Qp& qp) {
  if (qp.flagged.exchange(true, std::memory_order_seq_cst)) return;
  Qp* head = flagged_.load(std::memory_order_relaxed);
  do {
    qp.next_flagged = head;
  } while (!flagged_.compare_exchange_weak(head, &qp, std::memory_order_seq_cst));
}

void Process::take_up_flagged(engine::TimeNs now) {
  if (flagged_.load(std::memory_order_relaxed) == nullptr) return;
  Qp* qp = flagged_.exchange(nullptr, std::memory_order_seq_cst);
  while (qp != nullptr) {
    Qp* next = qp->next_flagged;
    // Cleared before the rings are read: whoever posts from now on flags the queue pair again.
    qp->flagged.store(false, std::memory_order_seq_cst);
    take_up(*qp, now);
    qp = next;
  }
}

void Process::posted(Qp& qp) {
  raise_flag(qp);
  if (service_.disarmed() &&
      batching_.may_wait(qp.sends.engine_used.load(std::memory_order_relaxed))) {
    return;
  }
  if (!try_enter()) return;
  const engine::TimeNs time = now();
  batching_.posted(time);
  // A program that polls does not while it posts one message after the other. So that the service
  // thread need not take over for such a burst, the burst reads the socket.
  if (time - last_look_ > ServiceThread::kBusyPollNs && time - last_poll_ < kLongestBurstNs) {
    note_look(time);
    receive_batch(time);
  }
  drive(time);
  leave();
}

// ---- one round ----

void Process::touch(Qp& qp) {
  if (qp.touched) return;
  qp.touched = true;
  touched_.push_back(&qp);  // Room was reserved with the queue pair.
}

void Process::run_timers(engine::TimeNs now) {
  while (TimerHeap::Entry* entry = timers_.pop_due(now)) {
    Qp& qp = *entry->qp;
    if (qp.engine->poll_timer() <= now) {
      qp.engine->handle_timer(now);
      settle(qp);
      after_timer(*this, qp);
    }
    ask_again(*this, qp, now);
    // Sent with the batch, which also enters the next deadline.
    touch(qp);
  }
}

void Process::drive(engine::TimeNs now) {
  take_up_flagged(now);
  run_timers(now);
  transmit(now);
  service_.need_by(next_deadline());
}

engine::TimeNs Process::next_deadline() const {
  return touched_.empty() || blocked_ ? timers_.earliest() : 0;
}

void Process::note_look(engine::TimeNs now) {
  last_look_ = now;
  last_look_seen_.store(now, std::memory_order_relaxed);
}

/// Busy polling is told by its rate: gaps are normal while the service thread, still armed, takes
/// the core away for each packet.
void Process::note_poll(engine::TimeNs now) {
  if (now - last_look_ > ServiceThread::kArmAfterNs) {
    polls_since_ = now;
    polls_ = 0;
  }
  ++polls_;
  last_poll_ = now;
  note_look(now);
  const engine::TimeNs span = now - polls_since_;
  if (span <= ServiceThread::kDisarmAfterNs || service_.disarmed()) return;
  if (polls_ * ServiceThread::kBusyPollNs >= span) {
    count(Count::kDisarms);
    service_.disarm();
  }
  polls_since_ = now;
  polls_ = 0;
}

int Process::poll() {
  if (!try_enter()) {
    count(Count::kLockMisses);
    // Whoever has the lock or is let go first may be waiting for this thread's core.
    if (service_inside_.load(std::memory_order_relaxed) ||
        control_waiters_.load(std::memory_order_relaxed) != 0) {
      sched_yield();
    }
    return 0;
  }
  int packets = 0;
  if (udp_ != nullptr) {
    const engine::TimeNs time = now();
    note_poll(time);
    batching_.polled(time);
    take_up_flagged(time);
    packets = receive_batch(time);
    drive(time);
  }
  leave();
  return packets;
}

/// The lock is held: what a thread does that was woken, instead of one that polls.
engine::TimeNs Process::look_unpolled(engine::TimeNs time) {
  if (udp_ != nullptr) {
    batching_.not_polled();
    take_up_flagged(time);
    receive_batch(time);
    drive(time);
  }
  return next_deadline();
}

bool Process::service_round(engine::TimeNs* next) {
  if (!try_enter()) return false;
  service_inside_.store(true, std::memory_order_relaxed);
  *next = look_unpolled(now());
  service_.plan(*next);
  service_inside_.store(false, std::memory_order_relaxed);
  leave();
  return true;
}

bool Process::guest_round(engine::TimeNs* next) {
  if (!try_enter()) return false;
  const engine::TimeNs time = now();
  *next = look_unpolled(time);
  polls_since_ = time;  // Who blocks is no busy poller.
  polls_ = 0;
  leave();
  return true;
}

int progress() {
  Process* process = Process::usable();
  return process == nullptr ? 0 : process->poll();
}

}  // namespace roce::soft

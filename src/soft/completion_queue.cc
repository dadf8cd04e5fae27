// Completion queues: a ring that one thread fills, the holder of the progress lock, and any thread
// reads.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "soft/event_fd.h"
#include "soft/objects.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

constexpr uint32_t kFirstCompletions = 64;

void wait_for(pthread_mutex_t* mutex, pthread_cond_t* condition, const uint32_t* completed,
              const uint32_t* reported) {
  pthread_mutex_lock(mutex);
  while (*completed != *reported) pthread_cond_wait(condition, mutex);
  pthread_mutex_unlock(mutex);
}

void drop_completion_events(Cq& cq) {
  if (cq.channel == nullptr) return;
  Channel& channel = *channel_of(cq.channel);
  std::lock_guard guard(channel.mutex);
  std::erase(channel.waiting, &cq);
  for (; cq.pending_events != 0; --cq.pending_events) try_take_event_fd(channel.fd);
}

/// Copies up to `count` completions out of the ring.
int take_completions(Cq& cq, int count, ibv_wc* out) {
  if (cq.head.load(std::memory_order_acquire) == cq.tail.load(std::memory_order_relaxed)) return 0;
  cq.poll_lock.lock();
  const uint32_t tail = cq.tail.load(std::memory_order_relaxed);
  const uint32_t ready = cq.head.load(std::memory_order_acquire) - tail;
  const uint32_t taken = std::min(ready, static_cast<uint32_t>(count));
  for (uint32_t i = 0; i < taken; ++i) out[i] = cq.ring[tail + i];
  cq.tail.store(tail + taken, std::memory_order_release);
  cq.poll_lock.unlock();
  return static_cast<int>(taken);
}

/// Whether completion `head` fits beside those that are not polled. Out of memory counts as full.
bool make_room(Cq& cq, uint32_t head) {
  const uint32_t tail = cq.tail.load(std::memory_order_acquire);
  if (head - tail < std::min(cq.ring.places(), static_cast<uint32_t>(cq.cqe))) return true;
  if (cq.ring.places() >= static_cast<uint32_t>(cq.cqe)) return false;
  cq.poll_lock.lock();
  const bool grown = cq.ring.reserve(2 * cq.ring.places(), tail, head);
  cq.poll_lock.unlock();
  return grown;
}

}  // namespace

void push_completion(Cq& cq, const ibv_wc& completion, bool solicited) {
  const uint32_t head = cq.head.load(std::memory_order_relaxed);
  if (!make_room(cq, head)) {
    Process::instance().count(Process::Count::kCqOverruns);
    if (cq.overflowed) return;
    cq.overflowed = true;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = to_verbs(&cq);
    raise_async_event(*context_of(cq.context), event);
    return;
  }
  cq.ring[head] = completion;
  // Sequentially consistent with req_notify: either the arming thread sees this completion when it
  // polls again, or this thread sees that the CQ is armed.
  cq.head.store(head + 1, std::memory_order_seq_cst);
  const int armed = cq.armed.load(std::memory_order_seq_cst);
  if (armed == 0 || (armed == 1 && !solicited)) return;
  cq.armed.store(0, std::memory_order_relaxed);
  if (cq.channel != nullptr) raise_completion_event(cq);
}

void remove_completions(Cq& cq, uint32_t qpn) {
  cq.poll_lock.lock();
  const uint32_t tail = cq.tail.load(std::memory_order_relaxed);
  const uint32_t head = cq.head.load(std::memory_order_relaxed);
  uint32_t kept = tail;
  for (uint32_t i = tail; i != head; ++i) {
    if (cq.ring[i].qp_num != qpn) cq.ring[kept++] = cq.ring[i];
  }
  cq.head.store(kept, std::memory_order_release);
  cq.poll_lock.unlock();
}

int poll_cq(ibv_cq* verbs, int count, ibv_wc* out) {
  if (count <= 0) return count == 0 ? 0 : -EINVAL;
  Cq& cq = *cq_of(verbs);
  int taken = take_completions(cq, count, out);
  if (taken != 0) return taken;
  Process* process = Process::usable();
  if (process == nullptr) return -1;
  process->poll();
  return take_completions(cq, count, out);
}

int req_notify_cq(ibv_cq* verbs, int solicited_only) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  Cq& cq = *cq_of(verbs);
  // "Any" outweighs "solicited" until an event has been raised.
  const int wanted = solicited_only != 0 ? 1 : 2;
  int armed = cq.armed.load(std::memory_order_relaxed);
  while (armed < wanted && !cq.armed.compare_exchange_weak(armed, wanted)) {
  }
  process->arm_service();
  return 0;
}

ibv_cq* create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                  int vector) {
  Process* process = Process::usable();
  if (process == nullptr) return nullptr;
  if (entries <= 0 || entries > static_cast<int>(kMaxCqEntries) || vector < 0 ||
      vector >= context->num_comp_vectors || (channel != nullptr && channel->context != context)) {
    errno = EINVAL;
    return nullptr;
  }
  std::unique_ptr<Cq> cq(new (std::nothrow) Cq());
  const uint32_t places = std::bit_ceil(static_cast<uint32_t>(entries));
  if (cq == nullptr || !cq->ring.reserve(std::min(places, kFirstCompletions), 0, 0)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (const int error = process->start_service(); error != 0) {
    errno = error;
    return nullptr;
  }
  if (!context_of(context)->device_state->completion_queues.take()) {
    errno = ENOMEM;
    return nullptr;
  }
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = static_cast<int>(places);
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  context_of(context)->users.fetch_add(1);
  if (channel != nullptr) channel_of(channel)->users.fetch_add(1);
  return to_verbs(cq.release());
}

int resize_cq(ibv_cq* verbs, int entries) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  if (entries <= 0 || entries > static_cast<int>(kMaxCqEntries)) return EINVAL;
  const uint32_t places = std::bit_ceil(static_cast<uint32_t>(entries));
  Cq& cq = *cq_of(verbs);
  const ProgressLock guard(*process);
  cq.poll_lock.lock();
  const uint32_t tail = cq.tail.load(std::memory_order_relaxed);
  const uint32_t head = cq.head.load(std::memory_order_relaxed);
  const bool fits = head - tail <= places;
  if (fits) cq.cqe = static_cast<int>(places);
  cq.poll_lock.unlock();
  return fits ? 0 : EINVAL;
}

int destroy_cq(ibv_cq* verbs) {
  if (!Process::usable()) return errno;
  Cq* cq = cq_of(verbs);
  if (cq->users.load() != 0) return EBUSY;
  drop_completion_events(*cq);
  drop_async_events(*context_of(cq->context), to_verbs(cq));
  wait_for(&cq->mutex, &cq->cond, &cq->comp_events_completed, &cq->comp_events_reported);
  wait_for(&cq->mutex, &cq->cond, &cq->async_events_completed, &cq->async_events_reported);
  if (cq->channel != nullptr) channel_of(cq->channel)->users.fetch_sub(1);
  context_of(cq->context)->users.fetch_sub(1);
  context_of(cq->context)->device_state->completion_queues.give();
  pthread_cond_destroy(&cq->cond);
  pthread_mutex_destroy(&cq->mutex);
  delete cq;
  return 0;
}

}  // namespace roce::soft

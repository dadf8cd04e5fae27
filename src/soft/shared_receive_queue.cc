// Shared receive queues.
#include <cerrno>
#include <new>

#include "soft/process.h"

namespace roce::soft {
namespace {

/// Receive requests that queue pairs hold beside those that wait. With more than this many messages
/// in the making, requests stay in the ring a little longer.
constexpr uint32_t kSharedSlack = 256;

/// Hands the posted requests to the engine's queue.
void take_up_receives(Srq& srq) {
  ReceiveRing& ring = srq.receive.ring;
  ring.lock.lock();
  while (ring.taken != ring.head &&
         srq.receive.queue->post(ring.requests[ring.taken & ring.mask])) {
    ++ring.taken;
  }
  ring.engine_used.store(srq.receive.queue->posted(), std::memory_order_release);
  ring.publish();
  ring.lock.unlock();
}

}  // namespace

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  Process* process = Process::usable();
  if (process == nullptr) return nullptr;
  ibv_srq_attr& attr = attributes->attr;
  if (attr.max_wr == 0 || attr.max_wr > kMaxWorkRequests || attr.max_sge > kMaxSge) {
    errno = EINVAL;
    return nullptr;
  }
  std::unique_ptr<Srq> srq;
  try {
    srq = std::make_unique<Srq>();
    if (attr.max_sge == 0) attr.max_sge = 1;
    srq->receive.ring.allocate(attr.max_wr, attr.max_sge);
    srq->receive.queue =
        std::make_unique<engine::ReceiveQueue>(attr.max_wr + kSharedSlack, attr.max_sge);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
  if (!context_of(pd->context)->device_state->shared_receive_queues.take()) {
    errno = ENOMEM;
    return nullptr;
  }
  srq->context = pd->context;
  srq->srq_context = attributes->srq_context;
  srq->pd = pd;
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  pd_of(pd)->users.fetch_add(1);
  return srq.release();
}

int modify_srq(ibv_srq* verbs, ibv_srq_attr* attributes, int mask) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  // The queue's size is fixed: device_cap_flags do not offer IBV_DEVICE_SRQ_RESIZE.
  if ((mask & ~IBV_SRQ_LIMIT) != 0) return (mask & IBV_SRQ_MAX_WR) != 0 ? EOPNOTSUPP : EINVAL;
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  Srq& srq = *srq_of(verbs);
  if (attributes->srq_limit > srq.receive.ring.room) return EINVAL;
  const ProgressLock guard(*process);
  take_up_receives(srq);
  srq.limit = attributes->srq_limit;
  srq.receive.queue->arm_limit(srq.limit);
  if (srq.receive.queue->take_limit_event()) {
    srq.limit = 0;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    event.element.srq = verbs;
    raise_async_event(*context_of(srq.context), event);
  }
  return 0;
}

int query_srq(ibv_srq* verbs, ibv_srq_attr* attributes) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  Srq& srq = *srq_of(verbs);
  const ProgressLock guard(*process);
  *attributes = {srq.receive.ring.room, srq.receive.ring.max_sge, srq.limit};
  return 0;
}

int destroy_srq(ibv_srq* verbs) {
  if (!Process::usable()) return errno;
  Srq* srq = srq_of(verbs);
  if (srq->users.load() != 0) return EBUSY;
  drop_async_events(*context_of(srq->context), verbs);
  pthread_mutex_lock(&srq->mutex);
  while (srq->events_completed != srq->events_reported) {
    pthread_cond_wait(&srq->cond, &srq->mutex);
  }
  pthread_mutex_unlock(&srq->mutex);
  pd_of(srq->pd)->users.fetch_sub(1);
  context_of(srq->context)->device_state->shared_receive_queues.give();
  pthread_cond_destroy(&srq->cond);
  pthread_mutex_destroy(&srq->mutex);
  delete srq;
  return 0;
}

}  // namespace roce::soft

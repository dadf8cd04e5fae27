// Asynchronous events and completion events: queues counted by event descriptors, so that programs
// may poll() them.
#include <cerrno>

#include <algorithm>

#include "soft/event_fd.h"
#include "soft/objects.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

/// The object that an event belongs to; nullptr for port events.
const void* affiliated_object(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq;
    default:
      return nullptr;
  }
}

void count_reported(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: {
      Cq* cq = cq_of(event.element.cq);
      pthread_mutex_lock(&cq->mutex);
      ++cq->async_events_reported;
      pthread_mutex_unlock(&cq->mutex);
      break;
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      Srq* srq = srq_of(event.element.srq);
      pthread_mutex_lock(&srq->mutex);
      ++srq->events_reported;
      pthread_mutex_unlock(&srq->mutex);
      break;
    }
    default:
      if (affiliated_object(event) != nullptr) {
        Qp* qp = qp_of(event.element.qp);
        pthread_mutex_lock(&qp->mutex);
        ++qp->async_events_reported;
        pthread_mutex_unlock(&qp->mutex);
      }
  }
}

void acknowledge(pthread_mutex_t* mutex, pthread_cond_t* condition, uint32_t* completed,
                 uint32_t count) {
  pthread_mutex_lock(mutex);
  *completed += count;
  pthread_cond_broadcast(condition);
  pthread_mutex_unlock(mutex);
}

}  // namespace

void raise_async_event(Context& context, const ibv_async_event& event) {
  {
    std::lock_guard guard(context.async.mutex);
    context.async.events.push_back(event);
  }
  post_event_fd(context.context.async_fd);
}

void drop_async_events(Context& context, const void* object) {
  std::lock_guard guard(context.async.mutex);
  auto& events = context.async.events;
  const auto of_object = [object](const ibv_async_event& event) {
    return affiliated_object(event) == object;
  };
  const auto kept = std::remove_if(events.begin(), events.end(), of_object);
  for (auto it = kept; it != events.end(); ++it) try_take_event_fd(context.context.async_fd);
  events.erase(kept, events.end());
}

int get_async_event(ibv_context* verbs, ibv_async_event* event) {
  if (!Process::usable()) return -1;
  Context& context = *context_of(verbs);
  // A token whose event was dropped by a destroy call leads to another round.
  while (take_event_fd(verbs->async_fd)) {
    std::lock_guard guard(context.async.mutex);
    if (context.async.events.empty()) continue;
    *event = context.async.events.front();
    context.async.events.pop_front();
    count_reported(*event);
    return 0;
  }
  return -1;
}

void ack_async_event(ibv_async_event* event) {
  if (affiliated_object(*event) == nullptr) return;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq* cq = event->element.cq;
      acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
      break;
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq* srq = event->element.srq;
      acknowledge(&srq->mutex, &srq->cond, &srq->events_completed, 1);
      break;
    }
    default: {
      ibv_qp* qp = event->element.qp;
      acknowledge(&qp->mutex, &qp->cond, &qp->events_completed, 1);
    }
  }
}

ibv_comp_channel* create_comp_channel(ibv_context* verbs) {
  if (!Process::usable()) return nullptr;
  auto channel = std::make_unique<Channel>();
  channel->fd = open_event_fd();
  if (channel->fd < 0) return nullptr;
  channel->context = verbs;
  context_of(verbs)->users.fetch_add(1);
  return channel.release();
}

int destroy_comp_channel(ibv_comp_channel* verbs) {
  if (!Process::usable()) return errno;
  Channel* channel = channel_of(verbs);
  if (channel->users.load() != 0) return EBUSY;
  close_descriptor(channel->fd);
  context_of(channel->context)->users.fetch_sub(1);
  delete channel;
  return 0;
}

void raise_completion_event(Cq& cq) {
  Channel& channel = *channel_of(cq.channel);
  {
    std::lock_guard guard(channel.mutex);
    if (cq.pending_events++ == 0) channel.waiting.push_back(&cq);
  }
  post_event_fd(channel.fd);
}

int get_cq_event(ibv_comp_channel* verbs, ibv_cq** cq_out, void** cq_context) {
  Process* process = Process::usable();
  if (process == nullptr) return -1;
  Channel& channel = *channel_of(verbs);
  while (process->wait_for_event(channel.fd)) {
    std::lock_guard guard(channel.mutex);
    if (channel.waiting.empty()) continue;
    Cq* cq = channel.waiting.front();
    channel.waiting.pop_front();
    if (--cq->pending_events != 0) channel.waiting.push_back(cq);
    pthread_mutex_lock(&cq->mutex);
    ++cq->comp_events_reported;
    pthread_mutex_unlock(&cq->mutex);
    *cq_out = to_verbs(cq);
    *cq_context = cq->cq_context;
    return 0;
  }
  return -1;
}

void ack_cq_events(ibv_cq* cq, unsigned count) {
  if (count != 0) acknowledge(&cq->mutex, &cq->cond, &cq->comp_events_completed, count);
}

}  // namespace roce::soft

// Completion channels, completion queues and asynchronous events.
#include "preload/next.h"

namespace soft = roce::soft;

ROCE_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return soft::owns(context) ? soft::create_comp_channel(context)
                             : ROCE_NEXT(ibv_create_comp_channel)(context);
}

ROCE_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return soft::owns(channel->context) ? soft::destroy_comp_channel(channel)
                                      : ROCE_NEXT(ibv_destroy_comp_channel)(channel);
}

ROCE_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return soft::owns(channel->context) ? soft::get_cq_event(channel, cq, cq_context)
                                      : ROCE_NEXT(ibv_get_cq_event)(channel, cq, cq_context);
}

ROCE_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  soft::owns(cq->context) ? soft::ack_cq_events(cq, count)
                          : ROCE_NEXT(ibv_ack_cq_events)(cq, count);
}

ROCE_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                                  ibv_comp_channel* channel, int vector) {
  return soft::owns(context)
             ? soft::create_cq(context, entries, cq_context, channel, vector)
             : ROCE_NEXT(ibv_create_cq)(context, entries, cq_context, channel, vector);
}

ROCE_EXPORT int ibv_resize_cq(ibv_cq* cq, int entries) {
  return soft::owns(cq->context) ? soft::resize_cq(cq, entries)
                                 : ROCE_NEXT(ibv_resize_cq)(cq, entries);
}

ROCE_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  return soft::owns(cq->context) ? soft::destroy_cq(cq) : ROCE_NEXT(ibv_destroy_cq)(cq);
}

ROCE_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return soft::owns(context) ? soft::get_async_event(context, event)
                             : ROCE_NEXT(ibv_get_async_event)(context, event);
}

namespace {

/// Context of the object that an event names; null where it names a port or the device, whose
/// events need no acknowledgement in either library.
ibv_context* context_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq->context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq->context;
    case IBV_EVENT_WQ_FATAL:
      return event.element.wq->context;
    default:
      return nullptr;
  }
}

}  // namespace

ROCE_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  const ibv_context* context = context_of(*event);
  const bool ours = context != nullptr && soft::owns(context);
  ours ? soft::ack_async_event(event) : ROCE_NEXT(ibv_ack_async_event)(event);
}

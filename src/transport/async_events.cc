// Asynchronous events of the devices, read by the connection thread: errors that no completion
// tells, for one, of a queue pair that only answers its peer.
#include "transport/connection_thread.h"
#include "transport/link.h"

namespace roce::transport {
namespace {

enum class Scope { kNone, kQueuePair, kDevice };

Scope scope_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return Scope::kQueuePair;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
      return Scope::kDevice;
    default:
      return Scope::kNone;
  }
}

}  // namespace

void ConnectionThread::handle_async_event(Rail& rail) {
  ibv_async_event event;
  if (rail.table().get_async_event(rail.context.get(), &event) != 0) {
    return;
  }
  Scope scope = scope_of(event.event_type);
  std::string what = rail.table().event_type_str(event.event_type);
  uint32_t qpn = scope == Scope::kQueuePair ? event.element.qp->qp_num : 0;
  rail.table().ack_async_event(&event);  // destroying the queue pair waits for this
  if (scope == Scope::kDevice) {
    core_.events.defer({{.type = Event::Type::kFailed},
                        0,
                        "device " + rail.name() + " has failed: " + what +
                            "; see the kernel's log, and leave it out with if_exclude"});
    return;
  }
  core_.log(scope == Scope::kQueuePair ? 1 : 2, "device " + rail.name() + ": " + what);
  if (scope != Scope::kQueuePair) {
    return;
  }
  for (auto& [endpoint, connection] : connections_) {
    if (connection->rail == &rail && connection->qp && connection->qp.qpn() == qpn) {
      endpoint->link().fail_by_event(what);
      return;
    }
  }
}

}  // namespace roce::transport

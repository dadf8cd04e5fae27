// Completion channel, completion queue, shared receive queue.
#include <poll.h>

#include <cerrno>

#include "verbs/objects.h"

namespace roce::verbs {

Result<CompletionChannel> CompletionChannel::create(const Context& context) {
  errno = 0;
  ibv_comp_channel* channel = context.table().create_comp_channel(context.get());
  if (channel == nullptr) {
    return call_failed(context.name(), "create_comp_channel", errno,
                       errno == EMFILE ? "Raise the limit of open files (ulimit -n)." : "");
  }
  return CompletionChannel(context.table(), channel);
}

Result<void*> CompletionChannel::wait(std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + limit;
  const std::string device = device_name(table(), get()->context);
  pollfd entry = {fd(), POLLIN, 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    const int ready = poll(&entry, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    if (ready > 0) break;
    if (ready == 0) {
      return Status(Code::kTimedOut, device + ": no completion event within " +
                                         std::to_string(limit.count()) + " ms.");
    }
    if (errno != EINTR) return call_failed(device, "poll(completion channel)", errno, "");
  }
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  errno = 0;
  if (table().get_cq_event(get(), &cq, &cq_context) != 0) {
    return call_failed(device, "get_cq_event", errno, "");
  }
  table().ack_cq_events(cq, 1);
  return cq_context;
}

Result<CompletionQueue> CompletionQueue::create(const Context& context, int entries,
                                                const CompletionChannel* channel,
                                                void* cq_context) {
  errno = 0;
  ibv_cq* cq = context.table().create_cq(context.get(), entries, cq_context,
                                         channel == nullptr ? nullptr : channel->get(), 0);
  if (cq == nullptr) {
    const int error = errno;
    std::string remedy;
    if (const auto device = context.query_device()) {
      remedy = "The device takes 1 to " + std::to_string(device.value().max_cqe) + " entries and " +
               std::to_string(device.value().max_cq) + " completion queues.";
    }
    return call_failed(context.name(), "create_cq(" + std::to_string(entries) + " entries)", error,
                       remedy);
  }
  return CompletionQueue(context.table(), cq);
}

Status CompletionQueue::arm(bool solicited_only) const {
  const int error = ibv_req_notify_cq(get(), solicited_only);
  if (error == 0) return Status::ok();
  return call_failed(device_name(table(), get()->context), "req_notify_cq", error, "");
}

Status CompletionQueue::resize(int entries) {
  const int error = table().resize_cq(get(), entries);
  if (error == 0) return Status::ok();
  return call_failed(device_name(table(), get()->context),
                     "resize_cq(from " + std::to_string(get()->cqe) + " to " +
                         std::to_string(entries) + " entries)",
                     error, "");
}

Result<SharedReceiveQueue> SharedReceiveQueue::create(const ProtectionDomain& pd,
                                                      uint32_t max_requests, uint32_t max_sge) {
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = max_requests;
  attributes.attr.max_sge = max_sge;
  errno = 0;
  ibv_srq* srq = pd.table().create_srq(pd.get(), &attributes);
  if (srq == nullptr) {
    const int error = errno;
    ibv_device_attr device{};
    std::string remedy;
    if (pd.table().query_device(pd.get()->context, &device) == 0) {
      remedy = "The device takes " + std::to_string(device.max_srq_wr) + " requests of " +
               std::to_string(device.max_srq_sge) + " entries, and " +
               std::to_string(device.max_srq) + " shared receive queues.";
    }
    return call_failed(device_name(pd.table(), pd.get()->context),
                       "create_srq(" + std::to_string(max_requests) + " requests of " +
                           std::to_string(max_sge) + " entries)",
                       error, remedy);
  }
  return SharedReceiveQueue(pd.table(), srq);
}

Status SharedReceiveQueue::set_limit(uint32_t limit) const {
  ibv_srq_attr attributes{};
  attributes.srq_limit = limit;
  const int error = table().modify_srq(get(), &attributes, IBV_SRQ_LIMIT);
  if (error == 0) return Status::ok();
  return call_failed(device_name(table(), get()->context),
                     "modify_srq(limit " + std::to_string(limit) + ")", error, "");
}

}  // namespace roce::verbs

#include "transport/poller.h"

#include "transport/endpoint.h"
#include "transport/header.h"
#include "transport/link.h"

namespace roce::transport {
namespace {

constexpr int kPollBatch = 32;
/// Each completion makes at most one event.
static_assert(kPollBatch <= static_cast<int>(EventBatch::kCapacity));
/// Events run by one call, so that a flood of messages lets the caller go on.
constexpr int kMaxEventsPerCall = 64;
constexpr uint32_t kIndexMask = 0xFFFFF;  // of wr_id, see Link::attach

}  // namespace

int Poller::progress() {
  int count = 0;
  if (core_.events.has_deferred()) [[unlikely]] {
    count += run_deferred();
  }
  Event event;
  if (poll(&event)) {
    run(event);
    ++count;
  }
  while (count < kMaxEventsPerCall && core_.events.pop(&event)) {
    run(event);
    ++count;
  }
  return count;
}

/// Polls, unless another thread does. The first event is handed back without a detour through the
/// queue, if nothing is in there that must come before it; not if `first` is null.
bool Poller::poll(Event* first) {
  if (!core_.events.has_room()) {
    return false;
  }
  if (!lock_.try_lock()) {
    core_.counters.add(Counter::poll_misses);
    return false;
  }
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  bool found = false;
  for (auto& rail : core_.rails) {
    if (!rail->active.load(std::memory_order_acquire) || !core_.events.has_room()) {
      continue;
    }
    EventBatch batch;
    poll_rail(*rail, batch);
    if (batch.count == 0) {
      continue;
    }
    uint32_t from = 0;
    if (first != nullptr && !found && core_.events.empty()) {
      *first = batch.events[0];
      found = true;
      from = 1;
    }
    if (from < batch.count) {
      core_.events.push(batch, from);
    }
  }
  lock_.unlock();
  return found;
}

void Poller::poll_rail(Rail& rail, EventBatch& batch) {
  ibv_wc completions[kPollBatch];
  int count = ibv_poll_cq(rail.cq.get(), kPollBatch, completions);
  for (int i = 0; i < count; ++i) {
    if ((completions[i].wr_id & kReceiveBit) != 0) {
      handle_receive(rail, completions[i], batch);
    } else {
      handle_send(completions[i], batch);
    }
  }
  if (count < kPollBatch) {
    rail.drained.store(rail.drained.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  resume_waiters(rail);
}

void Poller::handle_receive(Rail& rail, const ibv_wc& wc, EventBatch& batch) {
  auto index = static_cast<uint32_t>(wc.wr_id);
  if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
    if (wc.status != IBV_WC_WR_FLUSH_ERR) {
      for (Endpoint* endpoint : core_.peers.all()) {
        if (Link* link = endpoint->link_if_any()) link->handle_receive_error(wc);
      }
    }
    rail.receives.recycle(index);
    return;
  }
  uint8_t* buffer = rail.receives.buffer(index);
  MessageHeader header;
  Endpoint* endpoint = nullptr;
  Link* link = nullptr;
  if (load_header(buffer, wc.byte_len, &header)) [[likely]] {
    endpoint = core_.peers.at(header.endpoint);
    link = endpoint == nullptr ? nullptr : endpoint->link_if_any();
  }
  if (link == nullptr || !link->handle_header(header, wc.qp_num)) [[unlikely]] {
    core_.counters.add(Counter::bad_messages);
    rail.receives.recycle(index);
    return;
  }
  if (header.kind == MessageKind::kCredit) {
    rail.receives.recycle(index);
    return;
  }
  rail.gets.message(wc.byte_len);
  batch.push({.type = Event::Type::kMessage,
              .tag = header.tag,
              .rail = static_cast<uint8_t>(rail.index),
              .bytes = header.length,
              .buffer = index,
              .data = buffer + kHeaderBytes,
              .endpoint = endpoint});
}

void Poller::handle_send(const ibv_wc& wc, EventBatch& batch) {
  Endpoint* endpoint = core_.peers.at(static_cast<uint32_t>(wc.wr_id >> 32) & kIndexMask);
  if (endpoint != nullptr) {
    endpoint->link().handle_completion(wc, batch);
  }
}

/// Each that wants more queues itself again, hence the bound.
void Poller::resume_waiters(Rail& rail) {
  constexpr int kMaxResumed = 8;
  for (int i = 0; i < kMaxResumed; ++i) {
    flow::Getter* peer = rail.gets.next();
    if (peer == nullptr) {
      return;
    }
    static_cast<Link*>(peer->owner)->resume();
    rail.gets.end_turn();
  }
}

void Poller::run_message(const Event& event) {
  if (!silent_.load(std::memory_order_relaxed)) [[likely]] {
    core_.options.receive(core_.options.context, event.endpoint, event.tag, event.data,
                          event.bytes);
  }
  // The buffer goes back first: the credit promises it.
  core_.rails[event.rail].receives.recycle(event.buffer);
  event.endpoint->link().message_consumed(event.bytes);
}

void Poller::run(const Event& event) {
  if (event.type == Event::Type::kMessage) [[likely]] {
    run_message(event);
    return;
  }
  if (silent_.load(std::memory_order_relaxed)) {
    return;
  }
  switch (event.type) {
    case Event::Type::kFragment: {
      auto* fragment = static_cast<Fragment*>(event.object);
      fragment->complete(fragment, event.status);
      break;
    }
    case Event::Type::kOperation: {
      auto* operation = static_cast<Operation*>(event.object);
      operation->complete(operation, event.status);
      break;
    }
    case Event::Type::kFailed:
      if (core_.options.error != nullptr) {
        core_.options.error(core_.options.context, event.endpoint,
                            event.endpoint->link().failure_text());
      }
      break;
    default:
      break;
  }
}

int Poller::run_deferred() {
  int count = 0;
  DeferredEvent deferred;
  while (count < kMaxEventsPerCall && core_.events.pop_deferred(&deferred)) {
    if (deferred.event.type == Event::Type::kFailed && deferred.event.endpoint == nullptr) {
      if (core_.options.error != nullptr && !silent_.load(std::memory_order_relaxed)) {
        core_.options.error(core_.options.context, nullptr, deferred.text);
      }
    } else if (deferred.event.type != Event::Type::kLog) {
      run(deferred.event);
      ++count;
    } else if (core_.options.log != nullptr && !silent_.load(std::memory_order_relaxed)) {
      core_.options.log(core_.options.context, deferred.verbosity, deferred.text);
    }
  }
  return count;
}

}  // namespace roce::transport

// What progress() has to tell the adapter, in the order in which it happened.
//
// The poller (one at a time) gathers events in a batch and hands it over; threads take one event
// after the other and run its callback without any lock. So a callback that calls progress() gets
// the events behind its own, and messages of one peer start in order.
#ifndef ROCE_TRANSPORT_EVENTS_H_
#define ROCE_TRANSPORT_EVENTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "roce/status.h"
#include "transport/spinlock.h"

namespace roce::transport {

class Endpoint;

struct Event {
  enum class Type : uint8_t {
    kMessage,    ///< `bytes` at `data`, tag `tag`, in receive buffer `buffer` of rail `rail`.
    kFragment,   ///< `object` is a Fragment that is done with `status`.
    kOperation,  ///< `object` is an Operation that is done with `status`.
    kFailed,     ///< `endpoint` has failed; its text tells why. Null: the transport.
    kLog,        ///< `text`.
  };
  Type type = Type::kMessage;
  uint8_t tag = 0;
  uint8_t rail = 0;
  Code status = Code::kOk;
  uint32_t bytes = 0;
  uint32_t buffer = 0;
  uint8_t* data = nullptr;
  void* object = nullptr;
  Endpoint* endpoint = nullptr;
};

/// Events of one poll, on the poller's stack.
struct EventBatch {
  static constexpr uint32_t kCapacity = 64;
  EventBatch() {}
  void push(const Event& event) { std::construct_at(&events[count++], event); }

  uint32_t count = 0;
  /// In a union, so that a poll that finds nothing does not initialize 3 KB.
  union {
    Event events[kCapacity];
  };
};

/// An event from outside progress: rare, may allocate.
struct DeferredEvent {
  Event event;
  int verbosity = 0;
  std::string text;
};

class EventQueue {
 public:
  static constexpr uint32_t kCapacity = 256;

  /// Poller only: room for one more batch.
  bool has_room() const {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed) <=
           kCapacity - EventBatch::kCapacity;
  }
  bool empty() const {
    return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_relaxed);
  }

  void push(const EventBatch& batch, uint32_t from) {
    lock_.lock();
    uint32_t tail = tail_.load(std::memory_order_relaxed);
    for (uint32_t i = from; i < batch.count; ++i) {
      ring_[tail++ % kCapacity] = batch.events[i];
    }
    tail_.store(tail, std::memory_order_relaxed);
    lock_.unlock();
  }

  bool pop(Event* out) {
    if (empty()) {
      return false;
    }
    lock_.lock();
    uint32_t head = head_.load(std::memory_order_relaxed);
    bool found = head != tail_.load(std::memory_order_relaxed);
    if (found) {
      *out = ring_[head % kCapacity];
      head_.store(head + 1, std::memory_order_relaxed);
    }
    lock_.unlock();
    return found;
  }

  void defer(DeferredEvent event) {
    lock_.lock();
    deferred_.push_back(std::move(event));
    has_deferred_.store(true, std::memory_order_relaxed);
    lock_.unlock();
  }
  bool has_deferred() const { return has_deferred_.load(std::memory_order_relaxed); }
  bool pop_deferred(DeferredEvent* out) {
    lock_.lock();
    bool found = next_deferred_ < deferred_.size();
    if (found) {
      *out = std::move(deferred_[next_deferred_++]);
    } else {
      deferred_.clear();
      next_deferred_ = 0;
      has_deferred_.store(false, std::memory_order_relaxed);
    }
    lock_.unlock();
    return found;
  }

 private:
  SpinLock lock_;
  std::atomic<uint32_t> head_{0}, tail_{0};  ///< Written under lock_.
  std::array<Event, kCapacity> ring_;
  std::vector<DeferredEvent> deferred_;
  size_t next_deferred_ = 0;
  std::atomic<bool> has_deferred_{false};
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_EVENTS_H_

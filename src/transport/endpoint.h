// One peer as it is known before any data moves: its name, its place in the table, its address. A
// job has many that are never used, so this is small (Endpoint::bytes counts it, with what it
// holds); all that moves data is in its Link, made at the first use.
#ifndef ROCE_TRANSPORT_ENDPOINT_H_
#define ROCE_TRANSPORT_ENDPOINT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "roce/transport.h"
#include "transport/kept_address.h"
#include "transport/spinlock.h"

namespace roce::transport {

struct Core;
class Link;

class Endpoint {
 public:
  enum class State : uint8_t {
    kIdle,        ///< Connects at first use.
    kConnecting,  ///< What is sent waits.
    kReady,
    kClosed,  ///< The peer has said goodbye; connects anew at next use.
    kFailed,  ///< Given up; what is sent completes with an error.
    kRemoved,
  };

  Endpoint(Core& core, ProcessName name, uint32_t index);
  ~Endpoint();

  ProcessName name() const { return name_; }
  uint32_t index() const { return index_; }
  State state() const { return state_.load(std::memory_order_acquire); }
  std::atomic<void*> context{nullptr};  ///< The adapter's.

  /// Made, if there is none. Any thread.
  Link& link() {
    Link* link = link_.load(std::memory_order_acquire);
    return link != nullptr ? *link : make_link();
  }
  /// Null before the first use.
  Link* link_if_any() const { return link_.load(std::memory_order_acquire); }

  /// Learned from the blob of add_peer; `partial`: from the peer's request, which tells only of the
  /// rail and GID in use.
  void set_address(const Address& address, bool partial);
  Address address();
  bool address_is_partial();

  /// What is sent from now on completes with an error, and so does what waits.
  void remove();
  /// Memory that it holds, the link and the entry in the table of peers included.
  size_t bytes();

 private:
  friend class Link;  // Changes the state, with its lock held.

  Link& make_link();

  Core& core_;
  const ProcessName name_;
  const uint32_t index_;
  std::atomic<State> state_{State::kIdle};
  SpinLock lock_;
  // Guarded by lock_; link_ is read without it.
  bool address_is_partial_ = false;
  KeptAddress address_;
  std::atomic<Link*> link_{nullptr};
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_ENDPOINT_H_

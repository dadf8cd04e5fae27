// The counters of the transport: one enumerated list with a sentence each; statistics files, MPI_T
// and roce_info read it.
#ifndef ROCE_TRANSPORT_COUNTERS_H_
#define ROCE_TRANSPORT_COUNTERS_H_

#include <atomic>
#include <cstdint>
#include <string>

namespace roce::transport {

// X(identifier, "sentence")
#define ROCE_COUNTERS(X)                                                                      \
  X(tx_send_messages, "messages sent (eager, control and fragments of the runtime)")          \
  X(tx_send_bytes, "bytes of these messages, without transport headers")                      \
  X(rx_send_messages, "messages received")                                                    \
  X(rx_send_bytes, "bytes of these messages")                                                 \
  X(tx_put_messages, "put operations completed at their origin")                              \
  X(tx_put_bytes, "bytes written by these")                                                   \
  X(rx_get_messages, "get operations completed at their origin")                              \
  X(rx_get_bytes, "bytes fetched by these")                                                   \
  X(atomic_operations, "atomic operations completed at their origin")                         \
  X(credit_messages, "messages sent only to return credits")                                  \
  X(window_stalls, "sends that had to wait for the peer's window")                            \
  X(queue_stalls, "operations that had to wait for send queue space")                         \
  X(connects, "connections established")                                                      \
  X(connect_requests_resent, "handshake packets sent again")                                  \
  X(connect_refusals, "connections refused, by either side")                                  \
  X(bad_handshakes, "handshake packets dropped as malformed or foreign")                      \
  X(bad_messages, "messages dropped as malformed")                                            \
  X(lock_waits, "waits for a lock of the transport that another thread had (whole process)")  \
  X(poll_misses, "progress calls that left the polling to another thread in it")              \
  X(registrations, "memory regions registered")                                               \
  X(registration_failures, "memory registrations refused by the device")                      \
  X(rnr_naks, "RNR NAKs received, where the device tells")                                    \
  X(peers_failed, "peers given up after an error")                                            \
  X(peer_bytes_idle, "memory of one peer as it was added, before its first use, the largest") \
  X(peer_bytes_most, "memory of one connected peer without its queue pair, the largest")

enum class Counter : int {
#define X(name, text) name,
  ROCE_COUNTERS(X)
#undef X
      kCount
};

const char* counter_name(Counter counter);
const char* counter_help(Counter counter);

/// One set per transport; relaxed atomics, since only sums matter.
class Counters {
 public:
  void add(Counter counter, uint64_t n = 1) {
    values_[static_cast<int>(counter)].fetch_add(n, std::memory_order_relaxed);
  }
  /// To `n`, if it is less.
  void raise(Counter counter, uint64_t n) {
    auto& value = values_[static_cast<int>(counter)];
    uint64_t before = value.load(std::memory_order_relaxed);
    while (before < n && !value.compare_exchange_weak(before, n, std::memory_order_relaxed)) {
    }
  }
  uint64_t get(Counter counter) const {
    return values_[static_cast<int>(counter)].load(std::memory_order_relaxed);
  }
  /// "name value" lines.
  std::string text() const;

 private:
  std::atomic<uint64_t> values_[static_cast<int>(Counter::kCount)] = {};
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_COUNTERS_H_

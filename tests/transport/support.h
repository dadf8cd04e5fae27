// Transports under test: each Node is a process of a job as far as the transport can tell.
#ifndef ROCE_TESTS_TRANSPORT_SUPPORT_H_
#define ROCE_TESTS_TRANSPORT_SUPPORT_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "roce/transport.h"
#include "transport/counters.h"
#include "transport/hooks.h"
#include "transport/params.h"

namespace roce::transport::test {

struct Message {
  ProcessName from;
  uint8_t tag;
  std::vector<uint8_t> data;
};

/// Bytes that depend on a seed and their position.
std::vector<uint8_t> pattern(size_t bytes, uint32_t seed);

/// Parameters for tests: software device, short timeouts.
Params soft_params();

struct NodeSetup {
  uint32_t rank = 0;
  uint64_t cookie = 4711;
  Params params = soft_params();
  Hooks hooks = {};
  size_t max_message_bytes = 65536;
};

class Node {
 public:
  /// Throws std::runtime_error with the status if the transport does not open.
  explicit Node(const NodeSetup& setup);
  ~Node();

  Transport& transport() { return *transport_; }
  uint32_t rank() const { return setup_.rank; }
  /// Throws if the peer is refused.
  Endpoint* add(Node& peer);
  Endpoint* add(uint32_t rank, const std::vector<uint8_t>& blob);

  /// Sends a copy; the buffer goes back by itself. True: taken at once.
  bool send(Endpoint* peer, const std::vector<uint8_t>& data, uint8_t tag = 1);
  /// Number of sends that have not been completed.
  int sends_open() const { return sends_open_; }
  /// Statuses of the sends that were completed by callback.
  std::vector<Code> send_results;

  std::deque<Message> received;
  std::function<void(Endpoint*, const Message&)> on_message;
  std::vector<std::pair<Endpoint*, std::string>> errors;
  std::vector<std::string> log;

  uint64_t counter(Counter counter) { return transport_->counters().get(counter); }
  void destroy() { transport_.reset(); }

 private:
  NodeSetup setup_;
  int sends_open_ = 0;
  std::unique_ptr<Transport> transport_;
};

/// A registered buffer of a node, zeroed.
struct Region {
  Region(Node& node, size_t bytes, unsigned access = kLocalWrite | kRemoteWrite | kRemoteRead)
      : memory(bytes), node_(node) {
    Status status = node.transport().register_memory(memory.data(), bytes, access, &registration);
    if (!status) throw std::runtime_error(status.text());
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() { node_.transport().deregister_memory(&registration); }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory.data()); }

  std::vector<uint8_t> memory;
  Registration registration;

 private:
  Node& node_;
};

/// An operation that knows when it is done.
struct Transfer : Operation {
  Transfer();
  bool done = false;
  Code result = Code::kOk;
};

/// Runs progress of these nodes until `done`; false after `limit`.
bool pump(std::vector<Node*> nodes, const std::function<bool()>& done,
          std::chrono::milliseconds limit = std::chrono::seconds(20));

/// What the nodes have told so far, for messages of failed tests.
std::string told(const std::vector<Node*>& nodes);

/// A copy of the soft device's table, to be changed by a test.
verbs::Table soft_table_copy();

}  // namespace roce::transport::test

#endif  // ROCE_TESTS_TRANSPORT_SUPPORT_H_

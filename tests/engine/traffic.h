// Mixed operations from both hosts at once, and the check that each has happened exactly once, in
// order, with the right bytes.
#ifndef ROCE_TESTS_ENGINE_TRAFFIC_H_
#define ROCE_TESTS_ENGINE_TRAFFIC_H_

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "network.h"

namespace roce::engine::test {

struct TrafficOptions {
  uint32_t operations = 10'000;  ///< Per host.
  uint32_t mtu = 1024;
  uint32_t large_every = 0;    ///< Every n-th WRITE or READ has 1 MiB; 0: none.
  TimeNs repost_delay_ns = 0;  ///< Receive requests come back late: RNR NAKs.
  uint32_t start_psn = 0xFFFF80;
  bool lazy_ack = false;
  bool selective = false;
  /// Not 0: lazy_ack and selective are switched on after this time, on the second host after three
  /// times as long.
  TimeNs agree_after_ns = 0;
  double keep_share = 1;  ///< Of the packets before their turn, those that a host has room for.
};

class Traffic {
 public:
  static constexpr uint32_t kSlots = 16;
  static constexpr uint32_t kReceives = 24;
  static constexpr uint32_t kMaxSend = 16 * 1024;
  static constexpr uint32_t kLarge = 1 << 20;

  static QpConfig config(uint32_t qpn);

  Traffic(Network& network, Host& a, Host& b, const TrafficOptions& options, uint64_t seed);
  void start();
  bool finished() const;
  uint64_t atomics_posted(int index) const { return sides_[index].atomics; }
  /// Empty: all checks have passed.
  const std::string& failure() const { return failure_; }

 private:
  struct Operation {
    uint64_t id = 0;
    WrOpcode opcode = WrOpcode::kSend;
    uint32_t length = 0;
    uint32_t imm = 0;
    uint32_t slot = 0;
    bool signaled = false;
    bool solicited = false;
    uint64_t compare = 0;
  };
  struct Side {
    Host* host = nullptr;
    std::mt19937_64 random;
    std::vector<uint32_t> local;    ///< Region of each slot.
    std::vector<uint32_t> target;   ///< Region of each slot that the peer writes to.
    uint32_t source = 0;            ///< Region that the peer reads from.
    uint32_t counter = 0;           ///< Region of the two words for the peer's atomics.
    std::vector<uint32_t> buffers;  ///< Region of each receive request.
    uint64_t posted = 0;
    uint64_t unsignaled = 0;
    std::deque<Operation> outstanding;
    std::deque<Operation> to_receive;  ///< What the peer has posted and this side must receive.
    uint64_t atomics = 0;
    uint64_t adds = 0;   ///< FETCH ADDs completed.
    uint64_t swaps = 0;  ///< Value of the swap word.
  };

  void prepare(int index);
  void post_more(int index);
  bool post_one(int index);
  Operation choose(Side& side);
  void post_receive(int index, uint32_t buffer);
  void complete(int index, const Completion& completion);
  void complete_send(int index, const Completion& completion);
  void complete_receive(int index, const Completion& completion);
  void check_result(int index, const Operation& operation);
  void check_bytes(const Host& host, uint64_t va, uint64_t id, uint32_t length, const char* what);
  void fail(const std::string& text);

  Network& network_;
  const TrafficOptions options_;
  Side sides_[2];
  std::string failure_;
};

}  // namespace roce::engine::test

#endif  // ROCE_TESTS_ENGINE_TRAFFIC_H_

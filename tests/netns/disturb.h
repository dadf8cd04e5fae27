// A flow of SENDs, WRITEs and READs between two processes while a script disturbs one of them.
#ifndef ROCE_TESTS_NETNS_DISTURB_H_
#define ROCE_TESTS_NETNS_DISTURB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "event_queue.h"

namespace roce::test {

struct FlowPlan {
  bool reported = false;  ///< The flow must end with IBV_WC_RETRY_EXC_ERR.
  PathChoice path;
};

inline constexpr uint32_t kFlowDepth = 8;  ///< Operations under way.
inline constexpr uint32_t kFlowBytes = 65536;
inline constexpr uint32_t kFlowLast = 0xFFFFFFFF;

/// Operation `number` of the flow.
struct FlowOperation {
  enum Kind : uint32_t { kSend, kWrite, kRead } kind;
  uint32_t bytes;
};
inline FlowOperation flow_operation(uint32_t number) {
  static constexpr uint32_t kSizes[] = {64, 8192, kFlowBytes};
  return {static_cast<FlowOperation::Kind>(number % 3), kSizes[number / 3 % 3]};
}

/// What both ends tell each other.
struct FlowName {
  QpName qp;
  uint64_t target, source;
  uint32_t target_rkey, source_rkey;
  Knowledge knowledge;  ///< As in PathChoice; the initiator's choice counts.
};

/// SIGTERM makes told_to_end() true.
void listen_to_script();
bool told_to_end();

/// Buffers, queue pair and asynchronous events of one end.
class FlowEnd {
 public:
  /// seed: of the text that leaves from here.
  FlowEnd(const std::string& own, uint32_t seed, uint32_t peer_seed);
  ~FlowEnd();
  FlowEnd(const FlowEnd&) = delete;
  FlowEnd& operator=(const FlowEnd&) = delete;

  /// path: null on the server, which does as the initiator does but is patient.
  void meet(int fd, const PathChoice* path);
  void receive_into(uint32_t slot);
  void post(uint32_t number);  ///< The operation of this number, by its initiator.
  void post_probe();           ///< A WRITE of nothing.
  /// What has completed is handed to take; sleeps for it, at most `milliseconds`. Asynchronous
  /// events are noted meanwhile.
  template <typename Take>
  void wait(int milliseconds, Take take) {
    if (queue_.drain(take)) return;
    queue_.arm();
    if (queue_.drain(take)) return;
    if (sleep(milliseconds)) queue_.sleep();
    queue_.drain(take);
  }
  /// Ends the process unless the bytes of the peer's text have arrived.
  void check(uint32_t number, const uint8_t* at, uint32_t bytes) const;
  /// Names of the events so far, state and active MTU of the port.
  void print_port();

  ibv_qp* qp() const { return qp_; }
  uint8_t* target(uint32_t number) { return target_.data() + number % kFlowDepth * kFlowBytes; }
  uint8_t* received(uint32_t slot) { return received_.data() + slot * size_t{kFlowBytes}; }
  static constexpr uint32_t kReceives = kFlowDepth + 2;

 private:
  bool sleep(int milliseconds);
  void note_event();

  Port port_;
  EventQueue queue_;
  Text source_, peer_text_;
  std::vector<uint8_t> target_, received_;
  ibv_mr *source_mr_, *target_mr_, *received_mr_;
  ibv_qp* qp_;
  FlowName peer_{};
  std::string events_;
};

void run_flow(const std::string& own, const std::string& server, const FlowPlan& plan);
void run_server(const std::string& own);

}  // namespace roce::test

#endif  // ROCE_TESTS_NETNS_DISTURB_H_

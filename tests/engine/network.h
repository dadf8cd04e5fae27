// Two hosts, two drivers of the same queue pair class, one bad network, simulated time.
//
// PayloadHost carries real bytes in real RoCE v2 datagrams with ICRC; LengthsHost carries headers
// and lengths only, as a simulator does. Everything is deterministic for a seed.
#ifndef ROCE_TESTS_ENGINE_NETWORK_H_
#define ROCE_TESTS_ENGINE_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "arena.h"
#include "engine/queue_pair.h"
#include "wire/icrc.h"

namespace roce::engine::test {

struct Frame {
  std::vector<uint8_t> datagram;  ///< PayloadHost.
  wire::Header header;            ///< LengthsHost.
  uint32_t payload_length = 0;
  bool corrupted = false;
  uint32_t wire_bytes = 0;
};

/// Probabilities, each in [0, 1].
struct Impairments {
  double loss = 0, duplicate = 0, reorder = 0, corrupt = 0;
};

class Host {
 public:
  Host(bool has_bytes, const QpConfig& config, uint32_t receive_depth, uint32_t max_sge);
  virtual ~Host() = default;

  /// False: the payload cannot be read.
  virtual bool to_frame(const OutPacket& packet, Frame& frame) = 0;
  /// Handles a frame and carries out its effects. False: the frame is damaged.
  virtual bool from_frame(const Frame& frame, TimeNs now) = 0;
  /// Handles the next kept frame whose turn has come. False: none.
  bool handle_kept(TimeNs now);

  Arena arena;
  ReceiveQueue receive;
  Counters counters;
  QueuePair qp;
  uint64_t damaged_frames = 0;
  uint64_t gather_faults = 0;
  uint64_t atomics_executed = 0;
  std::function<void(const Completion&)> on_completion;
  std::function<void(const OutPacket&)> on_send;  ///< Optional observer.
  double keep_share = 1;  ///< Of the packets that the queue pair would like to be kept.

 protected:
  void keep(const Effects& effects, uint32_t psn, const Frame& frame);

 private:
  std::map<std::pair<Keep, uint32_t>, Frame> kept_;
  std::mt19937_64 random_{1};
};

class PayloadHost : public Host {
 public:
  PayloadHost(const QpConfig& config, uint32_t receive_depth, uint32_t max_sge, uint8_t address);
  bool to_frame(const OutPacket& packet, Frame& frame) override;
  bool from_frame(const Frame& frame, TimeNs now) override;

 private:
  bool gather(const PayloadRef& ref, uint8_t* out) const;
  void scatter(const Placement& placement, const uint8_t* from);
  uint64_t execute(const AtomicOperation& atomic);
  wire::Flow out_flow_, in_flow_;
};

class LengthsHost : public Host {
 public:
  LengthsHost(const QpConfig& config, uint32_t receive_depth, uint32_t max_sge);
  bool to_frame(const OutPacket& packet, Frame& frame) override;
  bool from_frame(const Frame& frame, TimeNs now) override;
};

class Network {
 public:
  Network(Host& a, Host& b, const Impairments& impairments, uint64_t seed);

  /// Runs until done() or until nothing is left to do, at most `steps` events. True: done.
  bool run(const std::function<bool()>& done, uint64_t steps);
  void at(TimeNs time, std::function<void()> action);
  /// Drains one host's outputs; call after posting from outside of an event.
  void pump(int host);

  TimeNs now = 1'000'000;
  TimeNs latency_ns = 3'000;
  double bytes_per_ns = 5;
  Impairments impairments;
  uint64_t frames_lost = 0;

 private:
  struct Event {
    TimeNs time;
    uint64_t order;
    std::function<void()> action;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  void transmit(int from, Frame frame);
  void deliver(int to, const Frame& frame);
  void drain_completions(int host);
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  Host* hosts_[2];
  TimeNs link_free_[2] = {0, 0};
  bool pump_scheduled_[2] = {false, false};
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t order_ = 0;
  std::mt19937_64 random_;
};

}  // namespace roce::engine::test

#endif  // ROCE_TESTS_ENGINE_NETWORK_H_

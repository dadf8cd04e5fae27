// One queue pair on the test bench: packets are put in by hand and looked at when they come out.
#ifndef ROCE_TESTS_ENGINE_SOLO_H_
#define ROCE_TESTS_ENGINE_SOLO_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "engine/queue_pair.h"

namespace roce::engine::test {

inline constexpr uint32_t kPeerQpn = 0x22;
inline constexpr uint32_t kSendPsn = 100;
inline constexpr uint32_t kReceivePsn = 500;
inline constexpr uint32_t kMtu = 1024;
inline constexpr TimeNs kUs = 1'000;
inline constexpr TimeNs kMs = 1'000'000;

/// Says yes to everything until told otherwise.
class SwitchMemory : public Memory {
 public:
  bool remote = true, local = true;
  struct Check {
    uint64_t va, length;
    unsigned access;
  };
  mutable std::vector<Check> checks;

  bool remote_ok(uint32_t, uint64_t va, uint64_t length, unsigned access) const override {
    checks.push_back({va, length, access});
    return length == 0 || remote;
  }
  bool local_ok(std::span<const Sge>, bool) const override { return local; }
};

inline QpAttributes default_attributes() {
  QpAttributes out;
  out.path_mtu_bytes = kMtu;
  out.dest_qpn = kPeerQpn;
  out.sq_psn = kSendPsn;
  out.rq_psn = kReceivePsn;
  out.access = kRemoteRead | kRemoteWrite | kRemoteAtomic;
  out.max_rd_atomic = out.max_dest_rd_atomic = 4;
  return out;
}

struct Solo {
  explicit Solo(const QpAttributes& attributes = default_attributes(), QpType type = QpType::kRc,
                bool is_srq = false)
      : receive(16, 4), qp(config(type), receive, is_srq, memory, counters) {
    qp.set_state(QpState::kInit, now);
    qp.set_attributes(attributes);
    qp.set_state(QpState::kRtr, now);
    qp.set_state(QpState::kRts, now);
  }

  static QpConfig config(QpType type) {
    QpConfig out;
    out.type = type;
    out.qpn = 0x11;
    out.send_depth = 64;
    out.max_send_sge = 4;
    return out;
  }

  // ---- program ----
  static SendRequest request(WrOpcode opcode, uint64_t wr_id) {
    SendRequest out;
    out.opcode = opcode;
    out.wr_id = wr_id;
    out.signaled = true;
    out.remote_addr = 0x10000;
    out.rkey = 0x77;
    return out;
  }
  int post(WrOpcode opcode, uint64_t wr_id, uint32_t length) {
    return post(request(opcode, wr_id), length);
  }
  int post(SendRequest request, uint32_t length) {
    const Sge sge{0x5000, length, 1};
    request.sges = {&sge, 1};
    return qp.post_send(request, now);
  }
  int post_recv(uint64_t wr_id, uint32_t length) {
    const Sge sge{0x9000, length, 1};
    RecvRequest request;
    request.wr_id = wr_id;
    request.sges = {&sge, 1};
    return qp.post_recv(request);
  }

  // ---- network ----
  /// Everything that may leave now.
  std::vector<OutPacket> packets() {
    std::vector<OutPacket> out;
    for (OutPacket packet; qp.poll_packet(now, packet);) out.push_back(packet);
    return out;
  }
  std::vector<uint32_t> psns() {
    std::vector<uint32_t> out;
    for (const OutPacket& packet : packets()) out.push_back(packet.header.psn);
    return out;
  }
  std::vector<OutPacket> acks(bool ride = false) {
    std::vector<OutPacket> out;
    for (OutPacket packet; qp.poll_ack(now, ride, packet);) out.push_back(packet);
    return out;
  }
  static wire::Header header(wire::Opcode opcode, uint32_t psn, bool ack_req = true) {
    wire::Header out;
    out.opcode = opcode;
    out.psn = psn & wire::kPsnMask;
    out.ack_req = ack_req;
    out.va = 0x10000;
    out.rkey = 0x77;
    out.syndrome = wire::kAethAckNoCredit;
    return out;
  }
  Effects take(const wire::Header& header, uint32_t payload_length = 0) {
    Effects effects;
    qp.handle_packet(header, payload_length, false, now, effects);
    return effects;
  }
  Effects take(wire::Opcode opcode, uint32_t psn, uint32_t payload_length = 0,
               bool ack_req = true) {
    return take(header(opcode, psn, ack_req), payload_length);
  }
  Effects take_ack(uint32_t psn, uint8_t syndrome = wire::kAethAckNoCredit) {
    wire::Header ack = header(wire::Opcode::kRcAck, psn, false);
    ack.syndrome = syndrome;
    return take(ack);
  }
  /// Calls handle_timer whenever it asks for it until `until`; packets that come out are lost.
  void pass_time(TimeNs until) {
    while (qp.poll_timer() <= until) {
      now = std::max(now, qp.poll_timer());
      qp.handle_timer(now);
      if (qp.state() == QpState::kErr) break;
      packets();
      acks();
    }
    now = std::max(now, until);
  }

  // ---- completions ----
  std::vector<Completion> completions() {
    std::vector<Completion> out;
    for (Completion completion; qp.poll_completion(completion);) out.push_back(completion);
    return out;
  }
  using Outcome = std::pair<uint64_t, WcStatus>;
  std::vector<Outcome> outcomes() {
    std::vector<Outcome> out;
    for (const Completion& c : completions()) out.emplace_back(c.wr_id, c.status);
    return out;
  }

  TimeNs now = kMs;
  SwitchMemory memory;
  Counters counters;
  ReceiveQueue receive;
  QueuePair qp;
};

using Outcomes = std::vector<Solo::Outcome>;
using Psns = std::vector<uint32_t>;

}  // namespace roce::engine::test

#endif  // ROCE_TESTS_ENGINE_SOLO_H_

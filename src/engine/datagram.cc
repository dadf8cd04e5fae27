#include "engine/datagram.h"

#include <cerrno>

namespace roce::engine {

namespace {
/// A remote Q_Key with this bit stands for the queue pair's own (specification 10.2.5).
constexpr uint32_t kControlledQkey = 0x80000000;
}  // namespace

Datagram::Datagram(Core& core)
    : core_(core), ring_(core.config.send_depth, core.config.max_send_sge) {}

int Datagram::post(const SendRequest& request) {
  if (request.opcode != WrOpcode::kSend && request.opcode != WrOpcode::kSendImm) return EINVAL;
  return ring_.post(request, request.signaled || core_.config.signal_all, core_.mtu());
}

bool Datagram::poll_packet(OutPacket& out) {
  if (ring_.done() == ring_.head()) return false;
  if (core_.state != QpState::kRts) return false;
  const WorkRequest& request = ring_.at(ring_.done());
  const bool imm = request.opcode == WrOpcode::kSendImm;
  begin_packet(imm ? wire::Opcode::kUdSendOnlyImm : wire::Opcode::kUdSendOnly, request.remote_qpn,
               psn_, out);
  out.header.solicited = request.solicited;
  out.header.imm = request.imm;
  out.header.qkey =
      (request.remote_qkey & kControlledQkey) != 0 ? core_.attributes.qkey : request.remote_qkey;
  out.header.src_qpn = core_.config.qpn;
  if (request.length > 0) {
    out.payload.kind = PayloadRef::Kind::kSendQueue;
    out.payload.length = request.length;
    out.payload.sges = ring_.sges(ring_.done());
  }
  out.inlined = request.inlined;
  out.address = request.address;
  psn_ = wire::psn_add(psn_, 1);
  ring_.finish_one();
  core_.count_sent(out);
  return true;
}

void Datagram::handle_gather_fault(uint32_t psn) {
  // The newest packet given out has the PSN before psn_ and belongs to the request before done().
  const uint32_t age = (psn_ - psn) & wire::kPsnMask;
  if (age == 0 || age > ring_.done()) return;
  const uint64_t index = ring_.done() - age;
  if (ring_.reported(index)) return;
  ring_.fail(index, WcStatus::kLocalProtection);
  if (core_.state == QpState::kRts) core_.state = QpState::kSqe;
}

void Datagram::handle_packet(const wire::Header& header, uint32_t payload_length,
                             Effects& effects) {
  const bool imm = header.opcode == wire::Opcode::kUdSendOnlyImm;
  if (!imm && header.opcode != wire::Opcode::kUdSendOnly) {
    core_.drop(effects, Drop::kBadOpcode);
    return;
  }
  if (header.qkey != core_.attributes.qkey) {
    core_.drop(effects, Drop::kBadQkey);
    return;
  }
  if (core_.receive.posted() == 0 || core_.receive_completions.full()) {
    core_.drop(effects, Drop::kNoReceive);
    return;
  }
  // The receive request stays for the next message.
  if (payload_length > core_.mtu() ||
      uint64_t{payload_length} + kGrhBytes > core_.receive.next_capacity_bytes()) {
    core_.drop(effects, Drop::kBadLength);
    return;
  }
  ReceiveQueue::Taken taken;
  core_.receive.take(taken);
  Completion& completion = core_.receive_completions.push(taken.entry);
  completion.wr_id = taken.wr_id;
  completion.opcode = WcOpcode::kRecv;
  if (!core_.memory.local_ok(taken.sges, true)) {
    completion.status = WcStatus::kLocalProtection;
    completion.solicited = true;
    core_.drop(effects, Drop::kRefused);
    core_.enter_error();
    return;
  }
  completion.has_grh = true;
  completion.byte_len = payload_length + kGrhBytes;
  completion.src_qpn = header.src_qpn;
  completion.solicited = header.solicited;
  completion.has_imm = imm;
  if (imm) completion.imm = header.imm;
  effects.placement.kind = Placement::Kind::kScatter;
  effects.placement.length = payload_length;
  effects.placement.sges = taken.sges;
  effects.placement.offset = kGrhBytes;
  effects.placement.grh = true;
}

}  // namespace roce::engine

#include "soft/agreement.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "soft/process.h"
#include "wire/hello.h"

namespace roce::soft {
namespace {

/// HELLOs leave at 0, 2, 10, 42, 170 and 682 ms.
constexpr uint32_t kMaxHellos = 6;
constexpr engine::TimeNs kFirstHelloNs = 2'000'000;
constexpr uint32_t kHelloSpacingShift = 2;
/// Receive memory of a peer that did not tell: the kernel's default for ordinary users.
constexpr uint32_t kUnknownBudget = 212'992;
/// Less than this would be one packet at a time; loss recovery is there for such peers.
constexpr uint32_t kLeastBudget = 8'192;
/// Kernel memory that a payload byte takes at the receiver (design.md: 2.05 times its length).
constexpr double kTruesizeFactor = 2.05;
/// The smallest datagram takes 832 bytes of it.
constexpr uint32_t kLeastPacket = 406;

void send(Process& process, const wire::Hello& hello, Route route) {
  process.udp()->assign_source(route, wire::udp_source_port(0, hello.from_qpn, hello.to_qpn));
  wire::Header header;
  header.opcode = wire::Opcode::kUdSendOnly;
  header.dest_qpn = hello_qpn_of(hello.to_qpn);
  header.src_qpn = hello_qpn_of(hello.from_qpn);
  header.qkey = wire::kHelloQkey;
  uint8_t headers[wire::kMaxHeaderBytes];
  const size_t header_bytes = wire::build(header, wire::kHelloBytes, headers);
  uint8_t payload[wire::kHelloBytes];
  wire::build_hello(hello, payload);
  const iovec piece = {payload, sizeof payload};
  UdpPort& udp = *process.udp();
  const auto add = [&] {
    return udp.add(route, route.tos, {headers, header_bytes}, {&piece, 1}, sizeof payload, true);
  };
  // What finds no room is lost, like any packet.
  if (!add() && udp.flush()) static_cast<void>(add());
  udp.forget(route);
}

wire::Hello about_us(wire::HelloKind kind, const Qp& qp, uint32_t to_qpn, uint64_t nonce) {
  wire::Hello hello;
  hello.kind = kind;
  PeerHints hints;
  static_cast<void>(device_hints(qp.context, &hints));
  hello.udp_port = hints.udp_port;
  hello.capabilities = hints.capabilities;
  hello.receive_budget_bytes = hints.receive_budget_bytes;
  hello.from_qpn = qp.qp_num;
  hello.to_qpn = to_qpn;
  hello.nonce = nonce;
  return hello;
}

/// Packets for the queue pair go to this port from now on.
void set_port(Process& process, Qp& qp, uint16_t port) {
  process.udp()->forget(qp.route);
  qp.route.flow.dst_port = port;
  // The kernel numbers the packets of a train in a way that another device's check of the ICRC may
  // not expect.
  const uint32_t peer = qp.attributes.dest_qp_num;
  const bool may_be_soft = (peer & kQpnSoftBit) != 0 && port == port_of_qpn(peer);
  qp.route.no_trains = !qp.peer_soft && !may_be_soft;
}

bool is_connected(const Qp& qp, uint32_t peer, const wire::Flow& arrived) {
  const wire::Flow& flow = qp.route.flow;
  return qp.routed && qp.attributes.dest_qp_num == peer &&
         qp.engine->state() != engine::QpState::kErr &&
         std::memcmp(flow.dst, arrived.src, sizeof flow.dst) == 0 &&
         std::memcmp(flow.src, arrived.dst, sizeof flow.src) == 0;
}

/// To where the datagram came from.
Route way_back(const ReceivedBuffer& buffer, uint16_t port) {
  Route route;
  std::memcpy(route.flow.src, buffer.flow.dst, sizeof route.flow.src);
  std::memcpy(route.flow.dst, buffer.flow.src, sizeof route.flow.dst);
  route.flow.dst_port = port;
  route.tos = kDefaultTrafficClass;
  route.ifindex = is_link_local(route.flow.dst) ? buffer.ifindex : 0;
  return route;
}

/// Windows that fit into the receive memory that the peer has for us, and we for the peer.
void apply_limits(Process& process, Qp& qp) {
  const uint32_t budget = qp.hinted && qp.hints.receive_budget_bytes != 0
                              ? qp.hints.receive_budget_bytes
                              : kUnknownBudget;
  const auto payload = [](uint32_t truesize) {
    return static_cast<uint32_t>(truesize / kTruesizeFactor);
  };
  const uint32_t segment = qp.engine->attributes().path_mtu_bytes;
  engine::PathLimits limits;
  limits.packet_bytes_at_least = kLeastPacket;
  limits.max_inflight_bytes = std::max(payload(budget) / 2, segment);
  const uint32_t own = qp.share.budget(process.udp()->receive_budget_bytes());
  limits.max_read_bytes = std::max(payload(own) / 4, segment);
  limits.read_segment_bytes = std::max(limits.max_read_bytes / 4, segment);
  qp.engine->set_limits(limits);
}

void agree(Process& process, Qp& qp, const wire::Hello& hello) {
  qp.agreement.next_hello = engine::kNever;
  qp.hints = PeerHints{};
  qp.hints.udp_port = hello.udp_port;
  qp.hints.capabilities = hello.capabilities;
  qp.hints.receive_budget_bytes = std::max(hello.receive_budget_bytes, kLeastBudget);
  qp.hinted = true;
  // Out of memory: the connection goes on as with any other device.
  if (apply_peer(process, qp) == 0) process.count(Process::Count::kAgreements);
}

void take_grant(Process& process, Qp& qp, const wire::Hello& hello) {
  if (!qp.hinted || hello.nonce <= qp.agreement.newest_grant) return;
  process.count(Process::Count::kGrants);
  qp.agreement.newest_grant = hello.nonce;
  qp.hints.receive_budget_bytes = std::max(hello.receive_budget_bytes, kLeastBudget);
  apply_limits(process, qp);
}

}  // namespace

void grant(Process& process, Qp& qp, engine::TimeNs now) {
  apply_limits(process, qp);
  if (!qp.hinted || (qp.hints.capabilities & kCapGrants) == 0) return;
  wire::Hello hello = about_us(wire::HelloKind::kGrant, qp, qp.attributes.dest_qp_num, now);
  hello.receive_budget_bytes = qp.share.budget(hello.receive_budget_bytes);
  send(process, hello, qp.route);
}

int apply_peer(Process& process, Qp& qp) {
  const PeerHints& hints = qp.hints;
  const auto can = [&](uint32_t bit) { return qp.hinted && (hints.capabilities & bit) != 0; };
  engine::QpAttributes attributes = qp.engine->attributes();
  attributes.lazy_ack = can(kCapLazyAck);
  attributes.selective = can(kCapSelective);
  if (const int error = qp.engine->set_attributes(attributes); error != 0) return error;
  qp.peer_soft = can(kCapSoft);
  set_port(process, qp, qp.hinted ? hints.udp_port : port_of_qpn(qp.attributes.dest_qp_num));
  apply_limits(process, qp);
  return 0;
}

void begin_asking(Process& process, Qp& qp, engine::TimeNs now) {
  if (qp.hinted || (qp.attributes.dest_qp_num & kQpnSoftBit) == 0) return;
  uint64_t nonce = 0;
  // Without a random number whoever answers cannot be told from whoever guesses.
  if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) return;
  qp.agreement = Agreement{};
  qp.agreement.nonce = nonce;
  qp.agreement.next_hello = now;
  ask_again(process, qp, now);
}

void ask_again(Process& process, Qp& qp, engine::TimeNs now) {
  Agreement& agreement = qp.agreement;
  if (now < agreement.next_hello) return;
  agreement.next_hello = agreement.hellos + 1 == kMaxHellos
                             ? engine::kNever
                             : now + (kFirstHelloNs << kHelloSpacingShift * agreement.hellos);
  ++agreement.hellos;
  process.count(Process::Count::kHellos);
  const uint32_t peer = qp.attributes.dest_qp_num;
  Route route = qp.route;
  route.flow.dst_port = port_of_qpn(peer);
  send(process, about_us(wire::HelloKind::kHello, qp, peer, agreement.nonce), route);
}

void receive_hello(Process& process, const ReceivedBuffer& buffer, const wire::Header& header,
                   std::span<const uint8_t> payload) {
  const std::optional<wire::Hello> hello =
      header.opcode == wire::Opcode::kUdSendOnly && header.qkey == wire::kHelloQkey
          ? wire::parse_hello(payload)
          : std::nullopt;
  // The port is never taken on trust alone: nobody is to be made to send elsewhere.
  if (!hello || (hello->from_qpn & kQpnSoftBit) == 0 ||
      hello->udp_port != port_of_qpn(hello->from_qpn)) {
    return process.count(Process::Count::kBadHello);
  }
  Qp* qp = process.find_queue_pair(hello->to_qpn);
  const bool ours = qp != nullptr && qp->qp_type == IBV_QPT_RC;
  const bool connected = ours && is_connected(*qp, hello->from_qpn, buffer.flow);
  if (!ours || (qp->routed && !connected)) return process.count(Process::Count::kBadHello);
  if (hello->kind == wire::HelloKind::kGrant) {
    if (connected) take_grant(process, *qp, *hello);
    return;
  }
  if (hello->kind == wire::HelloKind::kAnswer) {
    const bool asked = connected && qp->agreement.hellos != 0;
    if (!asked || hello->nonce != qp->agreement.nonce) {
      return process.count(Process::Count::kBadHello);
    }
  } else {
    send(process, about_us(wire::HelloKind::kAnswer, *qp, hello->from_qpn, hello->nonce),
         way_back(buffer, hello->udp_port));
  }
  if (connected && !qp->hinted) agree(process, *qp, *hello);
}

void after_timer(Process& process, Qp& qp) {
  const uint32_t resends = qp.engine->trouble().resends;
  const bool again = resends > qp.agreement.resends;
  qp.agreement.resends = resends;
  if (!again || qp.hinted || (qp.attributes.dest_qp_num & kQpnSoftBit) == 0) return;
  // A peer that was heard at this port loses packets now and then.
  if (qp.agreement.heard && resends == 1) return;
  const uint16_t slot_port = port_of_qpn(qp.attributes.dest_qp_num);
  set_port(process, qp, qp.route.flow.dst_port == slot_port ? wire::kRoceUdpPort : slot_port);
}

}  // namespace roce::soft

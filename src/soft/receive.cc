// From the socket to the engine and to memory.
#include <algorithm>
#include <cstring>
#include <new>

#include "soft/datagram_grh.h"
#include "soft/mapped_copy.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

constexpr uint8_t kEcnMask = 3;
/// What mlx5 devices, and with them UCX, put into ibv_wc.sl of a RoCE datagram: whether there is a
/// UDP header, and the kind of the header before it.
constexpr uint8_t kUdpPacket = 8, kIpv6Packet = 1, kIpv4Packet = 2;

/// Runs copy(host, source offset, bytes) for the parts of [offset, offset + length) of a scatter
/// list. False if a part lies in no writable region of the domain; then nothing is copied from
/// there on.
template <typename Copy>
bool scatter(const MemoryTable& memory, const Pd* pd, std::span<const engine::Sge> sges,
             uint64_t offset, uint32_t length, Copy copy) {
  uint32_t done = 0;
  for (const engine::Sge& sge : sges) {
    if (done == length) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>(length - done, sge.length - offset));
    uint8_t* host = memory.translate(pd, sge.lkey, sge.addr + offset, bytes, engine::kLocalWrite);
    if (host == nullptr) return false;
    copy(host, done, bytes);
    done += bytes;
    offset = 0;
  }
  return done == length;
}

bool scatter_bytes(const MemoryTable& memory, const Pd* pd, std::span<const engine::Sge> sges,
                   uint64_t offset, const uint8_t* from, uint32_t length) {
  return scatter(
      memory, pd, sges, offset, length,
      [from](uint8_t* host, uint32_t at, uint32_t bytes) { std::memcpy(host, from + at, bytes); });
}

/// The same into memory that the program may have unmapped; false then.
bool scatter_if_mapped(const MemoryTable& memory, const Pd* pd, std::span<const engine::Sge> sges,
                       uint64_t offset, const uint8_t* from, uint32_t length) {
  bool all = true;
  const bool found =
      scatter(memory, pd, sges, offset, length, [&](uint8_t* host, uint32_t at, uint32_t bytes) {
        all = write_if_mapped(host, from + at, bytes) && all;
      });
  return found && all;
}

/// Atomic against the program's own atomic instructions on the word. Both operands and the result
/// are in host order.
uint64_t apply_atomic(uint8_t* host, const engine::AtomicOperation& operation) {
  auto* word = reinterpret_cast<uint64_t*>(host);
  if (!operation.is_compare_swap) {
    return __atomic_fetch_add(word, operation.swap_add, __ATOMIC_SEQ_CST);
  }
  uint64_t expected = operation.compare;
  __atomic_compare_exchange_n(word, &expected, operation.swap_add, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return expected;
}

}  // namespace

/// Datagrams come at any time, also when the program has already unmapped its buffers: UCX does so
/// before it destroys the queue pair. The program polls no longer then, so that the service thread
/// is the one to be careful.
bool Process::place_datagram(Qp& qp, const engine::Placement& placement, const uint8_t* payload,
                             const ReceivedBuffer& buffer) {
  const Pd* pd = pd_of(qp.pd);
  const auto copy =
      service_inside_.load(std::memory_order_relaxed) ? scatter_if_mapped : scatter_bytes;
  uint8_t grh[kGrhBytes];
  write_grh(buffer, grh);
  qp.packet_type = kUdpPacket | (buffer.flow.is_ipv4() ? kIpv4Packet : kIpv6Packet);
  return copy(memory_, pd, placement.sges, 0, grh, sizeof grh) &&
         copy(memory_, pd, placement.sges, placement.offset, payload, placement.length);
}

void Process::carry_out(Qp& qp, const engine::Effects& effects, const wire::Header& header,
                        const uint8_t* payload, const ReceivedBuffer& buffer) {
  const engine::Placement& placement = effects.placement;
  const Pd* pd = pd_of(qp.pd);
  bool placed = true;
  if (placement.kind == engine::Placement::Kind::kRemoteRegion && placement.length != 0) {
    uint8_t* host =
        memory_.translate(pd, placement.rkey, placement.va, placement.length, engine::kRemoteWrite);
    placed = host != nullptr;
    if (placed) std::memcpy(host, payload, placement.length);
  } else if (placement.kind == engine::Placement::Kind::kScatter) {
    if (placement.is_atomic_original) {
      const uint64_t original = header.atomic_original;
      placed = scatter_bytes(memory_, pd, placement.sges, placement.offset,
                             reinterpret_cast<const uint8_t*>(&original), sizeof original);
    } else if (placement.grh) {
      placed = place_datagram(qp, placement, payload, buffer);
    } else {
      placed =
          scatter_bytes(memory_, pd, placement.sges, placement.offset, payload, placement.length);
    }
  }
  if (!placed) count(Count::kPlacementFault);
  if (effects.atomic.valid) {
    const engine::AtomicOperation& atomic = effects.atomic;
    uint8_t* host =
        memory_.translate(pd, atomic.rkey, atomic.va, sizeof(uint64_t), engine::kRemoteAtomic);
    // The word itself must be aligned, which for a region with a virtual offset the address on the
    // wire does not tell.
    const bool possible = host != nullptr && reinterpret_cast<uintptr_t>(host) % 8 == 0;
    if (!possible) count(Count::kPlacementFault);
    qp.engine->handle_atomic_result(possible ? apply_atomic(host, atomic) : 0);
  }
  if (effects.invalidate_rkey != 0) memory_.invalidate(pd, effects.invalidate_rkey);
}

bool Process::accept_flow(const Qp& qp, const wire::Flow& flow) const {
  if (qp.qp_type != IBV_QPT_RC) return true;
  return qp.routed && std::memcmp(flow.src, qp.route.flow.dst, sizeof flow.src) == 0 &&
         std::memcmp(flow.dst, qp.route.flow.src, sizeof flow.dst) == 0;
}

void Process::receive_for_process(const ReceivedBuffer& buffer, uint32_t index,
                                  const wire::Parsed& parsed, std::span<const uint8_t> payload) {
  if (parsed.header.dest_qpn != hello_qpn_of_slot(static_cast<uint32_t>(udp_->slot())))
    return count(Count::kUnknownQp);
  if (!udp_->icrc_ok(buffer, index, true)) return count(Count::kBadIcrc);
  receive_hello(*this, buffer, parsed.header, payload);
}

void Process::receive_packet(const ReceivedBuffer& buffer, uint32_t index, engine::TimeNs now) {
  const uint32_t offset = index * buffer.segment_bytes;
  const uint32_t bytes = std::min(buffer.segment_bytes, buffer.bytes - offset);
  const std::span<const uint8_t> datagram(buffer.data + offset, bytes);
  const wire::Parsed parsed = wire::parse(datagram);
  if (parsed.error != wire::ParseError::kNone) return count(Count::kBadPacket);
  Qp* qp = find_queue_pair(parsed.header.dest_qpn);
  const std::span<const uint8_t> payload =
      datagram.subspan(parsed.payload_offset, parsed.payload_length);
  if (qp == nullptr) return receive_for_process(buffer, index, parsed, payload);
  if (!accept_flow(*qp, buffer.flow)) return count(Count::kWrongPeer);
  if (!udp_->icrc_ok(buffer, index, !qp->peer_soft)) return count(Count::kBadIcrc);
  qp->agreement.heard = true;
  if (qp->routed && !payload.empty()) shares_.note(*this, *qp, now);

  // What the program posted before the peer sent this packet must be there, also if it came after
  // this round took up the flags.
  if (qp->sends.waiting.load(std::memory_order_acquire) != 0 ||
      qp->receive->ring.waiting.load(std::memory_order_acquire) != 0) {
    take_up(*qp, now);
  }
  // The kernel joins datagrams only of the same TOS, and a mark on a train is one mark.
  const bool marked = index == 0 && (buffer.tos & kEcnMask) == kEcnMask;
  handle(*qp, parsed.header, payload, marked, buffer, now);
  if (qp->kept != nullptr) handle_kept(*qp, buffer, now);
  touch(*qp);
}

void Process::handle(Qp& qp, const wire::Header& header, std::span<const uint8_t> payload,
                     bool marked, const ReceivedBuffer& buffer, engine::TimeNs now) {
  engine::Effects effects;
  qp.engine->handle_packet(header, static_cast<uint32_t>(payload.size()), marked, now, effects);
  if (effects.keep != engine::Keep::kNone) [[unlikely]]
    keep(qp, effects.keep, header, payload);
  carry_out(qp, effects, header, payload.data(), buffer);
  settle(qp);
}

void Process::keep(Qp& qp, engine::Keep kind, const wire::Header& header,
                   std::span<const uint8_t> payload) {
  if (qp.kept == nullptr) qp.kept.reset(new (std::nothrow) KeptPackets(kept_budget_));
  if (qp.kept != nullptr && qp.kept->keep(kind, header, payload)) qp.engine->keep(kind, header.psn);
}

/// The packets whose turn has come with the last one. Each is handled once, as one that arrives.
void Process::handle_kept(Qp& qp, const ReceivedBuffer& buffer, engine::TimeNs now) {
  engine::Keep kind;
  uint32_t psn;
  while (qp.engine->take_kept(kind, psn)) {
    KeptPacket packet;
    if (!qp.kept->take(kind, psn, packet)) continue;
    handle(qp, packet.header, {packet.payload.get(), packet.payload_length}, false, buffer, now);
  }
}

int Process::receive_batch(engine::TimeNs now) {
  int packets = 0;
  for (const ReceivedBuffer& buffer : udp_->receive()) {
    if (buffer.segment_bytes == 0) continue;
    const uint32_t segments = (buffer.bytes + buffer.segment_bytes - 1) / buffer.segment_bytes;
    // The ACK that rides behind data is older. Programs count on seeing their send complete before
    // the answer to it: perftest -e takes events of both queues from one channel.
    const uint32_t last = segments - 1;
    const bool ack_rides = last != 0 && buffer.data[size_t{last} * buffer.segment_bytes] ==
                                            static_cast<uint8_t>(wire::Opcode::kRcAck);
    if (ack_rides) receive_packet(buffer, last, now);
    for (uint32_t i = 0; i < segments - ack_rides; ++i) receive_packet(buffer, i, now);
    packets += static_cast<int>(segments);
  }
  return packets;
}

}  // namespace roce::soft

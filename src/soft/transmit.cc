// From the engine's packets to the batch of the sockets.
#include <algorithm>

#include "soft/mapped_copy.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

/// Packets that one queue pair sends before others of the batch get their turn.
constexpr int kBurstPackets = 64;
constexpr uint32_t kAckBytes = 20;  ///< BTH, AETH, ICRC.
/// Payloads up to this size are copied: that costs less than another iovec, and what leaves is
/// stable.
constexpr uint32_t kCopyBytes = 512;
constexpr uint8_t kCnpTos = 48 << 2;
constexpr size_t kMaxPieces = kMaxSge + 1;

/// Bytes [offset, offset + length) of a scatter list as iovecs. False if an element lies in no
/// region of the domain. `trusted`: the elements describe our own copy.
bool gather(const MemoryTable& memory, const Pd* pd, const engine::PayloadRef& payload,
            bool trusted, iovec* pieces, size_t* count) {
  uint64_t skip = payload.offset;
  uint32_t left = payload.length;
  for (const engine::Sge& sge : payload.sges) {
    if (left == 0) break;
    if (skip >= sge.length) {
      skip -= sge.length;
      continue;
    }
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(left, sge.length - skip));
    const uint64_t address = sge.addr + skip;
    uint8_t* host = trusted ? reinterpret_cast<uint8_t*>(address)
                            : memory.translate(pd, sge.lkey, address, bytes, 0);
    if (host == nullptr || *count == kMaxPieces) return false;
    pieces[(*count)++] = {host, bytes};
    left -= bytes;
    skip = 0;
  }
  return left == 0;
}

}  // namespace

/// False: the batch is full or blocked, nothing was sent. A packet whose payload cannot be read
/// counts as sent: the engine has been told.
bool Process::send_packet(Qp& qp, const engine::OutPacket& packet, engine::TimeNs now) {
  iovec pieces[kMaxPieces];
  size_t count = 0;
  const engine::PayloadRef& payload = packet.payload;
  const Pd* pd = pd_of(qp.pd);
  bool readable = true;
  if (payload.length != 0 && payload.kind == engine::PayloadRef::Kind::kRemoteRegion) {
    uint8_t* host =
        memory_.translate(pd, payload.rkey, payload.va, payload.length, engine::kRemoteRead);
    readable = host != nullptr;
    // The peer asks again for what it may have got long ago: the program is then free to unmap it.
    if (readable && packet.resend) {
      repeated_.resize(std::max<size_t>(repeated_.size(), payload.length));
      readable = read_if_mapped(repeated_.data(), host, payload.length);
      host = repeated_.data();
    }
    pieces[count++] = {host, payload.length};
  } else if (payload.length != 0) {
    readable = gather(memory_, pd, payload, packet.inlined, pieces, &count);
  }
  if (!readable) {
    qp.engine->handle_gather_fault(packet, now);
    settle(qp);
    return true;
  }
  Route& route = packet.address != 0
                     ? route_towards(*reinterpret_cast<Ah*>(packet.address), packet.header.dest_qpn)
                     : qp.route;
  const uint8_t tos = packet.header.opcode == wire::Opcode::kCnp ? kCnpTos : route.tos;
  uint8_t headers[wire::kMaxHeaderBytes];
  const size_t header_bytes = wire::build(packet.header, payload.length, headers);
  const bool copy = packet.resend || packet.inlined || payload.length <= kCopyBytes;
  const auto add = [&] {
    return udp_->add(route, tos, {headers, header_bytes}, {pieces, count}, payload.length, copy);
  };
  if (add()) return true;
  if (!udp_->flush()) {
    blocked_ = true;
    // Only what goes to the blocked socket is held back; a packet that cannot be queued now is
    // lost, and the engine sends it again.
    if (udp_->blocked(route)) return false;
  }
  return add();
}

/// False: the queue pair has more to send.
bool Process::transmit_burst(Qp& qp, engine::TimeNs now) {
  engine::OutPacket packet;
  int sent = 0;
  while (sent < kBurstPackets) {
    if (qp.routed && udp_->blocked(qp.route)) return false;
    if (!qp.engine->poll_packet(now, packet)) break;
    ++sent;
    send_packet(qp, packet, now);
  }
  if (!qp.routed) {
    if (sent != 0) sent_datagrams_.push_back(&qp);
    return sent < kBurstPackets;
  }
  if (sent == kBurstPackets) return false;
  const bool ride = sent != 0 || udp_->open_train_room(qp.route) >= kAckBytes;
  if (qp.engine->poll_ack(now, ride, packet)) send_packet(qp, packet, now);
  return true;
}

void Process::transmit(engine::TimeNs now) {
  if (blocked_) blocked_ = !udp_->flush();
  // Round after round over those that have more, so that a long transfer does not keep others
  // waiting.
  for (bool more = !touched_.empty(); more;) {
    more = false;
    size_t kept = 0;
    for (size_t i = 0; i < touched_.size(); ++i) {
      Qp& qp = *touched_[i];
      if (!transmit_burst(qp, now)) {
        touched_[kept++] = &qp;
        more = more || !(qp.routed && udp_->blocked(qp.route));
        continue;
      }
      qp.touched = false;
      timers_.set_at_most(qp.timer, std::min(qp.engine->poll_timer(), qp.agreement.next_hello));
    }
    touched_.resize(kept);
  }
  const bool was_blocked = blocked_;
  if (udp_ != nullptr && !udp_->empty()) blocked_ = !udp_->flush();
  // A datagram is complete when its payload is no longer needed, which is now.
  for (Qp* qp : sent_datagrams_) settle(*qp);
  sent_datagrams_.clear();
  blocked_fd_.store(blocked_ ? udp_->blocked_fd() : -1, std::memory_order_release);
  if (blocked_ && !was_blocked && !service_.disarmed()) service_.hurry();
}

void Process::flush_acks(Qp* only) {
  if (udp_ == nullptr) return;
  const engine::TimeNs time = now();
  engine::OutPacket packet;
  const auto flush_one = [&](Qp& qp) {
    // Nothing is deferred beyond the end of time.
    if (qp.routed && qp.engine->poll_ack(engine::kNever, true, packet)) {
      send_packet(qp, packet, time);
    }
  };
  if (only != nullptr) {
    flush_one(*only);
  } else {
    for (Qp* qp : queue_pairs_) {
      if (qp != nullptr) flush_one(*qp);
    }
  }
  if (!udp_->empty()) blocked_ = !udp_->flush();
}

}  // namespace roce::soft

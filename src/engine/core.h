// What the parts of one queue pair (requester, responder, datagram) share.
//
// Invariants: only commands allocate (a post, when the send ring grows); the parts never call each
// other, they meet in the state, the event bits and the receive completions below.
#ifndef ROCE_ENGINE_CORE_H_
#define ROCE_ENGINE_CORE_H_

#include <algorithm>
#include <cstdint>

#include "engine/queue_pair.h"
#include "engine/receive_queue.h"
#include "engine/types.h"

namespace roce::engine {

/// Largest message of verbs: 2^31 bytes.
inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 31;

/// Completions of receive requests between the packet that made them and poll_completion. The
/// driver drains after every packet, so few places are enough.
class ReceiveCompletions {
 public:
  bool empty() const { return head_ == tail_; }
  bool full() const { return head_ - tail_ == kPlaces; }
  /// Not full. entry: what poll hands back to the receive queue when the completion leaves.
  Completion& push(uint32_t entry) {
    Place& place = places_[head_++ % kPlaces];
    place.entry = entry;
    place.completion = Completion{};
    place.completion.is_recv = true;
    return place.completion;
  }
  bool poll(ReceiveQueue& queue, Completion& out) {
    if (empty()) return false;
    const Place& place = places_[tail_++ % kPlaces];
    out = place.completion;
    queue.release(place.entry);
    return true;
  }
  void clear(ReceiveQueue& queue) {
    while (!empty()) queue.release(places_[tail_++ % kPlaces].entry);
  }

 private:
  static constexpr uint32_t kPlaces = 4;
  struct Place {
    Completion completion;
    uint32_t entry;
  };
  Place places_[kPlaces];
  uint32_t head_ = 0, tail_ = 0;
};

/// Packets that a message of this length takes; one without payload too.
inline uint32_t packets_of(uint32_t length, uint32_t mtu) {
  return length <= mtu ? 1 : (length - 1) / mtu + 1;
}

struct Core {
  Core(const QpConfig& qp_config, ReceiveQueue& receive_queue, bool shared,
       const Memory& the_memory, Counters& the_counters)
      : config(qp_config),
        receive(receive_queue),
        is_srq(shared),
        memory(the_memory),
        counters(the_counters) {}

  QpConfig config;
  QpAttributes attributes;
  PathLimits limits;
  QpState state = QpState::kReset;
  unsigned events = 0;
  uint64_t ack_timeout_ns = 0;  ///< One unit of the attribute `timeout`; kNever: no timeout.
  ReceiveQueue& receive;
  const bool is_srq;
  const Memory& memory;
  Counters& counters;
  ReceiveCompletions receive_completions;

  uint32_t mtu() const { return attributes.path_mtu_bytes; }
  bool receiving() const {
    return state == QpState::kRts || state == QpState::kRtr || state == QpState::kSqd ||
           state == QpState::kSqe;
  }

  void enter_error() {
    if (state == QpState::kErr) return;
    state = QpState::kErr;
    if (is_srq) events |= kEventLastWqeReached;
  }

  void drop(Effects& effects, Drop reason) {
    effects.drop = reason;
    ++counters.drops[static_cast<int>(reason)];
  }

  /// Counts what leaves and gives it the fields that all packets of a queue pair share.
  void count_sent(OutPacket& out) {
    ++counters.tx_packets;
    counters.tx_payload_bytes += out.payload.length;
    if (out.resend) ++counters.resent_packets;
  }
};

inline Completion flushed_receive(uint64_t wr_id) {
  Completion out;
  out.wr_id = wr_id;
  out.status = WcStatus::kFlushed;
  out.opcode = WcOpcode::kRecv;
  out.is_recv = true;
  out.solicited = true;
  return out;
}

/// A packet with everything at its default. Field by field: fields that an opcode does not have are
/// not looked at, and clearing all of them would cost more than the rest of poll_packet.
inline void begin_packet(wire::Opcode opcode, uint32_t dest_qpn, uint32_t psn, OutPacket& out) {
  wire::Header& header = out.header;
  header.opcode = opcode;
  header.solicited = header.fecn = header.becn = header.ack_req = false;
  header.migreq = true;
  header.pkey = wire::kDefaultPkey;
  header.dest_qpn = dest_qpn;
  header.psn = psn & wire::kPsnMask;
  out.payload.kind = PayloadRef::Kind::kNone;
  out.payload.length = 0;
  out.resend = out.inlined = false;
  out.address = 0;
}

/// The same to the peer of a reliable connection.
inline void begin_packet(const Core& core, wire::Opcode opcode, uint32_t psn, OutPacket& out) {
  begin_packet(opcode, core.attributes.dest_qpn, psn, out);
}

}  // namespace roce::engine

#endif  // ROCE_ENGINE_CORE_H_

#include "network.h"

#include <algorithm>
#include <cstring>

namespace roce::engine::test {

Host::Host(bool has_bytes, const QpConfig& config, uint32_t receive_depth, uint32_t max_sge)
    : arena(has_bytes),
      receive(receive_depth, max_sge),
      qp(config, receive, false, arena, counters) {}

void Host::keep(const Effects& effects, uint32_t psn, const Frame& frame) {
  if (effects.keep == Keep::kNone) return;
  if (std::uniform_real_distribution<double>(0, 1)(random_) >= keep_share) return;
  kept_[{effects.keep, psn}] = frame;
  qp.keep(effects.keep, psn);
}

bool Host::handle_kept(TimeNs now) {
  Keep kind;
  uint32_t psn;
  if (!qp.take_kept(kind, psn)) return false;
  const auto kept = kept_.find({kind, psn});
  if (kept == kept_.end()) return true;
  const Frame frame = std::move(kept->second);
  kept_.erase(kept);
  from_frame(frame, now);
  return true;
}

// ---- PayloadHost ----

PayloadHost::PayloadHost(const QpConfig& config, uint32_t receive_depth, uint32_t max_sge,
                         uint8_t address)
    : Host(true, config, receive_depth, max_sge) {
  const uint8_t peer = static_cast<uint8_t>(3 - address);
  for (wire::Flow* flow : {&out_flow_, &in_flow_}) {
    for (uint8_t* gid : {flow->src, flow->dst}) {
      gid[10] = gid[11] = 0xff;
      gid[12] = 10;
    }
    flow->src_port = 0xC001;
    flow->dst_port = wire::kRoceUdpPort;
  }
  out_flow_.src[15] = in_flow_.dst[15] = address;
  out_flow_.dst[15] = in_flow_.src[15] = peer;
}

bool PayloadHost::gather(const PayloadRef& ref, uint8_t* out) const {
  if (ref.kind == PayloadRef::Kind::kRemoteRegion) {
    if (!arena.remote_ok(ref.rkey, ref.va, ref.length, kRemoteRead)) return false;
    std::memcpy(out, arena.bytes(ref.va), ref.length);
    return true;
  }
  if (!arena.local_ok(ref.sges, false)) return false;
  return for_each_part(ref.sges, ref.offset, ref.length, [&](uint64_t address, uint64_t bytes) {
    std::memcpy(out, arena.bytes(address), bytes);
    out += bytes;
  });
}

bool PayloadHost::to_frame(const OutPacket& packet, Frame& frame) {
  const uint32_t length = packet.payload.length;
  frame.datagram.assign(wire::kMaxHeaderBytes + length + 3 + wire::kIcrcBytes, 0);
  size_t at = wire::build(packet.header, length, frame.datagram.data());
  if (length > 0 && !gather(packet.payload, frame.datagram.data() + at)) {
    ++gather_faults;
    return false;
  }
  at += length + wire::pad_bytes(length);
  frame.datagram.resize(at + wire::kIcrcBytes);
  wire::icrc_store(wire::icrc_of_datagram(out_flow_, frame.datagram, 0),
                   frame.datagram.data() + at);
  frame.wire_bytes = static_cast<uint32_t>(frame.datagram.size());
  return true;
}

bool PayloadHost::from_frame(const Frame& frame, TimeNs now) {
  const std::span<const uint8_t> datagram = frame.datagram;
  const uint32_t crc = wire::icrc_load(datagram.data() + datagram.size() - wire::kIcrcBytes);
  if (crc != wire::icrc_of_datagram(in_flow_, datagram, 0)) return false;
  const wire::Parsed parsed = wire::parse(datagram);
  if (parsed.error != wire::ParseError::kNone) return false;
  Effects effects;
  qp.handle_packet(parsed.header, parsed.payload_length, false, now, effects);
  keep(effects, parsed.header.psn, frame);
  if (effects.placement.kind != Placement::Kind::kNone) {
    uint8_t original[8];
    std::memcpy(original, &parsed.header.atomic_original, 8);
    scatter(effects.placement, effects.placement.is_atomic_original
                                   ? original
                                   : datagram.data() + parsed.payload_offset);
  }
  if (effects.atomic.valid) qp.handle_atomic_result(execute(effects.atomic));
  return true;
}

void PayloadHost::scatter(const Placement& placement, const uint8_t* from) {
  if (placement.kind == Placement::Kind::kRemoteRegion) {
    std::memcpy(arena.bytes(placement.va), from, placement.length);
    return;
  }
  for_each_part(placement.sges, placement.offset, placement.length,
                [&](uint64_t address, uint64_t bytes) {
                  std::memcpy(arena.bytes(address), from, bytes);
                  from += bytes;
                });
}

uint64_t PayloadHost::execute(const AtomicOperation& atomic) {
  ++atomics_executed;
  uint64_t value = 0;
  std::memcpy(&value, arena.bytes(atomic.va), 8);
  uint64_t next = value + atomic.swap_add;
  if (atomic.is_compare_swap) next = value == atomic.compare ? atomic.swap_add : value;
  std::memcpy(arena.bytes(atomic.va), &next, 8);
  return value;
}

// ---- LengthsHost ----

LengthsHost::LengthsHost(const QpConfig& config, uint32_t receive_depth, uint32_t max_sge)
    : Host(false, config, receive_depth, max_sge) {}

bool LengthsHost::to_frame(const OutPacket& packet, Frame& frame) {
  const PayloadRef& ref = packet.payload;
  const bool readable = ref.kind == PayloadRef::Kind::kRemoteRegion
                            ? arena.remote_ok(ref.rkey, ref.va, ref.length, kRemoteRead)
                            : arena.local_ok(ref.sges, false);
  if (!readable) {
    ++gather_faults;
    return false;
  }
  frame.header = packet.header;
  frame.payload_length = ref.length;
  frame.wire_bytes = static_cast<uint32_t>(wire::datagram_bytes(packet.header.opcode, ref.length));
  return true;
}

bool LengthsHost::from_frame(const Frame& frame, TimeNs now) {
  if (frame.corrupted) return false;
  Effects effects;
  qp.handle_packet(frame.header, frame.payload_length, false, now, effects);
  keep(effects, frame.header.psn, frame);
  if (effects.atomic.valid) {
    ++atomics_executed;
    qp.handle_atomic_result(0);
  }
  return true;
}

// ---- Network ----

Network::Network(Host& a, Host& b, const Impairments& the_impairments, uint64_t seed)
    : impairments(the_impairments), hosts_{&a, &b}, random_(seed) {}

void Network::at(TimeNs time, std::function<void()> action) {
  events_.push({std::max(time, now), order_++, std::move(action)});
}

void Network::transmit(int from, Frame frame) {
  const TimeNs start = std::max(now, link_free_[from]);
  link_free_[from] = start + static_cast<TimeNs>((frame.wire_bytes + 62) / bytes_per_ns);
  if (uniform() < impairments.loss) {
    ++frames_lost;
    return;
  }
  if (uniform() < impairments.corrupt) {
    frame.corrupted = true;
    if (!frame.datagram.empty()) {
      const size_t bit = random_() % (frame.datagram.size() * 8);
      // The ICRC covers all bits but byte 4 (FECN, BECN), which routers may change.
      frame.datagram[bit / 8 == 4 ? 5 : bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    }
  }
  const int copies = uniform() < impairments.duplicate ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    TimeNs arrival = link_free_[from] + latency_ns;
    if (uniform() < impairments.reorder) arrival += random_() % 20'000;
    at(arrival, [this, to = 1 - from, frame] { deliver(to, frame); });
  }
}

void Network::deliver(int to, const Frame& frame) {
  Host& host = *hosts_[to];
  if (!host.from_frame(frame, now)) {
    ++host.damaged_frames;
    return;
  }
  drain_completions(to);
  while (host.handle_kept(now)) drain_completions(to);
  pump(to);
}

void Network::drain_completions(int index) {
  Host& host = *hosts_[index];
  for (Completion completion; host.qp.poll_completion(completion);) {
    if (host.on_completion) host.on_completion(completion);
  }
}

void Network::pump(int index) {
  // Packets are taken only when the link is free, so READ responses stay paced by it.
  constexpr TimeNs kBacklogNs = 2'000;
  Host& host = *hosts_[index];
  bool sent = false;
  OutPacket packet;
  while (link_free_[index] <= now + kBacklogNs && host.qp.poll_packet(now, packet)) {
    if (host.on_send) host.on_send(packet);
    Frame frame;
    if (!host.to_frame(packet, frame)) {
      host.qp.handle_gather_fault(packet, now);
      continue;
    }
    transmit(index, std::move(frame));
    sent = true;
  }
  if (host.qp.poll_ack(now, sent, packet)) {
    if (host.on_send) host.on_send(packet);
    Frame frame;
    host.to_frame(packet, frame);
    transmit(index, std::move(frame));
  }
  drain_completions(index);
  if (link_free_[index] > now + kBacklogNs && !pump_scheduled_[index]) {
    pump_scheduled_[index] = true;
    at(link_free_[index] - kBacklogNs, [this, index] {
      pump_scheduled_[index] = false;
      pump(index);
    });
  }
}

bool Network::run(const std::function<bool()>& done, uint64_t steps) {
  pump(0);
  pump(1);
  for (uint64_t step = 0; step < steps; ++step) {
    if (done()) return true;
    TimeNs timer = kNever;
    int timer_host = 0;
    for (int i = 0; i < 2; ++i) {
      const TimeNs t = hosts_[i]->qp.poll_timer();
      if (t < timer) {
        timer = t;
        timer_host = i;
      }
    }
    const TimeNs next = events_.empty() ? kNever : events_.top().time;
    if (timer == kNever && next == kNever) return done();
    if (timer < next) {
      now = std::max(now, timer);
      hosts_[timer_host]->qp.handle_timer(now);
      drain_completions(timer_host);
      pump(timer_host);
    } else {
      const std::function<void()> action = events_.top().action;
      now = next;
      events_.pop();
      action();
    }
  }
  return done();
}

}  // namespace roce::engine::test

#include "fuzz_host.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace roce::engine::test {
namespace {

constexpr uint32_t kDepth = 32;
constexpr uint32_t kLocalBytes = 2048;
constexpr uint8_t kHiddenByte = 0x5C;
constexpr size_t kIcrcBytes = wire::kIcrcBytes;

QpConfig config() {
  QpConfig out;
  out.qpn = 0x11;
  out.send_depth = kDepth;
  out.max_send_sge = 2;
  return out;
}

}  // namespace

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

FuzzHost::FuzzHost(uint8_t flavour)
    : Host(true, config(), kDepth, 2),
      granted_(arena.add(4096, kRemoteRead | kRemoteWrite | kRemoteAtomic | kLocalWrite)),
      read_only_(arena.add(1024, kRemoteRead)),
      local_(arena.add(kLocalBytes, kLocalWrite)),
      hidden_(arena.add(512, 0)) {
  for (const uint32_t key : {read_only_, hidden_}) {
    std::memset(arena.bytes(arena.va(key)), kHiddenByte, arena.region(key).length);
  }
  QpAttributes attributes;
  attributes.path_mtu_bytes = kMtu;
  attributes.dest_qpn = 0x11;
  attributes.sq_psn = attributes.rq_psn = kFirstPsn;
  attributes.access = kRemoteRead | kRemoteWrite | kRemoteAtomic;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
  attributes.selective = (flavour & kSelective) != 0;
  attributes.lazy_ack = (flavour & kLazyAck) != 0;
  qp.set_state(QpState::kInit, now_);
  qp.set_attributes(attributes);
  qp.set_state(QpState::kRtr, now_);
  qp.set_state(QpState::kRts, now_);
}

void FuzzHost::post(uint8_t choice) {
  constexpr WrOpcode kOpcodes[] = {WrOpcode::kSend,       WrOpcode::kSendImm, WrOpcode::kWrite,
                                   WrOpcode::kWriteImm,   WrOpcode::kRead,    WrOpcode::kFetchAdd,
                                   WrOpcode::kCompareSwap};
  constexpr uint32_t kLengths[] = {0, 1, 255, 256, 257, 600, 1024, kLocalBytes};
  const unsigned operation = choice & 7;
  const uint32_t length = kLengths[choice >> 3 & 7];
  const bool is_recv = operation == 7;
  const bool atomic = operation == 5 || operation == 6;
  // Two elements, so that their boundary falls into packets.
  const Sge sges[2] = {arena.sge(local_, 0, length / 3),
                       arena.sge(local_, length / 3, length - length / 3)};
  const Posted posted{is_recv, (choice & 0x40) == 0};
  const uint64_t wr_id = next_wr_id_++;
  bool accepted = false;
  if (is_recv) {
    RecvRequest request;
    request.wr_id = wr_id;
    request.sges = sges;
    accepted = qp.post_recv(request) == 0;
  } else {
    SendRequest request;
    request.wr_id = wr_id;
    request.opcode = kOpcodes[operation];
    request.signaled = posted.signaled;
    request.fence = (choice & 0x80) != 0;
    request.remote_addr = arena.va(granted_);
    request.rkey = granted_;
    request.swap = request.compare_add = 1;
    const Sge word = arena.sge(local_, 0, 8);
    request.sges = atomic ? std::span(&word, 1) : std::span(sges);
    accepted = qp.post_send(request, now_) == 0;
  }
  if (accepted) posted_[wr_id] = posted;
}

void FuzzHost::pause(uint8_t exponent) {
  now_ += TimeNs{1} << (exponent % 32);
  if (qp.poll_timer() <= now_) qp.handle_timer(now_);
}

void FuzzHost::move_near(std::vector<uint8_t>& datagram) const {
  if (datagram.size() < wire::kBthBytes) return;
  const uint32_t step = datagram[11] & 7;
  const bool request = wire::opcode_info(datagram[0]).request;
  const uint32_t psn = request ? wire::psn_add(qp.expected_psn(), step - 2)
                               : wire::psn_add(qp.next_psn(), 0u - 1 - step);
  for (int i = 0; i < 3; ++i) datagram[9 + i] = static_cast<uint8_t>(psn >> (16 - 8 * i));
}

void FuzzHost::receive_packet(std::span<const uint8_t> datagram) {
  Frame frame;
  frame.datagram.assign(datagram.begin(), datagram.end());
  frame.datagram.resize(datagram.size() + kIcrcBytes);
  from_frame(frame, now_);
  drain_completions();
  for (int turns = 0; handle_kept(now_); ++turns) {
    require(turns < 100'000, "kept packets come to an end");
    drain_completions();
  }
}

bool FuzzHost::from_frame(const Frame& frame, TimeNs now) {
  const wire::Parsed parsed = wire::parse(frame.datagram);
  if (parsed.error != wire::ParseError::kNone) return false;
  Effects effects;
  qp.handle_packet(parsed.header, parsed.payload_length, false, now, effects);
  keep(effects, parsed.header.psn, frame);
  const Placement& placement = effects.placement;
  if (placement.kind != Placement::Kind::kNone) {
    uint8_t original[8];
    std::memcpy(original, &parsed.header.atomic_original, sizeof original);
    require(placement.length <= (placement.is_atomic_original ? 8 : parsed.payload_length),
            "a packet places no more than it carries");
    place(placement,
          placement.is_atomic_original ? original : frame.datagram.data() + parsed.payload_offset);
  }
  if (effects.atomic.valid) {
    require(arena.remote_ok(effects.atomic.rkey, effects.atomic.va, 8, kRemoteAtomic),
            "an atomic touches only what is granted");
    qp.handle_atomic_result(0);
  }
  return true;
}

void FuzzHost::place(const Placement& placement, const uint8_t* from) {
  if (placement.kind == Placement::Kind::kRemoteRegion) {
    require(arena.remote_ok(placement.rkey, placement.va, placement.length, kRemoteWrite),
            "a WRITE touches only what is granted");
    if (placement.length != 0) std::memcpy(arena.bytes(placement.va), from, placement.length);
    return;
  }
  require(arena.local_ok(placement.sges, true), "a placement names local buffers");
  const bool fits = for_each_part(placement.sges, placement.offset, placement.length,
                                  [&](uint64_t address, uint64_t bytes) {
                                    std::memcpy(arena.bytes(address), from, bytes);
                                    from += bytes;
                                  });
  require(fits, "a placement stays inside its scatter list");
}

void FuzzHost::gather(const PayloadRef& ref, uint8_t* out) {
  if (ref.length == 0) return;
  if (ref.kind == PayloadRef::Kind::kRemoteRegion) {
    std::memcpy(out, arena.bytes(ref.va), ref.length);
    return;
  }
  const bool fits =
      for_each_part(ref.sges, ref.offset, ref.length, [&](uint64_t address, uint64_t bytes) {
        std::memcpy(out, arena.bytes(address), bytes);
        out += bytes;
      });
  require(fits, "a payload stays inside its scatter list");
}

bool FuzzHost::to_frame(const OutPacket& packet, Frame& frame) {
  const PayloadRef& ref = packet.payload;
  require(ref.length <= kMtu, "no packet is longer than the path MTU");
  if (ref.kind == PayloadRef::Kind::kRemoteRegion &&
      !arena.remote_ok(ref.rkey, ref.va, ref.length, kRemoteRead)) {
    return false;
  }
  frame.datagram.assign(wire::kMaxHeaderBytes + ref.length + 3 + kIcrcBytes, 0);
  const size_t header_bytes = wire::build(packet.header, ref.length, frame.datagram.data());
  gather(ref, frame.datagram.data() + header_bytes);
  frame.datagram.resize(header_bytes + ref.length + wire::pad_bytes(ref.length) + kIcrcBytes);
  const wire::Parsed parsed = wire::parse(frame.datagram);
  require(parsed.error == wire::ParseError::kNone && parsed.payload_length == ref.length,
          "what leaves can be parsed");
  return true;
}

std::vector<Frame> FuzzHost::pump() {
  std::vector<Frame> out;
  OutPacket packet;
  for (int i = 0; i < 64 && qp.poll_packet(now_, packet); ++i) {
    Frame frame;
    if (to_frame(packet, frame)) {
      out.push_back(std::move(frame));
    } else {
      qp.handle_gather_fault(packet, now_);
    }
  }
  if (qp.poll_ack(now_, !out.empty(), packet)) {
    Frame frame;
    require(to_frame(packet, frame), "an ACK has no payload");
    out.push_back(std::move(frame));
  }
  drain_completions();
  return out;
}

void FuzzHost::drain_completions() {
  for (Completion completion; qp.poll_completion(completion);) {
    const auto posted = posted_.find(completion.wr_id);
    require(posted != posted_.end(), "a request completes once");
    require(posted->second.is_recv == completion.is_recv, "in the queue that it was posted to");
    posted_.erase(posted);
  }
}

void FuzzHost::finish() {
  qp.set_state(QpState::kErr, now_);
  drain_completions();
  require(qp.send_queue_used() == 0 && receive.posted() == 0,
          "the error state empties both queues");
  for (const auto& [wr_id, posted] : posted_) {
    require(!posted.is_recv && !posted.signaled, "what is signaled completes");
  }
  require(arena.guards_intact(), "bytes around regions stay as they are");
  for (const uint32_t key : {read_only_, hidden_}) {
    const uint8_t* bytes = arena.bytes(arena.va(key));
    require(std::all_of(bytes, bytes + arena.region(key).length,
                        [](uint8_t byte) { return byte == kHiddenByte; }),
            "what is not granted stays as it is");
  }
}

void FuzzHost::play(std::span<const uint8_t> story) {
  const auto take = [&story](size_t most) {
    const std::span<const uint8_t> out = story.first(std::min(most, story.size()));
    story = story.subspan(out.size());
    return out;
  };
  while (story.size() >= 2) {
    const uint8_t first = take(1)[0];
    const auto kind = static_cast<Record>(first & 3);
    if (kind == Record::kPause) {
      pause(take(1)[0]);
    } else if (kind == Record::kPost) {
      post(take(1)[0]);
    } else {
      const std::span<const uint8_t> length = take(2);
      const size_t bytes = length[0] + (length.size() > 1 ? length[1] * size_t{256} : 0);
      const std::span<const uint8_t> body = take(bytes);
      std::vector<uint8_t> datagram(body.begin(), body.end());
      if ((first & 4) != 0) datagram.resize(datagram.size() + 128);
      if ((first & 8) != 0) datagram.resize(datagram.size() - std::min<size_t>(datagram.size(), 4));
      if (kind == Record::kNearPacket) move_near(datagram);
      receive_packet(datagram);
    }
    pump();
  }
  finish();
}

}  // namespace roce::engine::test

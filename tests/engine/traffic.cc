#include "traffic.h"

#include <algorithm>
#include <cstring>

namespace roce::engine::test {

namespace {

uint8_t pattern(uint64_t id, uint64_t offset) {
  return static_cast<uint8_t>(id * 131 + offset * 7 + (offset >> 8) * 13 + 1);
}

bool consumes_receive(WrOpcode opcode) {
  return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendImm ||
         opcode == WrOpcode::kSendInvalidate || opcode == WrOpcode::kWriteImm;
}

bool is_write(WrOpcode opcode) {
  return opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteImm;
}

bool is_atomic(WrOpcode opcode) {
  return opcode == WrOpcode::kFetchAdd || opcode == WrOpcode::kCompareSwap;
}

}  // namespace

QpConfig Traffic::config(uint32_t qpn) {
  QpConfig config;
  config.qpn = qpn;
  config.send_depth = kSlots;
  config.max_send_sge = 3;
  return config;
}

Traffic::Traffic(Network& network, Host& a, Host& b, const TrafficOptions& options, uint64_t seed)
    : network_(network), options_(options) {
  sides_[0].host = &a;
  sides_[1].host = &b;
  for (int i = 0; i < 2; ++i) {
    sides_[i].random.seed(seed * 2 + i);
    prepare(i);
  }
}

void Traffic::prepare(int index) {
  Side& side = sides_[index];
  Host& host = *side.host;
  const uint32_t slot_bytes = options_.large_every > 0 ? kLarge : kMaxSend;
  for (uint32_t i = 0; i < kSlots; ++i) {
    side.local.push_back(host.arena.add(slot_bytes, kLocalWrite));
    side.target.push_back(host.arena.add(slot_bytes, kLocalWrite | kRemoteWrite));
  }
  side.source = host.arena.add(slot_bytes, kRemoteRead);
  side.counter = host.arena.add(16, kLocalWrite | kRemoteAtomic);
  for (uint32_t i = 0; i < kReceives; ++i) {
    side.buffers.push_back(host.arena.add(kMaxSend, kLocalWrite));
  }
  if (host.arena.has_bytes()) {
    const Arena::Region& source = host.arena.region(side.source);
    for (uint64_t i = 0; i < source.length; ++i) *host.arena.bytes(source.va + i) = pattern(77, i);
    std::memset(host.arena.bytes(host.arena.va(side.counter)), 0, 16);
  }

  QpAttributes attributes;
  attributes.path_mtu_bytes = options_.mtu;
  attributes.dest_qpn = 2 - index;
  attributes.sq_psn = (options_.start_psn + 16 * index) & wire::kPsnMask;
  attributes.rq_psn = (options_.start_psn + 16 * (1 - index)) & wire::kPsnMask;
  attributes.access = kRemoteRead | kRemoteWrite | kRemoteAtomic;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 1;
  attributes.lazy_ack = options_.lazy_ack;
  attributes.selective = options_.selective;
  host.keep_share = options_.keep_share;
  host.qp.set_state(QpState::kInit, network_.now);
  host.qp.set_attributes(attributes);
  PathLimits limits;
  limits.max_inflight_bytes = 64 * 1024;
  limits.read_segment_bytes = 10'000;
  limits.max_read_bytes = 64 * 1024;
  host.qp.set_limits(limits);
  host.qp.set_state(QpState::kRtr, network_.now);
  host.qp.set_state(QpState::kRts, network_.now);
  for (uint32_t i = 0; i < kReceives; ++i) post_receive(index, i);
  if (options_.agree_after_ns != 0) {
    attributes.lazy_ack = attributes.selective = true;
    network_.at(options_.agree_after_ns * (1 + 2 * index),
                [&host, attributes] { host.qp.set_attributes(attributes); });
  }
  host.on_completion = [this, index](const Completion& completion) { complete(index, completion); };
}

void Traffic::post_receive(int index, uint32_t buffer) {
  Side& side = sides_[index];
  const Sge sges[2] = {
      side.host->arena.sge(side.buffers[buffer], 0, 1000),
      side.host->arena.sge(side.buffers[buffer], 1000, kMaxSend - 1000),
  };
  RecvRequest request;
  request.wr_id = buffer;
  request.sges = sges;
  if (side.host->qp.post_recv(request) != 0) fail("post_recv refused");
}

void Traffic::start() {
  post_more(0);
  post_more(1);
}

bool Traffic::finished() const {
  if (!failure_.empty()) return true;
  for (int i = 0; i < 2; ++i) {
    if (sides_[i].posted < options_.operations || !sides_[i].outstanding.empty() ||
        !sides_[i].to_receive.empty()) {
      return false;
    }
  }
  return true;
}

void Traffic::post_more(int index) {
  while (failure_.empty() && sides_[index].posted < options_.operations &&
         sides_[index].outstanding.size() < kSlots && post_one(index)) {
  }
}

Traffic::Operation Traffic::choose(Side& side) {
  static constexpr WrOpcode kOpcodes[] = {
      WrOpcode::kSend,     WrOpcode::kSendImm, WrOpcode::kSendInvalidate, WrOpcode::kWrite,
      WrOpcode::kWriteImm, WrOpcode::kRead,    WrOpcode::kFetchAdd,       WrOpcode::kCompareSwap};
  Operation out;
  out.id = side.posted;
  out.opcode = kOpcodes[side.random() % std::size(kOpcodes)];
  const uint64_t shape = side.random() % 8;
  const uint32_t mtu = std::min(options_.mtu, kMaxSend / 5);
  out.length = shape == 0   ? 0
               : shape == 1 ? mtu * static_cast<uint32_t>(1 + side.random() % 5)
               : shape < 5  ? static_cast<uint32_t>(side.random() % 64)
                            : static_cast<uint32_t>(side.random() % (5 * mtu));
  if (options_.large_every > 0 && out.id % options_.large_every == 5) {
    out.opcode = (out.id / options_.large_every) % 2 == 0 ? WrOpcode::kWrite : WrOpcode::kRead;
    out.length = kLarge;
  }
  if (is_atomic(out.opcode)) out.length = 8;
  out.imm = static_cast<uint32_t>(side.random());
  out.slot = static_cast<uint32_t>(out.id % kSlots);
  out.signaled =
      side.random() % 3 == 0 || side.unsignaled >= 5 || out.id + 1 == options_.operations;
  out.solicited = side.random() % 2 == 0;
  return out;
}

bool Traffic::post_one(int index) {
  Side& side = sides_[index];
  Side& peer = sides_[1 - index];
  Arena& arena = side.host->arena;
  Operation operation = choose(side);
  const uint32_t key = side.local[operation.slot];
  SendRequest request;
  request.wr_id = operation.id;
  request.opcode = operation.opcode;
  request.signaled = operation.signaled;
  request.solicited = operation.solicited;
  request.imm = operation.imm;
  // Up to three elements; the second may be empty.
  const uint32_t cut = operation.length / 3;
  const Sge sges[3] = {arena.sge(key, 0, cut), arena.sge(key, cut, 0),
                       arena.sge(key, cut, operation.length - cut)};
  request.sges = sges;
  if (arena.has_bytes()) {
    for (uint32_t i = 0; i < operation.length; ++i) {
      *arena.bytes(arena.va(key) + i) =
          operation.opcode == WrOpcode::kRead ? 0 : pattern(operation.id, i);
    }
  }
  if (is_write(operation.opcode)) {
    request.rkey = peer.target[operation.slot];
    request.remote_addr = peer.host->arena.va(request.rkey);
  } else if (operation.opcode == WrOpcode::kRead) {
    request.rkey = peer.source;
    request.remote_addr = peer.host->arena.va(request.rkey);
  } else if (is_atomic(operation.opcode)) {
    const bool swap = operation.opcode == WrOpcode::kCompareSwap;
    request.rkey = peer.counter;
    request.remote_addr = peer.host->arena.va(request.rkey) + (swap ? 8 : 0);
    // Every swap expects what the one before has left: one executed twice or out of order fails.
    request.compare_add = swap ? side.swaps : 1;
    request.swap = operation.id + 1;
    operation.compare = swap ? side.swaps : 0;
    if (swap) side.swaps = request.swap;
    ++side.atomics;
  }
  const int error = side.host->qp.post_send(request, network_.now);
  if (error != 0) {
    fail("post_send refused with " + std::to_string(error));
    return false;
  }
  side.unsignaled = operation.signaled ? 0 : side.unsignaled + 1;
  ++side.posted;
  side.outstanding.push_back(operation);
  if (consumes_receive(operation.opcode)) peer.to_receive.push_back(operation);
  return true;
}

void Traffic::complete(int index, const Completion& completion) {
  if (!failure_.empty()) return;
  if (completion.status != WcStatus::kSuccess) {
    fail("completion with status " + std::to_string(static_cast<int>(completion.status)) +
         (completion.is_recv ? " (receive)" : " (send)"));
    return;
  }
  completion.is_recv ? complete_receive(index, completion) : complete_send(index, completion);
}

void Traffic::complete_send(int index, const Completion& completion) {
  Side& side = sides_[index];
  for (;;) {
    if (side.outstanding.empty()) return fail("completion of nothing");
    const Operation operation = side.outstanding.front();
    if (operation.id != completion.wr_id && operation.signaled) {
      return fail("signaled request without completion");
    }
    check_result(index, operation);
    side.outstanding.pop_front();
    if (operation.id == completion.wr_id) {
      if (!operation.signaled) return fail("completion of an unsignaled request");
      break;
    }
  }
  post_more(index);
}

void Traffic::check_result(int index, const Operation& operation) {
  Side& side = sides_[index];
  Side& peer = sides_[1 - index];
  Arena& arena = side.host->arena;
  const uint64_t local = arena.va(side.local[operation.slot]);
  if (is_write(operation.opcode)) {
    check_bytes(*peer.host, peer.host->arena.va(peer.target[operation.slot]), operation.id,
                operation.length, "WRITE");
  } else if (operation.opcode == WrOpcode::kRead) {
    check_bytes(*side.host, local, 77, operation.length, "READ");
  } else if (is_atomic(operation.opcode) && arena.has_bytes()) {
    uint64_t original = 0;
    std::memcpy(&original, arena.bytes(local), 8);
    const bool add = operation.opcode == WrOpcode::kFetchAdd;
    if (original != (add ? side.adds++ : operation.compare)) fail("wrong original of an atomic");
  }
}

void Traffic::complete_receive(int index, const Completion& completion) {
  Side& side = sides_[index];
  if (side.to_receive.empty()) return fail("receive of nothing");
  const Operation operation = side.to_receive.front();
  side.to_receive.pop_front();
  const bool imm =
      operation.opcode == WrOpcode::kSendImm || operation.opcode == WrOpcode::kWriteImm;
  const bool invalidate = operation.opcode == WrOpcode::kSendInvalidate;
  if (completion.byte_len != operation.length) fail("wrong byte_len");
  if (completion.has_imm != imm || (imm && completion.imm != operation.imm)) fail("wrong imm");
  if (completion.invalidated != invalidate || (invalidate && completion.imm != operation.imm)) {
    fail("wrong invalidated key");
  }
  if (completion.solicited != operation.solicited) fail("wrong solicited flag");
  const uint32_t buffer = static_cast<uint32_t>(completion.wr_id);
  if (operation.opcode == WrOpcode::kWriteImm) {
    if (completion.opcode != WcOpcode::kRecvWithImm) fail("wrong opcode");
    check_bytes(*side.host, side.host->arena.va(side.target[operation.slot]), operation.id,
                operation.length, "WRITE with immediate");
  } else {
    if (completion.opcode != WcOpcode::kRecv) fail("wrong opcode");
    check_bytes(*side.host, side.host->arena.va(side.buffers[buffer]), operation.id,
                operation.length, "SEND");
  }
  if (options_.repost_delay_ns == 0) {
    post_receive(index, buffer);
  } else {
    network_.at(network_.now + options_.repost_delay_ns,
                [this, index, buffer] { post_receive(index, buffer); });
  }
}

void Traffic::check_bytes(const Host& host, uint64_t va, uint64_t id, uint32_t length,
                          const char* what) {
  if (!host.arena.has_bytes()) return;
  const uint8_t* bytes = host.arena.bytes(va);
  for (uint32_t i = 0; i < length; ++i) {
    if (bytes[i] != pattern(id, i)) {
      return fail(std::string(what) + ": wrong byte at " + std::to_string(i) + " of " +
                  std::to_string(length) + ", request " + std::to_string(id));
    }
  }
}

void Traffic::fail(const std::string& text) {
  if (failure_.empty()) failure_ = text + " at " + std::to_string(network_.now) + " ns";
}

}  // namespace roce::engine::test

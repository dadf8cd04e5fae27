#include "behaviour.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <utility>

namespace roce::verbs {

using Clock = std::chrono::steady_clock;

const Table& table_of(const std::string& parameter) {
  return parameter == "soft" ? soft_table() : system_table();
}

std::vector<ibv_wc> take(const CompletionQueue& cq, size_t count) {
  std::vector<ibv_wc> out;
  const Clock::time_point end = Clock::now() + kPatience;
  while (out.size() < count && Clock::now() < end) {
    ibv_wc wc[16];
    const int got = cq.poll({wc, std::min<size_t>(16, count - out.size())});
    if (got < 0) {
      ADD_FAILURE() << "poll_cq returned " << got;
      return out;
    }
    out.insert(out.end(), wc, wc + got);
  }
  return out;
}

ibv_wc take_one(const CompletionQueue& cq) {
  const std::vector<ibv_wc> got = take(cq, 1);
  EXPECT_EQ(got.size(), 1u) << "no completion within " << kPatience.count() << " s";
  if (!got.empty()) return got[0];
  ibv_wc none{};
  none.status = IBV_WC_GENERAL_ERR;
  return none;
}

bool stays_empty(const CompletionQueue& cq, std::chrono::milliseconds quiet) {
  const Clock::time_point end = Clock::now() + quiet;
  ibv_wc wc;
  while (Clock::now() < end) {
    if (cq.poll({&wc, 1}) != 0) return false;
  }
  return true;
}

bool wait_async(const Context& context, ibv_event_type type) {
  const Clock::time_point end = Clock::now() + kPatience;
  while (Clock::now() < end) {
    pollfd entry = {context.async_fd(), POLLIN, 0};
    if (poll(&entry, 1, 100) <= 0) continue;
    ibv_async_event event{};
    if (context.table().get_async_event(context.get(), &event) != 0) return false;
    const bool found = event.event_type == type;
    context.table().ack_async_event(&event);
    if (found) return true;
  }
  return false;
}

std::vector<uint8_t> End::pattern(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> out(bytes);
  uint32_t state = seed * 2654435761u + 1;
  for (uint8_t& byte : out) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return out;
}

void End::fill(size_t offset, size_t bytes, uint32_t seed) {
  const std::vector<uint8_t> data = pattern(bytes, seed);
  std::copy(data.begin(), data.end(), memory.begin() + static_cast<ptrdiff_t>(offset));
}

bool End::holds(size_t offset, size_t bytes, uint32_t seed) const {
  const std::vector<uint8_t> data = pattern(bytes, seed);
  return std::equal(data.begin(), data.end(), memory.begin() + static_cast<ptrdiff_t>(offset));
}

int End::post_recv(uint64_t id, size_t offset, size_t bytes) {
  ibv_sge sge = piece(offset, bytes);
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = id;
  request.sg_list = &sge;
  request.num_sge = bytes == 0 ? 0 : 1;
  return ibv_post_recv(qp.get(), &request, &bad);
}

ibv_send_wr End::request(uint64_t id, ibv_wr_opcode opcode, size_t offset, size_t bytes) {
  sge_ = piece(offset, bytes);
  ibv_send_wr out{};
  out.wr_id = id;
  out.opcode = opcode;
  out.send_flags = IBV_SEND_SIGNALED;
  out.sg_list = &sge_;
  out.num_sge = bytes == 0 ? 0 : 1;
  return out;
}

ibv_send_wr End::rdma(uint64_t id, ibv_wr_opcode opcode, size_t offset, size_t bytes,
                      uint64_t remote, uint32_t rkey) {
  ibv_send_wr out = request(id, opcode, offset, bytes);
  out.wr.rdma.remote_addr = remote;
  out.wr.rdma.rkey = rkey;
  return out;
}

ibv_send_wr End::atomic(uint64_t id, ibv_wr_opcode opcode, size_t offset, uint64_t remote,
                        uint32_t rkey, uint64_t compare_add, uint64_t swap) {
  ibv_send_wr out = request(id, opcode, offset, 8);
  out.wr.atomic.remote_addr = remote;
  out.wr.atomic.rkey = rkey;
  out.wr.atomic.compare_add = compare_add;
  out.wr.atomic.swap = swap;
  return out;
}

int End::post(ibv_send_wr request) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp.get(), &request, &bad);
}

void Behaviour::SetUp() {
  const std::string which = GetParam();
  const Table* tables[] = {&table_of(which)};
  Discovery found = discover(tables, false);
  std::string reasons;
  for (const Refusal& refusal : found.refusals) reasons += "\n  " + refusal.reason;
  if (found.candidates.empty() && which == "system") {
    GTEST_SKIP() << "libibverbs offers no RoCE v2 port here:" << reasons;
  }
  ASSERT_FALSE(found.candidates.empty()) << reasons;
  // Prefer the loopback device: it is there without any network.
  for (Candidate& candidate : found.candidates) {
    const bool loopback = gid_kind(candidate.gids[0].bytes) == GidKind::kLoopback;
    if (candidate_.table == nullptr || loopback) candidate_ = std::move(candidate);
    if (loopback) break;
  }
  Result<Context> context = Context::open(*candidate_.table, candidate_.device);
  ASSERT_TRUE(context) << context.status().text();
  context_ = std::move(*context);
  Result<ProtectionDomain> pd = ProtectionDomain::create(context_);
  ASSERT_TRUE(pd) << pd.status().text();
  pd_ = std::move(*pd);
}

End Behaviour::make_end(const EndOptions& options) {
  End end;
  end.memory.resize(options.memory_bytes);
  auto region = MemoryRegion::create(pd_, end.memory.data(), end.memory.size(), options.access);
  EXPECT_TRUE(region) << region.status().text();
  auto send_cq =
      CompletionQueue::create(context_, static_cast<int>(options.depth), options.channel);
  EXPECT_TRUE(send_cq) << send_cq.status().text();
  auto recv_cq =
      CompletionQueue::create(context_, static_cast<int>(options.depth), options.channel);
  EXPECT_TRUE(recv_cq) << recv_cq.status().text();
  end.region = std::move(*region);
  end.send_cq = std::move(*send_cq);
  end.recv_cq = std::move(*recv_cq);

  ibv_qp_init_attr attributes{};
  attributes.qp_type = options.type;
  attributes.send_cq = end.send_cq.get();
  attributes.recv_cq =
      options.shared_recv_cq != nullptr ? options.shared_recv_cq->get() : end.recv_cq.get();
  attributes.sq_sig_all = options.signal_all;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = options.depth;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 4;
  attributes.cap.max_inline_data = options.max_inline;
  if (options.srq != nullptr) {
    attributes.srq = options.srq->get();
    attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 0;
  }
  auto qp = QueuePair::create(pd_, attributes);
  EXPECT_TRUE(qp) << qp.status().text();
  end.qp = std::move(*qp);
  return end;
}

ibv_ah_attr Behaviour::own_address() const {
  const Gid& gid = candidate_.gids[0];
  return global_address(candidate_.port, static_cast<uint8_t>(gid.index), gid.bytes.data(), 106,
                        64);
}

uint32_t Behaviour::first_psn() {
  next_psn_ += 5;
  return next_psn_ & 0xFFFFFF;
}

void Behaviour::connect(End& end, uint32_t dest_qpn, uint32_t rq_psn, uint32_t sq_psn,
                        const RcPath& base, int access) {
  RcPath path = base;
  path.address = own_address();
  path.dest_qpn = dest_qpn;
  path.rq_psn = rq_psn;
  path.sq_psn = sq_psn;
  path.path_mtu = std::min(path.path_mtu, IBV_MTU_1024);
  Status status = end.qp.rc_to_init(candidate_.port, access);
  ASSERT_TRUE(status) << status.text();
  status = end.qp.rc_to_rtr(path);
  ASSERT_TRUE(status) << status.text();
  status = end.qp.rc_to_rts(path);
  ASSERT_TRUE(status) << status.text();
}

void Behaviour::connect(End& a, End& b, const RcPath& base, int access) {
  const uint32_t from_a = first_psn(), from_b = first_psn();
  connect(a, b.qp.qpn(), from_b, from_a, base, access);
  connect(b, a.qp.qpn(), from_a, from_b, base, access);
}

INSTANTIATE_TEST_SUITE_P(Devices, Behaviour, testing::Values("soft", "system"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace roce::verbs

// What the tests of the software device share: an opened device, connected queue pairs, bounded
// waits.
#ifndef ROCE_TESTS_SOFT_RIG_H_
#define ROCE_TESTS_SOFT_RIG_H_

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "soft/soft.h"

namespace roce::soft::test {

inline constexpr uint8_t kIpv4Loopback[16] = {0, 0, 0,    0,    0,   0, 0, 0,
                                              0, 0, 0xFF, 0xFF, 127, 0, 0, 1};
inline constexpr uint8_t kIpv6Loopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The device of the loopback interface; nullptr if there is none.
inline ibv_context* open_loopback() {
  ibv_device** list = get_device_list(nullptr);
  ibv_context* found = nullptr;
  for (ibv_device** device = list; list != nullptr && *device != nullptr && !found; ++device) {
    ibv_context* context = open_device(*device);
    if (context == nullptr) continue;
    ibv_gid gid{};
    for (int i = 0; i < 8 && found == nullptr; ++i) {
      if (query_gid(context, 1, i, &gid) == 0 && std::memcmp(gid.raw, kIpv4Loopback, 16) == 0) {
        found = context;
      }
    }
    if (found == nullptr) close_device(context);
  }
  free_device_list(list);
  return found;
}

/// Index of an address in the GID table, -1 if it is not there.
inline int gid_index(ibv_context* context, const uint8_t address[16]) {
  ibv_gid gid{};
  for (int i = 0; query_gid(context, 1, i, &gid) == 0; ++i) {
    if (std::memcmp(gid.raw, address, 16) == 0) return i;
  }
  return -1;
}

struct QpOptions {
  uint32_t depth = 64;
  uint32_t max_inline = 64;
  uint32_t sges = 4;
  bool signal_all = false;
  ibv_qp_type type = IBV_QPT_RC;
  ibv_srq* srq = nullptr;
  uint64_t operations = 0;  ///< Not 0: made by ibv_create_qp_ex with these send_ops_flags.
  uint8_t timeout = 14, retry_cnt = 7, rnr_retry = 7, min_rnr_timer = 1;
  ibv_mtu mtu = IBV_MTU_4096;
  unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
};

/// What a peer needs to connect.
struct Name {
  uint32_t qpn = 0;
  uint32_t psn = 0;
  uint8_t gid[16] = {};
};

/// Context, domain, CQ and one queue pair. Members may be destroyed and set to nullptr by a test.
class Rig {
 public:
  explicit Rig(const QpOptions& options = {}, ibv_comp_channel* channel = nullptr,
               ibv_context* shared = nullptr)
      : options(options), owns_context(shared == nullptr) {
    context = shared != nullptr ? shared : open_loopback();
    if (context == nullptr) throw std::runtime_error("no loopback device");
    pd = alloc_pd(context);
    cq = create_cq(context, 4096, this, channel, 0);
    make_qp();
  }
  ~Rig() {
    EXPECT_EQ(qp == nullptr ? 0 : destroy_qp(qp), 0);
    EXPECT_EQ(mr == nullptr ? 0 : dereg_mr(mr), 0);
    EXPECT_EQ(cq == nullptr ? 0 : destroy_cq(cq), 0);
    EXPECT_EQ(pd == nullptr ? 0 : dealloc_pd(pd), 0);
    EXPECT_EQ(!owns_context || context == nullptr ? 0 : close_device(context), 0);
  }
  Rig(const Rig&) = delete;

  void make_qp() {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq;
    init.srq = options.srq;
    init.qp_type = options.type;
    init.sq_sig_all = options.signal_all;
    init.cap = {options.depth, options.depth, options.sges, options.sges, options.max_inline};
    init.pd = pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = options.operations;
    // By the rules of verbs.h the extended structure begins like the plain one.
    qp = options.operations != 0 ? ibv_create_qp_ex(context, &init)
                                 : create_qp(pd, reinterpret_cast<ibv_qp_init_attr*>(&init));
    if (qp == nullptr) throw std::runtime_error("create_qp: " + std::string(std::strerror(errno)));
  }

  void make_memory(size_t bytes, int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC) {
    memory.assign(bytes + 64, 0);
    // 64-byte aligned, so that atomics and tests of alignment have a known start.
    data = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) & 63);
    mr = reg_mr(pd, data, bytes, access);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
  }

  Name name(const uint8_t address[16] = kIpv4Loopback) const {
    Name out;
    out.qpn = qp->qp_num;
    out.psn = qp->qp_num * 7919 & 0xFFFFFF;
    std::memcpy(out.gid, address, 16);
    return out;
  }

  int to_init() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = options.access;
    attr.qkey = 0x11111111;
    const int third = options.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    return modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | third);
  }
  ibv_ah_attr address_vector(const Name& peer) const {
    ibv_ah_attr out{};
    out.is_global = 1;
    out.port_num = 1;
    std::memcpy(out.grh.dgid.raw, peer.gid, 16);
    out.grh.sgid_index = static_cast<uint8_t>(gid_index(context, peer.gid));
    out.grh.hop_limit = 64;
    return out;
  }
  int to_rtr(const Name& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    if (options.type == IBV_QPT_UD) return modify_qp(qp, &attr, IBV_QP_STATE);
    attr.path_mtu = options.mtu;
    attr.dest_qp_num = peer.qpn;
    attr.rq_psn = peer.psn;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = options.min_rnr_timer;
    attr.ah_attr = address_vector(peer);
    return modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int to_rts() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = name().psn;
    if (options.type == IBV_QPT_UD) return modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    attr.timeout = options.timeout;
    attr.retry_cnt = options.retry_cnt;
    attr.rnr_retry = options.rnr_retry;
    attr.max_rd_atomic = 16;
    return modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  void connect(const Name& peer) {
    ASSERT_EQ(to_init(), 0);
    ASSERT_EQ(to_rtr(peer), 0);
    ASSERT_EQ(to_rts(), 0);
  }

  ibv_sge sge(size_t offset, uint32_t bytes) const {
    return {reinterpret_cast<uintptr_t>(data + offset), bytes, mr->lkey};
  }
  int receive(uint64_t id, size_t offset, uint32_t bytes) {
    ibv_sge element = sge(offset, bytes);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &element;
    wr.num_sge = bytes == 0 ? 0 : 1;
    return ibv_post_recv(qp, &wr, &bad);
  }
  /// A request over one element, signaled; fields of `wr` other than the list come from the caller.
  int send(uint64_t id, ibv_wr_opcode opcode, size_t offset, uint32_t bytes, unsigned flags = 0,
           uint64_t remote = 0, uint32_t rkey = 0, uint64_t compare_add = 0, uint64_t swap = 0) {
    ibv_sge element = sge(offset, bytes);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &element;
    wr.num_sge = bytes == 0 ? 0 : 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED | flags;
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic = {remote, compare_add, swap, rkey};
    } else {
      wr.wr.rdma = {remote, rkey};
    }
    return ibv_post_send(qp, &wr, &bad);
  }
  int write(const Rig& to, uint64_t id, size_t offset, uint32_t bytes, unsigned flags = 0) {
    return send(id, IBV_WR_RDMA_WRITE, offset, bytes, flags, reinterpret_cast<uintptr_t>(to.data),
                to.mr->rkey);
  }
  int read(const Rig& from, uint64_t id, size_t offset, uint32_t bytes, size_t from_offset = 0) {
    return send(id, IBV_WR_RDMA_READ, offset, bytes, 0,
                reinterpret_cast<uintptr_t>(from.data + from_offset), from.mr->rkey);
  }

  ibv_qp_attr query() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr;
  }

  /// Polls until one completion comes; status IBV_WC_GENERAL_ERR after `seconds` without one.
  ibv_wc wait(double seconds = 10) {
    ibv_wc wc{};
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t spins = 0;; ++spins) {
      const int got = ibv_poll_cq(cq, 1, &wc);
      if (got == 1) return wc;
      if (got < 0 || (spins % 64 == 63 && seconds_since(start) > seconds)) break;
    }
    wc.status = IBV_WC_GENERAL_ERR;
    return wc;
  }

  /// The next asynchronous event of the context, which must be about the queue pair; nullopt: none
  /// within `seconds`.
  std::optional<ibv_event_type> next_event(double seconds) const {
    pollfd fd = {context->async_fd, POLLIN, 0};
    const auto start = std::chrono::steady_clock::now();
    while (poll(&fd, 1, 0) == 0) {
      if (seconds_since(start) > seconds) return std::nullopt;
      progress();
    }
    ibv_async_event event{};
    if (get_async_event(context, &event) != 0) return std::nullopt;
    EXPECT_EQ(event.element.qp, qp);
    ack_async_event(&event);
    return event.event_type;
  }

  const QpOptions options;
  const bool owns_context;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<uint8_t> memory;
  uint8_t* data = nullptr;
};

/// Two rigs of one process, connected.
struct Pair {
  Rig a, b;
  explicit Pair(const QpOptions& options = {}, size_t bytes = 1 << 16,
                const uint8_t address[16] = kIpv4Loopback)
      : a(options), b(options) {
    a.make_memory(bytes);
    b.make_memory(bytes);
    a.connect(b.name(address));
    b.connect(a.name(address));
  }
};

/// get_cq_event with a bounded wait. False: no event within `milliseconds`.
inline bool wait_event(ibv_comp_channel* channel, int milliseconds) {
  pollfd fd = {channel->fd, POLLIN, 0};
  if (poll(&fd, 1, milliseconds) != 1) return false;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (get_cq_event(channel, &cq, &context) != 0) return false;
  ack_cq_events(cq, 1);
  return true;
}

}  // namespace roce::soft::test

#endif  // ROCE_TESTS_SOFT_RIG_H_

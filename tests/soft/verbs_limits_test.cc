// What query_device and query_port report is what is enforced: at the limit works, one over is
// refused with the errno of the call's manual page.
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "rig.h"

namespace roce::soft::test {
namespace {

ibv_device_attr limits(ibv_context* context) {
  ibv_device_attr out{};
  EXPECT_EQ(query_device(context, &out), 0);
  return out;
}

/// Makes objects until one is refused, which must be for want of room; destroys them and makes one
/// more. Returns how many there were.
template <typename Object>
int count_until_refused(const std::function<Object*()>& make, int (*destroy)(Object*), int most) {
  std::vector<Object*> made;
  while (static_cast<int>(made.size()) <= most) {
    errno = 0;
    Object* object = make();
    if (object == nullptr) break;
    made.push_back(object);
  }
  EXPECT_EQ(errno, ENOMEM);
  for (Object* object : made) EXPECT_EQ(destroy(object), 0);
  Object* again = make();
  EXPECT_NE(again, nullptr);
  EXPECT_EQ(again == nullptr ? 0 : destroy(again), 0);
  return static_cast<int>(made.size());
}

TEST(Limits, AsManyDomainsAsReported) {
  ibv_context* context = open_loopback();
  const int most = limits(context).max_pd;
  EXPECT_EQ(count_until_refused<ibv_pd>([&] { return alloc_pd(context); }, dealloc_pd, most), most);
  EXPECT_EQ(close_device(context), 0);
}

TEST(Limits, AsManyCompletionQueuesAsReported) {
  ibv_context* context = open_loopback();
  const int most = limits(context).max_cq;
  const auto make = [&] { return create_cq(context, 1, nullptr, nullptr, 0); };
  EXPECT_EQ(count_until_refused<ibv_cq>(make, destroy_cq, most), most);
  EXPECT_EQ(close_device(context), 0);
}

TEST(Limits, AsManyQueuePairsAsReported) {
  ibv_context* context = open_loopback();
  const int most = limits(context).max_qp;
  ibv_pd* pd = alloc_pd(context);
  ibv_cq* cq = create_cq(context, 1, nullptr, nullptr, 0);
  const auto make = [&] {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {1, 1, 1, 1, 0};
    return create_qp(pd, &init);
  };
  EXPECT_EQ(count_until_refused<ibv_qp>(make, destroy_qp, most), most);
  EXPECT_EQ(destroy_cq(cq), 0);
  EXPECT_EQ(dealloc_pd(pd), 0);
  EXPECT_EQ(close_device(context), 0);
}

/// Resident memory of this process in bytes.
size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Limits, TenThousandConnectedQueuePairsWork) {
  constexpr size_t kQueuePairs = 10'000;
  QpOptions options;
  options.depth = options.sges = 1;
  options.max_inline = 0;
  Rig rig(options);
  rig.make_memory(4096);
  const size_t before = resident_bytes();
  std::vector<ibv_qp*> all;
  for (;;) {
    all.push_back(rig.qp);
    ASSERT_NO_FATAL_FAILURE(rig.connect(rig.name()));  // With itself.
    if (all.size() == kQueuePairs) break;
    rig.make_qp();
  }
  std::printf("%zu bytes a queue pair\n", (resident_bytes() - before) / kQueuePairs);
  for (uint64_t i = 0; i < kQueuePairs; ++i) {
    rig.qp = all[i];
    std::memcpy(rig.data, &i, sizeof i);
    ASSERT_EQ(rig.send(i, IBV_WR_RDMA_WRITE, 0, sizeof i, 0,
                       reinterpret_cast<uintptr_t>(rig.data + 64), rig.mr->rkey),
              0);
    const ibv_wc completion = rig.wait();
    ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.wr_id, i);
    EXPECT_EQ(completion.qp_num, all[i]->qp_num);
    EXPECT_EQ(std::memcmp(rig.data + 64, &i, sizeof i), 0);
  }
  while (all.size() > 1) {
    EXPECT_EQ(destroy_qp(all.back()), 0);
    all.pop_back();
  }
  rig.qp = all.front();
}

TEST(Limits, AsManySharedReceiveQueuesAddressHandlesAndRegionsAsReported) {
  Rig rig;
  const ibv_device_attr most = limits(rig.context);
  const auto make_srq = [&] {
    ibv_srq_init_attr init{};
    init.attr = {1, 1, 0};
    return create_srq(rig.pd, &init);
  };
  EXPECT_EQ(count_until_refused<ibv_srq>(make_srq, destroy_srq, most.max_srq), most.max_srq);
  ibv_ah_attr vector = rig.address_vector(rig.name());
  const auto make_ah = [&] { return create_ah(rig.pd, &vector); };
  EXPECT_EQ(count_until_refused<ibv_ah>(make_ah, destroy_ah, most.max_ah), most.max_ah);
  static uint8_t byte;
  const auto make_mr = [&] { return reg_mr(rig.pd, &byte, 1, 0); };
  EXPECT_EQ(count_until_refused<ibv_mr>(make_mr, dereg_mr, most.max_mr), most.max_mr);
}

TEST(Limits, CompletionQueueEntries) {
  ibv_context* context = open_loopback();
  const int most = limits(context).max_cqe;
  EXPECT_EQ(create_cq(context, most + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(create_cq(context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_cq_init_attr_ex attr{};
  attr.cqe = static_cast<uint32_t>(most) + 1;
  EXPECT_EQ(ibv_create_cq_ex(context, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_cq* cq = create_cq(context, most, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_GE(cq->cqe, most);
  EXPECT_EQ(resize_cq(cq, most + 1), EINVAL);
  EXPECT_EQ(resize_cq(cq, 1), 0);
  EXPECT_EQ(resize_cq(cq, most), 0);
  EXPECT_EQ(destroy_cq(cq), 0);
  EXPECT_EQ(close_device(context), 0);
}

TEST(Limits, WorkRequestsAndElements) {
  Rig rig;
  const ibv_device_attr most = limits(rig.context);
  const auto wr = static_cast<uint32_t>(most.max_qp_wr);
  const auto sge = static_cast<uint32_t>(most.max_sge);
  EXPECT_GE(sge, 16u);
  const auto create = [&](const ibv_qp_cap& cap) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = rig.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = cap;
    ibv_qp* qp = create_qp(rig.pd, &init);
    if (qp == nullptr) return errno;
    EXPECT_GE(init.cap.max_send_wr, cap.max_send_wr);
    EXPECT_GE(init.cap.max_recv_sge, cap.max_recv_sge);
    return destroy_qp(qp);
  };
  EXPECT_EQ(create({wr, wr, 1, 1, 0}), 0);
  EXPECT_EQ(create({1, 1, sge, sge, 0}), 0);
  EXPECT_EQ(create({wr + 1, 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(create({1, wr + 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(create({1, 1, sge + 1, 1, 0}), EINVAL);
  EXPECT_EQ(create({1, 1, 1, sge + 1, 0}), EINVAL);
  const auto create_shared = [&](uint32_t depth, uint32_t elements) {
    ibv_srq_init_attr init{};
    init.attr = {depth, elements, 0};
    ibv_srq* srq = create_srq(rig.pd, &init);
    return srq == nullptr ? errno : destroy_srq(srq);
  };
  const auto srq_wr = static_cast<uint32_t>(most.max_srq_wr);
  const auto srq_sge = static_cast<uint32_t>(most.max_srq_sge);
  EXPECT_EQ(create_shared(srq_wr, srq_sge), 0);
  EXPECT_EQ(create_shared(srq_wr + 1, 1), EINVAL);
  EXPECT_EQ(create_shared(1, srq_sge + 1), EINVAL);
}

TEST(Limits, TheLongestListsGatherAndScatter) {
  QpOptions options;
  options.sges = 32;
  Pair pair(options);
  ASSERT_EQ(limits(pair.a.context).max_sge, 32);
  for (size_t i = 0; i < 4096; ++i) pair.a.data[i] = static_cast<uint8_t>(i % 251);
  // Element i of the gather list: i + 1 bytes at 64 i. Scatter: the same lengths the other way
  // round, so that the borders differ; 1 + 2 + ... + 32 = 528 bytes.
  std::vector<ibv_sge> gather, scatter;
  for (uint32_t i = 0; i < 33; ++i) gather.push_back(pair.a.sge(64 * i, i + 1));
  for (uint32_t i = 0; i < 33; ++i) scatter.push_back(pair.b.sge(64 * i, 32 - i));
  const auto receive = [&](int count) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = scatter.data();
    wr.num_sge = count;
    return ibv_post_recv(pair.b.qp, &wr, &bad);
  };
  const auto send = [&](int count) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = gather.data();
    wr.num_sge = count;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    return ibv_post_send(pair.a.qp, &wr, &bad);
  };
  EXPECT_EQ(receive(33), EINVAL);
  EXPECT_EQ(send(33), EINVAL);
  ASSERT_EQ(receive(32), 0);
  ASSERT_EQ(send(32), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.wait().byte_len, 528u);
  std::vector<uint8_t> sent, got;
  for (uint32_t i = 0; i < 32; ++i) {
    for (uint32_t k = 0; k < i + 1; ++k) sent.push_back(static_cast<uint8_t>((64 * i + k) % 251));
    for (uint32_t k = 0; k < 32 - i; ++k) got.push_back(pair.b.data[64 * i + k]);
  }
  EXPECT_EQ(sent, got);
}

/// 2 GiB of address space over 16 MiB of memory, which all its parts share.
class SharedPages {
 public:
  static constexpr size_t kBytes = size_t{1} << 31, kPart = size_t{1} << 24;
  SharedPages() {
    const int fd = memfd_create("limits", 0);
    EXPECT_EQ(ftruncate(fd, kPart), 0);
    data_ = static_cast<uint8_t*>(
        mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t at = 0; at < kBytes; at += kPart) {
      mmap(data_ + at, kPart, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    }
    close(fd);
  }
  ~SharedPages() { munmap(data_, kBytes); }
  SharedPages(const SharedPages&) = delete;
  uint8_t* data() { return data_; }

 private:
  uint8_t* data_;
};

TEST(Limits, TheLongestMessageArrives) {
  Pair pair;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(pair.a.context, 1, &port), 0);
  ASSERT_EQ(port.max_msg_sz, SharedPages::kBytes);
  SharedPages from, to;
  for (size_t i = 0; i < SharedPages::kPart; ++i) from.data()[i] = static_cast<uint8_t>(i % 251);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  ibv_mr* source = reg_mr(pair.a.pd, from.data(), SharedPages::kBytes, 0);
  ibv_mr* target = reg_mr(pair.b.pd, to.data(), SharedPages::kBytes, kAccess);
  ASSERT_NE(source, nullptr);
  ASSERT_NE(target, nullptr);
  const auto post = [&](uint32_t more) {
    ibv_sge list[] = {{reinterpret_cast<uintptr_t>(from.data()), 1u << 31, source->lkey},
                      {reinterpret_cast<uintptr_t>(from.data()), more, source->lkey}};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = list;
    wr.num_sge = 2;
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {reinterpret_cast<uintptr_t>(to.data()), target->rkey};
    return ibv_post_send(pair.a.qp, &wr, &bad);
  };
  ASSERT_EQ(pair.b.receive(1, 0, 0), 0);
  EXPECT_EQ(post(1), EINVAL);
  ASSERT_EQ(post(0), 0);
  ASSERT_EQ(pair.a.wait(100).status, IBV_WC_SUCCESS);
  const ibv_wc got = pair.b.wait();
  EXPECT_EQ(got.status, IBV_WC_SUCCESS);
  EXPECT_EQ(got.byte_len, 1u << 31);
  EXPECT_EQ(std::memcmp(from.data(), to.data(), SharedPages::kPart), 0);
  EXPECT_EQ(dereg_mr(source), 0);
  EXPECT_EQ(dereg_mr(target), 0);
}

TEST(Limits, CompletionTimestampsCountAsTheDeviceSays) {
  QpOptions options;
  options.type = IBV_QPT_UD;
  Rig rig(options);
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(rig.context, nullptr, &device), 0);
  ASSERT_NE(device.completion_timestamp_mask, 0u);
  EXPECT_EQ(device.hca_core_clock, 1'000'000u);  // kHz, that is nanoseconds.
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  attr.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq = ibv_create_cq_ex(rig.context, &attr);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.qp_type = IBV_QPT_RC;
  init.cap = {1, 1, 1, 1, 0};
  ibv_qp* qp = create_qp(rig.pd, &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr error_state{};
  error_state.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(modify_qp(qp, &error_state, IBV_QP_STATE), 0);
  const auto device_ns = [&] {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(rig.context, &values), 0);
    return static_cast<uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000u +
           static_cast<uint64_t>(values.raw_clock.tv_nsec);
  };
  const uint64_t before = device_ns();
  ibv_recv_wr wr{}, *bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);  // Flushed at once.
  ibv_poll_cq_attr poll_attr{};
  while (ibv_start_poll(cq, &poll_attr) == ENOENT && device_ns() - before < 1'000'000'000u) {
  }
  const uint64_t stamp = ibv_wc_read_completion_ts(cq);
  const uint64_t after = device_ns();
  EXPECT_LE(before, stamp);
  EXPECT_LE(stamp, after);
  EXPECT_EQ(ibv_wc_read_completion_ts(cq), stamp);  // Of the completion, not of the reading.
  ibv_end_poll(cq);
  EXPECT_EQ(destroy_qp(qp), 0);
  EXPECT_EQ(destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

}  // namespace
}  // namespace roce::soft::test

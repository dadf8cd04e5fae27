// Lifetimes and messages, on devices that only answer. What devices do is in verbs_behaviour_test.
#include "verbs/objects.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "fake_table.h"

namespace roce::verbs {
namespace {

class Objects : public testing::Test {
 protected:
  void SetUp() override {
    fake_world() = {};
    fake_world().devices = {{.name = "dev0", .ports = {{}}}};
    context_ = std::move(Context::open(fake_table(), "dev0").value());
    pd_ = std::move(ProtectionDomain::create(context_).value());
  }

  static bool contains(const Status& status, const std::string& part) {
    return status.text().find(part) != std::string::npos;
  }

  Context context_;
  ProtectionDomain pd_;
};

TEST_F(Objects, AreDestroyedOnce) {
  EXPECT_EQ(fake_world().pds, 1);
  ProtectionDomain moved = std::move(pd_);
  EXPECT_FALSE(pd_);
  EXPECT_TRUE(moved);
  EXPECT_EQ(fake_world().pds, 1);
  moved = ProtectionDomain();
  EXPECT_EQ(fake_world().pds, 0);
  {
    ProtectionDomain scoped = std::move(ProtectionDomain::create(context_).value());
    EXPECT_EQ(fake_world().pds, 1);
  }
  EXPECT_EQ(fake_world().pds, 0);
  ProtectionDomain destroyed = std::move(ProtectionDomain::create(context_).value());
  EXPECT_TRUE(destroyed.destroy());
  EXPECT_TRUE(destroyed.destroy());
  EXPECT_EQ(fake_world().pds, 0);
}

TEST_F(Objects, OpenSaysWhichDevicesThereAre) {
  const Result<Context> none = Context::open(fake_table(), "dev7");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().code(), Code::kUnavailable);
  EXPECT_EQ(none.status().text(), "device \"dev7\" does not exist; fake has: dev0.");
  EXPECT_EQ(fake_world().lists_freed, 2);
}

TEST_F(Objects, RefusedRegistrationNamesTheLimitOfLockedMemory) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  rlimit lowered = limit;
  lowered.rlim_cur = 32768;
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &lowered), 0);
  fake_world().create_error = ENOMEM;
  static char memory[100000];
  const Result<MemoryRegion> region = MemoryRegion::create(pd_, memory, sizeof memory, 7);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.status().code(), Code::kOutOfResources);
  EXPECT_EQ(region.status().text().find("dev0: reg_mr("), 0u) << region.status().text();
  EXPECT_TRUE(contains(region.status(), "100000 bytes"));
  EXPECT_TRUE(contains(region.status(), "access 0x7"));
  EXPECT_TRUE(contains(region.status(), "RLIMIT_MEMLOCK is 32768 bytes"));
  EXPECT_TRUE(contains(region.status(), "ulimit -l"));
}

TEST_F(Objects, RefusedQueuePairNamesWhatIsTooLarge) {
  fake_world().create_error = EINVAL;
  ibv_qp_init_attr asked{};
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {.max_send_wr = 2000,
               .max_recv_wr = 1000,
               .max_send_sge = 9,
               .max_recv_sge = 1,
               .max_inline_data = 64};
  const Result<QueuePair> qp = QueuePair::create(pd_, asked);
  ASSERT_FALSE(qp);
  EXPECT_EQ(qp.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(
      qp.status().text(),
      "dev0: create_qp(RC, send queue 2000 x 9 entries, inline 64 bytes, receive queue 1000 x "
      "1 entries) failed: Invalid argument (errno 22). Too much for this device: send queue "
      "depth 2000 of at most 1000; send entries 9 of at most 4.");
}

TEST_F(Objects, RefusedCompletionQueueNamesTheLimit) {
  fake_world().create_error = EINVAL;
  const Result<CompletionQueue> cq = CompletionQueue::create(context_, 9999);
  ASSERT_FALSE(cq);
  EXPECT_TRUE(contains(cq.status(), "create_cq(9999 entries)")) << cq.status().text();
  EXPECT_TRUE(contains(cq.status(), "1 to 5000 entries")) << cq.status().text();
}

TEST_F(Objects, RefusedPathNamesPeerGidQpnAndMtu) {
  const QueuePair qp = std::move(QueuePair::create(pd_, {}).value());
  qp.get()->qp_num = 0x1234;
  fake_world().modify_error = ETIMEDOUT;
  RcPath path;
  path.path_mtu = IBV_MTU_2048;
  path.dest_qpn = 0xABCDEF;
  path.rq_psn = 0x77;
  const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3};
  path.address = global_address(1, 3, peer, 106, 64);
  const Status status = qp.rc_to_rtr(path);
  EXPECT_EQ(status.code(), Code::kTimedOut);
  for (const char* part : {"dev0: modify_qp(QPN 0x001234", "RTR", "10.1.2.3", "GID index 3",
                           "traffic class 106", "QPN 0xabcdef", "2048 bytes", "ping"}) {
    EXPECT_TRUE(contains(status, part)) << part << ": " << status.text();
  }
}

TEST_F(Objects, CodesFollowErrno) {
  EXPECT_EQ(code_for(ENOMEM), Code::kOutOfResources);
  EXPECT_EQ(code_for(EINVAL), Code::kInvalidArgument);
  EXPECT_EQ(code_for(EOPNOTSUPP), Code::kNotSupported);
  EXPECT_EQ(code_for(ENODEV), Code::kUnavailable);
  EXPECT_EQ(code_for(EHOSTUNREACH), Code::kUnreachable);
  EXPECT_EQ(code_for(EIO), Code::kDevice);
  EXPECT_EQ(call_failed("dev0", "x", 0, "").text(), "dev0: x failed: no reason given (errno 0).");
}

TEST(Tables, HaveNoNullEntries) {
  for (const Table* table : {&system_table(), &soft_table()}) {
    // Every member after name and is_soft is a function pointer.
    const auto* first = reinterpret_cast<const char*>(&table->get_device_list);
    const auto* end = reinterpret_cast<const char*>(table + 1);
    ASSERT_EQ((end - first) % sizeof(void*), 0u);
    for (; first != end; first += sizeof(void*)) {
      void* entry;
      std::memcpy(&entry, first, sizeof entry);
      EXPECT_NE(entry, nullptr) << table->name;
    }
  }
}

TEST(Tables, LibibverbsPeersHaveNoHints) {
  PeerHints hints;
  hints.udp_port = 1;
  hints.capabilities = 9;
  EXPECT_EQ(system_table().device_hints(nullptr, &hints), 0);
  EXPECT_EQ(hints.udp_port, 4791);
  EXPECT_EQ(hints.capabilities, 0u);
  EXPECT_EQ(system_table().set_peer_hints(nullptr, &hints), 0);
  char text[4] = "xyz";
  EXPECT_EQ(system_table().describe_qp(nullptr, text, sizeof text), 0);
  EXPECT_STREQ(text, "");
}

}  // namespace
}  // namespace roce::verbs

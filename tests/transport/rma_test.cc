// Puts, gets and registrations over the software device.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "support.h"
#include "transport/pages.h"

namespace roce::transport {
namespace {

using namespace std::chrono_literals;
using test::Node;
using test::NodeSetup;
using test::pattern;
using test::pump;
using test::Region;
using test::Transfer;

class Rma : public testing::Test {
 protected:
  Node a{{.rank = 0}}, b{{.rank = 1}};
  Endpoint* to_b = a.add(b);

  void get(Transfer& transfer, Region& local, Region& remote, size_t offset, size_t bytes) {
    Status status =
        a.transport().get(to_b, &transfer, local.memory.data() + offset, &local.registration,
                          remote.address() + offset, remote.registration.handle, bytes);
    ASSERT_TRUE(status.is_ok()) << status.text();
  }
  void put(Transfer& transfer, Region& local, Region& remote, size_t offset, size_t bytes) {
    Status status =
        a.transport().put(to_b, &transfer, local.memory.data() + offset, &local.registration,
                          remote.address() + offset, remote.registration.handle, bytes);
    ASSERT_TRUE(status.is_ok()) << status.text();
  }
};

TEST_F(Rma, PutsAndGetsOfOneByteTo16MiB) {
  constexpr size_t kMost = 16 << 20;
  Region here(a, kMost), there(b, kMost);
  for (size_t bytes : {size_t{1}, size_t{8}, size_t{512}, size_t{513}, size_t{65536}, size_t{65537},
                       size_t{1000000}, kMost}) {
    std::vector<uint8_t> data = pattern(bytes, static_cast<uint32_t>(bytes));
    std::fill(here.memory.begin(), here.memory.end(), 0);
    std::copy(data.begin(), data.end(), there.memory.begin());
    Transfer got;
    get(got, here, there, 0, bytes);
    ASSERT_TRUE(pump({&a, &b}, [&] { return got.done; })) << bytes << test::told({&a, &b});
    ASSERT_EQ(got.result, Code::kOk);
    ASSERT_EQ(std::memcmp(here.memory.data(), data.data(), bytes), 0) << bytes;
    if (bytes < kMost) {
      ASSERT_EQ(here.memory[bytes], 0);
    }

    data = pattern(bytes, 77);
    std::copy(data.begin(), data.end(), here.memory.begin());
    Transfer done;
    put(done, here, there, 0, bytes);
    ASSERT_TRUE(pump({&a, &b}, [&] { return done.done; })) << bytes << test::told({&a, &b});
    ASSERT_EQ(done.result, Code::kOk);
    // Complete means: in the peer's memory.
    ASSERT_EQ(std::memcmp(there.memory.data(), data.data(), bytes), 0) << bytes;
  }
  EXPECT_EQ(a.counter(Counter::tx_put_messages), 8U);
  EXPECT_EQ(a.counter(Counter::rx_get_messages), 8U);
}

TEST_F(Rma, ZeroBytesComplete) {
  Region here(a, 64), there(b, 64);
  Transfer got, done;
  get(got, here, there, 0, 0);
  put(done, here, there, 0, 0);
  ASSERT_TRUE(pump({&a, &b}, [&] { return got.done && done.done; }));
  EXPECT_EQ(got.result, Code::kOk);
}

TEST_F(Rma, SmallPutsNeedNoRegistrationAndTakeTheBytesAtOnce) {
  Region there(b, 4096);
  size_t bytes = a.transport().limits().max_inline_bytes;
  std::vector<uint8_t> data = pattern(bytes, 5);
  std::vector<uint8_t> copy = data;
  // The first one waits for the connection.
  std::vector<Transfer> puts(4);
  for (size_t i = 0; i < puts.size(); ++i) {
    ASSERT_TRUE(a.transport()
                    .put(to_b, &puts[i], copy.data(), nullptr, there.address() + i * bytes,
                         there.registration.handle, bytes)
                    .is_ok());
  }
  std::fill(copy.begin(), copy.end(), 0);
  ASSERT_TRUE(pump({&a, &b}, [&] { return puts.back().done; }));
  for (size_t i = 0; i < puts.size(); ++i) {
    EXPECT_EQ(std::memcmp(there.memory.data() + i * bytes, data.data(), bytes), 0);
  }
  Transfer large;
  Status status = a.transport().put(to_b, &large, copy.data(), nullptr, there.address(),
                                    there.registration.handle, bytes + 1);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
}

TEST_F(Rma, HundredsOfOperationsQueueAndAllFinish) {
  constexpr size_t kEach = 100000, kCount = 100;
  Region here(a, kEach * kCount), source(b, kEach * kCount);
  std::vector<uint8_t> first = pattern(kEach * kCount, 1);
  std::copy(first.begin(), first.end(), source.memory.begin());
  std::vector<Transfer> gets(kCount);
  for (size_t i = 0; i < kCount; ++i) get(gets[i], here, source, i * kEach, kEach);
  auto all = [](std::vector<Transfer>& transfers) {
    return std::all_of(transfers.begin(), transfers.end(), [](auto& t) { return t.done; });
  };
  ASSERT_TRUE(pump({&a, &b}, [&] { return all(gets); })) << test::told({&a, &b});
  EXPECT_EQ(here.memory, first);

  Region target(b, kEach * kCount);
  std::vector<Transfer> puts(kCount);
  for (size_t i = 0; i < kCount; ++i) put(puts[i], here, target, i * kEach, kEach);
  ASSERT_TRUE(pump({&a, &b}, [&] { return all(puts); })) << test::told({&a, &b});
  EXPECT_EQ(target.memory, first);
}

TEST_F(Rma, ASmallGetIsNotStuckBehindALargeOne) {
  constexpr size_t kLarge = 16 << 20;
  Region here(a, kLarge + 8), there(b, kLarge + 8);
  Transfer large, small;
  get(large, here, there, 0, kLarge);
  get(small, here, there, kLarge, 8);
  ASSERT_TRUE(pump({&a, &b}, [&] { return small.done; }));
  EXPECT_FALSE(large.done);
  ASSERT_TRUE(pump({&a, &b}, [&] { return large.done; }));
}

TEST_F(Rma, GetsNeedNoProgressOfTheTarget) {
  constexpr size_t kBytes = 1 << 20;
  Region here(a, kBytes), there(b, kBytes);
  std::vector<uint8_t> data = pattern(kBytes, 3);
  std::copy(data.begin(), data.end(), there.memory.begin());
  Transfer got;
  get(got, here, there, 0, kBytes);
  ASSERT_TRUE(pump({&a}, [&] { return got.done; })) << test::told({&a, &b});
  EXPECT_EQ(here.memory, data);
}

TEST_F(Rma, AccessToMemoryThatIsNotRegisteredFailsThePeerWithAText) {
  Region here(a, 4096);
  MemoryHandle wrong{};
  for (uint32_t& key : wrong.rkey) key = 0x12345678;
  Transfer got;
  ASSERT_TRUE(
      a.transport()
          .get(to_b, &got, here.memory.data(), &here.registration, here.address(), wrong, 4096)
          .is_ok());
  ASSERT_TRUE(pump({&a, &b}, [&] { return got.done && !a.errors.empty(); }));
  EXPECT_NE(got.result, Code::kOk);
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].first, to_b);
  const std::string& text = a.errors[0].second;
  // The target learns it from its device, though it has no work of its own under way.
  ASSERT_TRUE(pump({&a, &b}, [&] { return !b.errors.empty(); }));
  EXPECT_NE(b.errors[0].second.find("process 0 of job 1"), std::string::npos) << b.errors[0].second;
  for (const char* part : {"process 1 of job 1", "RDMA READ (get) (4096 bytes)", "host ", "GID ",
                           "QPN 0x8", "DSCP 26", "path MTU ", "UDP port ", "Likely: 1."}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

TEST_F(Rma, ReadOnlyPagesRegisterForReading) {
  Pages pages(8192);
  ASSERT_EQ(mprotect(pages.data(), 8192, PROT_READ), 0);
  Registration registration;
  for (unsigned access : {0u, static_cast<unsigned>(kRemoteRead)}) {
    Status status = a.transport().register_memory(pages.data(), 8192, access, &registration);
    ASSERT_TRUE(status.is_ok()) << status.text();
    a.transport().deregister_memory(&registration);
    a.transport().deregister_memory(&registration);  // harmless
  }
}

TEST_F(Rma, InvalidArgumentsAreRefused) {
  Region here(a, 64);
  Transfer transfer;
  MemoryHandle handle{};
  EXPECT_EQ(a.transport()
                .get(nullptr, &transfer, here.memory.data(), &here.registration, 0, handle, 8)
                .code(),
            Code::kInvalidArgument);
  EXPECT_EQ(a.transport().get(to_b, &transfer, here.memory.data(), nullptr, 0, handle, 8).code(),
            Code::kInvalidArgument);
}

TEST(Registration, LackOfMemoryMayBeTriedAgain) {
  static int refusals;
  refusals = 0;
  verbs::Table table = test::soft_table_copy();
  table.reg_mr = [](ibv_pd* pd, void* address, size_t length, int access) -> ibv_mr* {
    if (length == 12345) {
      ++refusals;
      errno = ENOMEM;
      return nullptr;
    }
    return verbs::soft_table().reg_mr(pd, address, length, access);
  };
  NodeSetup setup{.rank = 0};
  setup.hooks.soft_table = &table;
  Node a(setup);
  std::vector<uint8_t> memory(12345);
  Registration registration;
  Status status =
      a.transport().register_memory(memory.data(), memory.size(), kLocalWrite, &registration);
  EXPECT_EQ(status.code(), Code::kOutOfResources);
  EXPECT_NE(status.text().find("12345 bytes"), std::string::npos) << status.text();
  EXPECT_EQ(a.counter(Counter::registration_failures), 1U);
}

TEST(Registration, TheReceivePoolTakesWhatThereIs) {
  // 256 buffers of 64 KiB do not fit, 64 do.
  verbs::Table table = test::soft_table_copy();
  table.reg_mr = [](ibv_pd* pd, void* address, size_t length, int access) -> ibv_mr* {
    if (length > size_t{5} << 20) {
      errno = ENOMEM;
      return nullptr;
    }
    return verbs::soft_table().reg_mr(pd, address, length, access);
  };
  NodeSetup setup{.rank = 0};
  setup.hooks.soft_table = &table;
  Node a(setup), b({.rank = 1});
  Endpoint* to_a = b.add(a);
  Node c({.rank = 2});
  Endpoint* from_c = c.add(a);
  for (uint32_t i = 0; i < 200; ++i) b.send(to_a, pattern(60000, i));
  c.send(from_c, pattern(8, 0));
  ASSERT_TRUE(pump({&a, &b, &c}, [&] { return a.received.size() == 201; })) << test::told({&a, &b});
  std::erase_if(a.received, [](const test::Message& message) { return message.from.rank == 2; });
  for (uint32_t i = 0; i < 200; ++i) ASSERT_EQ(a.received[i].data, pattern(60000, i));
  EXPECT_EQ(std::count_if(a.log.begin(), a.log.end(),
                          [](const std::string& line) {
                            return line.find("64 receive buffers, not 256") != std::string::npos;
                          }),
            1);
}

}  // namespace
}  // namespace roce::transport

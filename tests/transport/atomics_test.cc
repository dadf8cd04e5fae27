// Atomic operations over the software device.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "support.h"

namespace roce::transport {
namespace {

using test::Node;
using test::NodeSetup;
using test::pump;
using test::Region;
using test::Transfer;

constexpr unsigned kAny = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;

class Atomics : public testing::Test {
 protected:
  Node a{{.rank = 0}}, b{{.rank = 1}};
  Endpoint* to_b = a.add(b);
  Region there{b, 64, kAny};

  uint64_t word(size_t index) const {
    uint64_t value;
    std::memcpy(&value, there.memory.data() + 8 * index, sizeof value);
    return value;
  }
  void set_word(size_t index, uint64_t value) {
    std::memcpy(there.memory.data() + 8 * index, &value, sizeof value);
  }
  /// Starts FETCH_ADD on word `index`.
  void add(Transfer& transfer, uint64_t* result, Registration* local, size_t index,
           uint64_t addend) {
    Status status =
        a.transport().fetch_add(to_b, &transfer, result, local, there.address() + 8 * index,
                                there.registration.handle, addend);
    ASSERT_TRUE(status.is_ok()) << status.text();
  }
  uint64_t compare_swap(size_t index, uint64_t compare, uint64_t swap) {
    Transfer transfer;
    uint64_t before = ~uint64_t{0};
    Status status =
        a.transport().compare_swap(to_b, &transfer, &before, nullptr, there.address() + 8 * index,
                                   there.registration.handle, compare, swap);
    EXPECT_TRUE(status.is_ok()) << status.text();
    EXPECT_TRUE(pump({&a, &b}, [&] { return transfer.done; })) << test::told({&a, &b});
    EXPECT_EQ(transfer.result, Code::kOk);
    return before;
  }
};

TEST_F(Atomics, AddAndCompareSwapActOnOneWordAndTellWhatItHeld) {
  std::vector<uint64_t> words(8);
  std::iota(words.begin(), words.end(), 0x0102030405060708);
  std::memcpy(there.memory.data(), words.data(), 64);

  Transfer added;
  Region here(a, 8);
  add(added, reinterpret_cast<uint64_t*>(here.memory.data()), &here.registration, 1, 1000);
  ASSERT_TRUE(pump({&a, &b}, [&] { return added.done; })) << test::told({&a, &b});
  uint64_t before;
  std::memcpy(&before, here.memory.data(), sizeof before);
  EXPECT_EQ(before, words[1]);
  words[1] += 1000;

  EXPECT_EQ(compare_swap(2, words[2], 7), words[2]);
  words[2] = 7;
  EXPECT_EQ(compare_swap(3, words[3] + 1, 7), words[3]);
  EXPECT_EQ(std::memcmp(there.memory.data(), words.data(), 64), 0);
  EXPECT_EQ(a.counter(Counter::atomic_operations), 3U);
  EXPECT_EQ(a.counter(Counter::rx_get_messages), 0U);
}

TEST_F(Atomics, HundredsWithoutRegistrationQueueAndEachSeesAnotherValue) {
  constexpr size_t kCount = 500;
  std::vector<Transfer> transfers(kCount);
  std::vector<uint64_t> results(kCount, ~uint64_t{0});
  for (size_t i = 0; i < kCount; ++i) add(transfers[i], &results[i], nullptr, 0, 3);
  ASSERT_TRUE(pump({&a, &b}, [&] {
    return std::all_of(transfers.begin(), transfers.end(),
                       [](auto& transfer) { return transfer.done; });
  })) << test::told({&a, &b});
  EXPECT_EQ(word(0), 3 * kCount);
  std::set<uint64_t> seen(results.begin(), results.end());
  EXPECT_EQ(seen.size(), kCount);
  EXPECT_EQ(*seen.rbegin(), 3 * (kCount - 1));
}

TEST_F(Atomics, AreAtomicAgainstTheTargetsOwnInstructions) {
  ASSERT_TRUE(a.transport().limits().has_atomics);
  ASSERT_TRUE(a.transport().limits().atomics_with_cpu);
  constexpr int kCount = 2000;
  std::atomic<bool> stop{false};
  uint64_t by_cpu = 0;
  std::thread owner([&] {
    auto* target = reinterpret_cast<uint64_t*>(there.memory.data());
    while (!stop.load()) {
      __atomic_fetch_add(target, 1, __ATOMIC_SEQ_CST);
      ++by_cpu;
    }
  });
  for (int i = 0; i < kCount; ++i) {
    Transfer transfer;
    uint64_t before;
    add(transfer, &before, nullptr, 0, uint64_t{1} << 32);
    if (!pump({&a, &b}, [&] { return transfer.done; })) break;
  }
  stop = true;
  owner.join();
  EXPECT_EQ(word(0) >> 32, uint64_t{kCount});
  EXPECT_EQ(word(0) & 0xFFFFFFFF, by_cpu & 0xFFFFFFFF);
}

TEST_F(Atomics, NeedNoProgressOfTheTarget) {
  Transfer transfer;
  uint64_t before = 1;
  set_word(4, 99);
  add(transfer, &before, nullptr, 4, 1);
  ASSERT_TRUE(pump({&a}, [&] { return transfer.done; })) << test::told({&a, &b});
  EXPECT_EQ(before, 99U);
  EXPECT_EQ(word(4), 100U);
}

TEST_F(Atomics, OddAddressesAndMissingResultsAreRefused) {
  Transfer transfer;
  uint64_t result;
  for (uint64_t offset : {1U, 2U, 4U, 7U}) {
    EXPECT_EQ(a.transport()
                  .fetch_add(to_b, &transfer, &result, nullptr, there.address() + offset,
                             there.registration.handle, 1)
                  .code(),
              Code::kNotSupported);
  }
  EXPECT_EQ(a.transport()
                .compare_swap(to_b, &transfer, nullptr, nullptr, there.address(),
                              there.registration.handle, 0, 1)
                .code(),
            Code::kInvalidArgument);
  EXPECT_EQ(a.transport()
                .fetch_add(nullptr, &transfer, &result, nullptr, there.address(),
                           there.registration.handle, 1)
                .code(),
            Code::kInvalidArgument);
}

TEST_F(Atomics, MemoryThatIsNotRegisteredForThemFailsThePeerWithAText) {
  Region reading(b, 64, kLocalWrite | kRemoteRead | kRemoteWrite);
  Transfer transfer;
  uint64_t before = 5;
  ASSERT_TRUE(a.transport()
                  .fetch_add(to_b, &transfer, &before, nullptr, reading.address(),
                             reading.registration.handle, 1)
                  .is_ok());
  ASSERT_TRUE(pump({&a, &b}, [&] { return transfer.done && !a.errors.empty(); }));
  EXPECT_NE(transfer.result, Code::kOk);
  EXPECT_EQ(before, 5U);
  EXPECT_EQ(reading.memory, std::vector<uint8_t>(64));
  EXPECT_NE(a.errors[0].second.find("FETCH_ADD (atomic) (8 bytes)"), std::string::npos)
      << a.errors[0].second;
}

TEST(AtomicsOfADevice, ThatHasNoneAreNotOfferedAndRegistrationGoesOn) {
  verbs::Table table = test::soft_table_copy();
  table.query_device = [](ibv_context* context, ibv_device_attr* attributes) {
    const int error = verbs::soft_table().query_device(context, attributes);
    attributes->atomic_cap = IBV_ATOMIC_NONE;
    return error;
  };
  static int asked;
  asked = 0;
  table.reg_mr = [](ibv_pd* pd, void* address, size_t length, int access) -> ibv_mr* {
    asked |= access;
    return verbs::soft_table().reg_mr(pd, address, length, access);
  };
  NodeSetup setup{.rank = 0};
  setup.hooks.soft_table = &table;
  Node a(setup), b({.rank = 1});
  EXPECT_FALSE(a.transport().limits().has_atomics);
  EXPECT_FALSE(a.transport().limits().atomics_with_cpu);
  Region any(a, 64, kAny);
  EXPECT_EQ(asked & IBV_ACCESS_REMOTE_ATOMIC, 0);
  Transfer transfer;
  uint64_t result;
  EXPECT_EQ(
      a.transport().fetch_add(a.add(b), &transfer, &result, nullptr, 0, MemoryHandle{}, 1).code(),
      Code::kNotSupported);
}

}  // namespace
}  // namespace roce::transport

// Parts of the transport that need no device: helper threads, fragment pool, device filter, events.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "transport/device_filter.h"
#include "transport/events.h"
#include "transport/fragment_pool.h"
#include "transport/header.h"
#include "transport/helpers.h"

namespace roce::transport {
namespace {

using namespace std::chrono_literals;

template <typename Done>
bool wait_until(Done done, std::chrono::milliseconds limit = 5s) {
  for (auto end = std::chrono::steady_clock::now() + limit; !done();) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(Helpers, ABlockedJobHoldsUpNoOther) {
  std::atomic<bool> release{false};
  std::atomic<int> done{0};
  Helpers helpers;
  for (int i = 0; i < 3; ++i) {
    helpers.submit([&] { wait_until([&] { return release.load(); }); });
  }
  for (int i = 0; i < 10; ++i) helpers.submit([&] { ++done; });
  EXPECT_TRUE(wait_until([&] { return done == 10; }, 2s));
  EXPECT_LE(helpers.threads(), Helpers::kMaxThreads);
  release = true;
}

TEST(Helpers, ThreadsAreStartedOnDemandOnly) {
  Helpers helpers;
  EXPECT_EQ(helpers.threads(), 0U);
  for (int i = 0; i < 5; ++i) {
    std::atomic<bool> done{false};
    helpers.submit([&] { done = true; });
    ASSERT_TRUE(wait_until([&] { return done.load(); }));
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(helpers.threads(), 1U);
}

struct FakeMemory {
  int registered = 0;
  bool refuse = false;
  Registrar registrar() {
    return {[this](void* base, size_t bytes, Registration* out) {
              if (refuse) return Status{Code::kOutOfResources, "no"};
              *out = {};
              out->base = base;
              out->bytes = bytes;
              ++registered;
              return Status::ok();
            },
            [this](Registration*) { --registered; }};
  }
};

TEST(FragmentPool, GivesWhatFitsAndReusesIt) {
  FakeMemory memory;
  {
    FragmentPool pool(65536, 40, memory.registrar());
    std::set<Fragment*> all;
    for (int i = 0; i < 1000; ++i) {
      size_t bytes = i % 2 == 0 ? 4096 : 65536;
      Fragment* fragment = pool.acquire(bytes);
      ASSERT_NE(fragment, nullptr);
      ASSERT_GE(fragment->capacity, bytes);
      ASSERT_TRUE(all.insert(fragment).second);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(fragment->data) % 64, 0U);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(fragment->adapter) % 16, 0U);
      std::memset(fragment->data - 16, i, bytes + 16);
      std::memset(fragment->adapter, i, 40);
      const Registration& slab = FragmentPool::registration(fragment);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(slab.base) % 4096, 0U);
      EXPECT_GE(fragment->data - 16, static_cast<uint8_t*>(slab.base));
      EXPECT_LE(fragment->data + bytes, static_cast<uint8_t*>(slab.base) + slab.bytes);
    }
    size_t slabs = pool.slabs();
    for (Fragment* fragment : all) pool.release(fragment);
    for (int i = 0; i < 500; ++i) EXPECT_EQ(all.count(pool.acquire(100)), 1U);
    EXPECT_EQ(pool.slabs(), slabs);
    EXPECT_EQ(pool.acquire(65537), nullptr);
  }
  EXPECT_EQ(memory.registered, 0);
}

TEST(FragmentPool, RefusedRegistrationGivesNullAndMayBeTriedAgain) {
  FakeMemory memory;
  memory.refuse = true;
  FragmentPool pool(65536, 0, memory.registrar());
  EXPECT_EQ(pool.acquire(1), nullptr);
  memory.refuse = false;
  EXPECT_NE(pool.acquire(1), nullptr);
}

verbs::Candidate candidate(const char* device, const char* netdev, uint8_t last_byte) {
  verbs::Candidate out;
  out.device = device;
  out.netdev = netdev;
  verbs::Gid gid;
  gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, last_byte};
  gid.index = 3;
  out.gids = {gid};
  return out;
}

TEST(DeviceFilter, ItemsMeanDevicePortInterfaceOrSubnet) {
  verbs::Candidate c = candidate("mlx5_0", "eth7", 9);
  for (const char* item :
       {"mlx5_0", "mlx5_0:1", "eth7", "10.1.2.0/24", "10.1.2.9/32", "0.0.0.0/0", "::/0"}) {
    EXPECT_TRUE(item_matches(item, c)) << item;
  }
  for (const char* item : {"mlx5", "mlx5_0:2", "eth", "10.1.3.0/24", "10.1.2.8/32", "10.1.2.0/33",
                           "10.1.2.0/", "10.1.2/24", "fd00::/8", "/24", ""}) {
    EXPECT_FALSE(item_matches(item, c)) << item;
  }
}

TEST(DeviceFilter, RefusalsNameParameterAndValue) {
  Params params;
  params.if_include = "eth1, eth9";
  params.if_exclude = "10.1.2.1/32";
  std::vector<verbs::Candidate> candidates = {candidate("a", "eth0", 1), candidate("b", "eth1", 2)};
  std::vector<std::string> refusals;
  filter_candidates(params, candidates, refusals);
  ASSERT_EQ(candidates.size(), 1U);
  EXPECT_EQ(candidates[0].device, "b");
  ASSERT_EQ(refusals.size(), 2U);
  EXPECT_NE(refusals[0].find("if_include: \"eth9\""), std::string::npos) << refusals[0];
  EXPECT_NE(refusals[1].find("a:1 (interface eth0) is not in parameter if_include"),
            std::string::npos)
      << refusals[1];
}

TEST(DeviceFilter, GidIndexIsThatOfTheTable) {
  Params params;
  params.gid_index = 4;
  std::vector<verbs::Candidate> candidates = {candidate("a", "eth0", 1), candidate("b", "eth1", 2)};
  candidates[1].gids[0].index = 4;
  std::vector<std::string> refusals;
  filter_candidates(params, candidates, refusals);
  ASSERT_EQ(candidates.size(), 1U);
  EXPECT_EQ(candidates[0].device, "b");
  EXPECT_NE(refusals.at(0).find("no GID of index 4 (parameter gid_index)"), std::string::npos);
}

TEST(EventQueue, KeepsOrderAndCapacity) {
  EventQueue queue;
  uint32_t pushed = 0, popped = 0;
  for (int round = 0; round < 50; ++round) {
    while (queue.has_room()) {
      EventBatch batch;
      for (uint32_t i = 0; i < EventBatch::kCapacity; ++i) {
        batch.push({.bytes = pushed + i});
      }
      queue.push(batch, round % 2);
      if (round % 2 != 0) ++popped;  // handed back directly
      pushed += EventBatch::kCapacity;
      if (round % 2 != 0) break;
    }
    Event event;
    while (queue.pop(&event)) ASSERT_EQ(event.bytes, popped++);
  }
  EXPECT_EQ(pushed, popped);
}

TEST(Header, IsSixteenLittleEndianBytes) {
  uint8_t bytes[16];
  store_header(bytes, {.kind = MessageKind::kMessage,
                       .tag = 0x22,
                       .length = 0x01020304,
                       .endpoint = 0x0A0B0C0D,
                       .consumed = 0x1112,
                       .window = 0x2122});
  const uint8_t expected[16] = {0xB1, 1,    0x22, 0,    4,    3,    2,    1,
                                0x0D, 0x0C, 0x0B, 0x0A, 0x12, 0x11, 0x22, 0x21};
  EXPECT_EQ(std::memcmp(bytes, expected, 16), 0);
}

TEST(Header, LengthMustBeThatOfTheMessage) {
  uint8_t bytes[32] = {};
  MessageHeader header;
  store_header(bytes, {.kind = MessageKind::kMessage, .length = 16});
  EXPECT_TRUE(load_header(bytes, 32, &header));
  EXPECT_FALSE(load_header(bytes, 31, &header));
  EXPECT_FALSE(load_header(bytes, 15, &header));
  bytes[0] = 0xB2;
  EXPECT_FALSE(load_header(bytes, 32, &header));
  bytes[0] = 0xB1;
  bytes[1] = 3;
  EXPECT_FALSE(load_header(bytes, 32, &header));
}

}  // namespace
}  // namespace roce::transport

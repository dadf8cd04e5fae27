// What goes on while a program does not call progress, and what is left of peers that have gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "support.h"

namespace roce::transport {
namespace {

using namespace std::chrono_literals;
using test::Node;
using test::NodeSetup;
using test::pattern;
using test::pump;

TEST(Unattended, WhatWaitsForTheWindowLeavesThoughTheSenderDoesNotCallProgress) {
  NodeSetup setup{.rank = 0};
  setup.params.window_messages = 2;
  Node a(setup), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  constexpr size_t kMessages = 40;
  a.send(to_b, pattern(8, 0));
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 1; })) << test::told({&a, &b});
  for (uint32_t i = 1; i < kMessages; ++i) a.send(to_b, pattern(2000, i));
  ASSERT_TRUE(pump({&b}, [&] { return b.received.size() == kMessages; })) << test::told({&a, &b});
  for (uint32_t i = 1; i < kMessages; ++i) EXPECT_EQ(b.received[i].data, pattern(2000, i));
  // Their completions have waited for this.
  ASSERT_TRUE(pump({&a}, [&] { return a.sends_open() == 0; }));
}

TEST(Unattended, PutsBeyondTheWindowEndThoughTheOriginDoesNotCallProgress) {
  Node a({.rank = 0}), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  constexpr size_t kBytes = 1 << 20;
  test::Region here(a, kBytes), there(b, kBytes);
  here.memory = pattern(kBytes, 1);
  test::Region source(a, kBytes);
  std::copy(here.memory.begin(), here.memory.end(), source.memory.begin());
  test::Transfer transfer;
  a.send(to_b, pattern(8, 0));
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 1; }));
  ASSERT_TRUE(a.transport()
                  .put(to_b, &transfer, source.memory.data(), &source.registration, there.address(),
                       there.registration.handle, kBytes)
                  .is_ok());
  // The completions of the last ones may wait for the origin.
  ASSERT_TRUE(pump({&b}, [&] { return a.counter(Counter::tx_put_bytes) >= kBytes / 2; }))
      << test::told({&a, &b});
  EXPECT_FALSE(transfer.done);
  ASSERT_TRUE(pump({&a}, [&] { return transfer.done; }));
  EXPECT_EQ(there.memory, here.memory);
}

TEST(Goodbye, LeavesWhatThePeerSentToBeReceived) {
  Node a({.rank = 0});
  auto b = std::make_unique<Node>(NodeSetup{.rank = 1});
  Endpoint* to_a = b->add(a);
  a.add(*b);
  b->send(to_a, pattern(1000, 0));
  ASSERT_TRUE(pump({&a, b.get()}, [&] { return a.received.size() == 1; }));
  for (uint32_t i = 1; i < 6; ++i) b->send(to_a, pattern(1000, i));
  b.reset();  // goodbye, once all is acknowledged
  std::this_thread::sleep_for(100ms);
  ASSERT_TRUE(pump({&a}, [&] { return a.received.size() == 6; })) << test::told({&a});
  for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(a.received[i].data, pattern(1000, i));
}

TEST(Goodbye, GivesTheReceiveBuffersOfThePeerToOthers) {
  NodeSetup setup{.rank = 0};
  setup.params.receive_buffers = 32;
  Node a(setup);
  for (uint32_t rank = 1; rank <= 16; ++rank) {
    Node peer({.rank = rank});
    Endpoint* to_a = peer.add(a);
    a.add(peer);
    peer.send(to_a, pattern(8, rank));
    ASSERT_TRUE(pump({&a, &peer}, [&] { return a.received.size() == rank; }));
  }
  // A share of 32 buffers among 17 peers is two. It grows within a second or so.
  uint64_t stalls = 1;
  for (uint32_t attempt = 0; attempt < 20 && stalls != 0; ++attempt) {
    std::this_thread::sleep_for(200ms);
    Node last({.rank = 17 + attempt});
    Endpoint* to_a = last.add(a);
    size_t before = a.received.size();
    last.send(to_a, pattern(8, 0));
    ASSERT_TRUE(pump({&a, &last}, [&] { return a.received.size() == before + 1; }));
    for (uint32_t i = 0; i < 8; ++i) last.send(to_a, pattern(8, i));
    stalls = last.counter(Counter::window_stalls);
    ASSERT_TRUE(pump({&a, &last}, [&] { return a.received.size() == before + 9; }));
  }
  EXPECT_EQ(stalls, 0U);
}

}  // namespace
}  // namespace roce::transport

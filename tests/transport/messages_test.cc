// Messages between two transports over the software device.
#include <gtest/gtest.h>

#include <thread>

#include "support.h"
#include "transport/header.h"

namespace roce::transport {
namespace {

using namespace std::chrono_literals;
using test::Message;
using test::Node;
using test::NodeSetup;
using test::pattern;
using test::pump;

TEST(Messages, OfAllSizesArriveIntactAndInOrder) {
  Node a({.rank = 0}), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  b.add(a);
  std::vector<size_t> sizes = {0, 1, 8, 15, 16, 17, 495, 496, 511, 512, 513, 1024, 4096, 4097};
  for (size_t size = 5000; size <= 65536; size += 7567) sizes.push_back(size);
  sizes.push_back(65535);
  sizes.push_back(65536);
  for (size_t i = 0; i < sizes.size(); ++i) {
    a.send(to_b, pattern(sizes[i], static_cast<uint32_t>(i)), static_cast<uint8_t>(i));
  }
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == sizes.size(); }))
      << test::told({&a, &b});
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(b.received[i].tag, i);
    EXPECT_EQ(b.received[i].from, (ProcessName{1, 0}));
    ASSERT_EQ(b.received[i].data, pattern(sizes[i], static_cast<uint32_t>(i))) << sizes[i];
  }
  EXPECT_TRUE(pump({&a, &b}, [&] { return a.sends_open() == 0; }));
  EXPECT_EQ(a.counter(Counter::tx_send_messages), sizes.size());
  EXPECT_EQ(b.counter(Counter::rx_send_messages), sizes.size());
  EXPECT_TRUE(a.errors.empty() && b.errors.empty());
}

TEST(Messages, SmallOnesAreTakenAtOnceWhenConnected) {
  Node a({.rank = 0}), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  EXPECT_FALSE(a.send(to_b, pattern(8, 1)));  // connects first
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 1; })) << test::told({&a, &b});
  // The device takes 512 bytes inline, 16 of which are the header.
  EXPECT_TRUE(a.send(to_b, pattern(496, 2)));
  EXPECT_FALSE(a.send(to_b, pattern(497, 3)));
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 3 && a.sends_open() == 0; }))
      << test::told({&a, &b});
  EXPECT_EQ(a.transport().limits().max_inline_bytes, 496U);
}

TEST(Messages, PingPongBothWaysManyTimes) {
  Node a({.rank = 0}), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  Endpoint* to_a = b.add(a);
  int rounds = 0;
  b.on_message = [&](Endpoint*, const Message& message) { b.send(to_a, message.data); };
  a.on_message = [&](Endpoint*, const Message& message) {
    if (++rounds < 5000) a.send(to_b, message.data);
  };
  a.send(to_b, pattern(8, 1));
  ASSERT_TRUE(pump({&a, &b}, [&] { return rounds == 5000; })) << test::told({&a, &b});
  // Credits ride on the messages.
  EXPECT_LT(a.counter(Counter::credit_messages), 10U);
}

TEST(Messages, BurstThroughAWindowOfTwo) {
  NodeSetup narrow{.rank = 1};
  narrow.params.window_messages = 2;
  Node a({.rank = 0}), b(narrow);
  Endpoint* to_b = a.add(b);
  for (uint32_t i = 0; i < 64; ++i) a.send(to_b, pattern(i % 2 == 0 ? 8 : 3000, i));
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 64 && a.sends_open() == 0; }))
      << test::told({&a, &b});
  for (uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(b.received[i].data, pattern(i % 2 == 0 ? 8 : 3000, i));
  }
  EXPECT_GT(b.counter(Counter::credit_messages), 20U);
}

TEST(Messages, AtMostTheWindowIsSentToAPeerThatTakesNothing) {
  NodeSetup narrow{.rank = 1};
  narrow.params.window_messages = 4;
  Node a({.rank = 0}), b(narrow);
  Endpoint* to_b = a.add(b);
  for (uint32_t i = 0; i < 64; ++i) a.send(to_b, pattern(8, i));
  // Only a makes progress: b is in compute.
  pump(
      {&a}, [] { return false; }, 300ms);
  EXPECT_EQ(a.counter(Counter::tx_send_messages), 4U);
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 64; })) << test::told({&a, &b});
}

TEST(Messages, ByteWindowSmallerThanAMessageLetsOneThrough) {
  NodeSetup narrow{.rank = 1};
  narrow.params.window_bytes = 4096;
  Node a({.rank = 0}), b(narrow);
  Endpoint* to_b = a.add(b);
  for (uint32_t i = 0; i < 20; ++i) a.send(to_b, pattern(65536, i));
  pump(
      {&a}, [] { return false; }, 200ms);
  EXPECT_EQ(a.counter(Counter::tx_send_messages), 1U);
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 20; })) << test::told({&a, &b});
}

TEST(Messages, ManyThroughAShortSendQueue) {
  NodeSetup shallow{.rank = 0};
  shallow.params.send_queue_depth = 16;
  Node a(shallow), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  for (uint32_t i = 0; i < 3000; ++i) a.send(to_b, pattern(i % 700, i));
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 3000; })) << test::told({&a, &b});
  for (uint32_t i = 0; i < 3000; ++i) ASSERT_EQ(b.received[i].data, pattern(i % 700, i)) << i;
}

TEST(Messages, CallbacksMayCallProgressAndSend) {
  Node a({.rank = 0}), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  Endpoint* to_a = b.add(a);
  int depth = 0, deepest = 0, count = 0;
  b.on_message = [&](Endpoint*, const Message& message) {
    EXPECT_EQ(message.data, pattern(8, static_cast<uint32_t>(count)));
    ++count;
    deepest = std::max(deepest, ++depth);
    if (depth < 10) b.transport().progress();
    b.send(to_a, message.data);
    --depth;
  };
  for (uint32_t i = 0; i < 200; ++i) a.send(to_b, pattern(8, i));
  ASSERT_TRUE(pump({&a, &b}, [&] { return a.received.size() == 200; })) << test::told({&a, &b});
  EXPECT_GT(deepest, 1);
}

TEST(Messages, MorePeersThanReceiveBuffersMayTake) {
  NodeSetup small{.rank = 100};
  small.params.receive_buffers = 32;
  Node sink(small);
  std::vector<std::unique_ptr<Node>> sources;
  std::vector<Node*> all = {&sink};
  for (uint32_t i = 0; i < 6; ++i) {
    sources.push_back(std::make_unique<Node>(NodeSetup{.rank = i}));
    all.push_back(sources.back().get());
    Endpoint* to_sink = sources[i]->add(sink);
    for (uint32_t n = 0; n < 100; ++n) sources[i]->send(to_sink, pattern(100, n));
  }
  ASSERT_TRUE(pump(all, [&] { return sink.received.size() == 600; }));
  std::map<uint32_t, uint32_t> next;
  for (const Message& message : sink.received) {
    ASSERT_EQ(message.data, pattern(100, next[message.from.rank]++));
  }
  EXPECT_TRUE(sink.errors.empty());
}

TEST(Messages, TwoThreadsPerSideLoseAndSwapNothing) {
  Node a({.rank = 0}), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  constexpr int kEach = 2000;
  std::atomic<int> taken{0};
  std::atomic<bool> stop{false};
  b.on_message = [&](Endpoint*, const Message&) { ++taken; };
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        Fragment* fragment = a.transport().acquire(1000);
        fragment->length = i % 2 == 0 ? 8 : 1000;
        fragment->context = &a;
        fragment->complete = [](Fragment* done, Code) {
          static_cast<Node*>(done->context)->transport().release(done);
        };
        if (a.transport().send(to_b, fragment)) a.transport().release(fragment);
        a.transport().progress();
      }
      while (!stop) {
        if (a.transport().progress() == 0) std::this_thread::yield();
      }
    });
    threads.emplace_back([&] {
      while (!stop) {
        if (b.transport().progress() == 0) std::this_thread::yield();
      }
    });
  }
  auto end = std::chrono::steady_clock::now() + 30s;
  while (taken < 2 * kEach && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(5ms);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 2 * kEach);
}

}  // namespace
}  // namespace roce::transport

#include "flow/get_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace roce::flow {
namespace {

/// Larger than any chunk of the tests that have no clock: nothing is measured there.
constexpr uint32_t kChunk = 1 << 30;
constexpr uint64_t kMuch = uint64_t{1} << 40;

TEST(GetScheduler, OneChunkIsAlwaysAllowedAndWaitersComeInOrder) {
  GetScheduler scheduler;
  Getter a(nullptr), b(nullptr);
  scheduler.start(kChunk, 100, 0);
  EXPECT_TRUE(scheduler.take(a, 500, 0));
  EXPECT_FALSE(scheduler.take(b, 1, 0));
  EXPECT_FALSE(scheduler.take(a, 1, 0));
  EXPECT_EQ(scheduler.next(), nullptr);
  scheduler.abandon(a, 500);
  EXPECT_EQ(scheduler.next(), &b);
  scheduler.end_turn();
  EXPECT_EQ(scheduler.next(), &a);
  scheduler.end_turn();
  EXPECT_EQ(scheduler.next(), nullptr);
}

TEST(GetScheduler, WhoComesLaterDoesNotTakeTheRoomOfWhoWaits) {
  GetScheduler scheduler;
  Getter a(nullptr), b(nullptr), c(nullptr);
  scheduler.start(kChunk, 100, 0);
  EXPECT_TRUE(scheduler.take(a, 60, 0));
  EXPECT_FALSE(scheduler.take(b, 60, 0));
  EXPECT_FALSE(scheduler.take(c, 10, 0)) << "there is room for it, but b waits";
  scheduler.abandon(a, 60);
  EXPECT_FALSE(scheduler.take(a, 60, 0)) << "the peer whose chunk has just come";
  ASSERT_EQ(scheduler.next(), &b);
  Getter d(nullptr);
  EXPECT_FALSE(scheduler.take(d, 1, 0)) << "the room is kept during a turn";
  EXPECT_TRUE(scheduler.take(b, 60, 0));
  EXPECT_FALSE(scheduler.take(b, 60, 0)) << "a turn is one chunk";
  scheduler.end_turn();
  EXPECT_EQ(scheduler.next(), &c);
}

TEST(GetScheduler, ATurnWhoseChunkNoLongerFitsKeepsItsPlace) {
  GetScheduler scheduler;
  Getter a(nullptr), b(nullptr), c(nullptr);
  scheduler.start(kChunk, 100, 0);
  EXPECT_TRUE(scheduler.take(a, 80, 0));
  EXPECT_FALSE(scheduler.take(b, 30, 0));
  EXPECT_FALSE(scheduler.take(c, 20, 0));
  scheduler.abandon(a, 40);
  ASSERT_EQ(scheduler.next(), &b);
  EXPECT_FALSE(scheduler.take(b, 70, 0)) << "it had another operation in front by now";
  scheduler.end_turn();
  EXPECT_EQ(scheduler.next(), nullptr);
  scheduler.abandon(a, 40);
  EXPECT_EQ(scheduler.next(), &b);
}

TEST(GetScheduler, PeersWithBytesInFlightAreBounded) {
  GetScheduler scheduler;
  Getter a(nullptr), b(nullptr), c(nullptr);
  scheduler.start(kChunk, kMuch, 2);
  EXPECT_TRUE(scheduler.take(a, 1000, 0));
  EXPECT_TRUE(scheduler.take(b, 1000, 0));
  EXPECT_TRUE(scheduler.take(a, 1000, 0)) << "no new peer";
  EXPECT_FALSE(scheduler.take(c, 1, 0));
  scheduler.abandon(a, 1000);
  EXPECT_EQ(scheduler.next(), nullptr);
  scheduler.abandon(a, 1000);
  EXPECT_EQ(scheduler.next(), &c);
}

/// Peers that fetch, one bottleneck that delivers chunks in the order in which they were asked for.
struct Incast {
  Incast(uint64_t bound, uint32_t senders, const std::vector<uint64_t>& bytes, uint32_t chunk_bytes)
      : left(bytes), fetched(bytes.size(), 0), chunk(chunk_bytes) {
    scheduler.start(kChunk, bound == 0 ? kMuch : bound, senders);
    for (size_t i = 0; i < bytes.size(); ++i) getters.emplace_back(nullptr);
  }

  void ask(size_t peer) {
    while (left[peer] != 0) {
      const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(chunk, left[peer]));
      if (!scheduler.take(getters[peer], bytes, 0)) return;
      left[peer] -= bytes;
      network.push_back({peer, bytes});
      in_flight += bytes;
      most_in_flight = std::max(most_in_flight, in_flight);
      std::vector<bool> has(left.size(), false);
      for (const auto& [who, size] : network) has[who] = true;
      most_peers = std::max<size_t>(most_peers, std::count(has.begin(), has.end(), true));
    }
  }
  /// One chunk arrives. As in the transport: its peer asks first, then those that wait.
  void arrive() {
    const auto [peer, bytes] = network.front();
    network.pop_front();
    in_flight -= bytes;
    fetched[peer] += bytes;
    scheduler.abandon(getters[peer], bytes);
    ask(peer);
    while (Getter* waiter = scheduler.next()) {
      for (size_t i = 0; i < getters.size(); ++i) {
        if (&getters[i] == waiter) ask(i);
      }
      scheduler.end_turn();
    }
  }

  GetScheduler scheduler;
  std::deque<Getter> getters;
  std::vector<uint64_t> left, fetched;
  const uint32_t chunk;
  std::deque<std::pair<size_t, uint32_t>> network;
  uint64_t in_flight = 0, most_in_flight = 0;
  size_t most_peers = 0;
};

TEST(GetScheduler, SevenPeersGetTheSameShareAtAnyTime) {
  // The first asks long before the others and for four times as much.
  Incast incast(100000, 0, {32u << 20, 8u << 20, 8u << 20, 8u << 20, 8u << 20, 8u << 20, 8u << 20},
                49152);
  incast.ask(0);
  for (int i = 0; i < 20; ++i) incast.arrive();
  const uint64_t ahead = incast.fetched[0];
  for (size_t peer = 1; peer < 7; ++peer) incast.ask(peer);
  for (int i = 0; i < 700; ++i) {
    incast.arrive();
    uint64_t least = incast.fetched[0] - ahead, most = least;
    for (size_t peer = 1; peer < 7; ++peer) {
      least = std::min(least, incast.fetched[peer]);
      most = std::max(most, incast.fetched[peer]);
    }
    // What was in flight when they came, and one turn.
    ASSERT_LE(most - least, 100000u + 49152u) << "after " << i << " chunks";
  }
  EXPECT_LE(incast.most_in_flight, 100000u);
}

TEST(GetScheduler, AnyLoadEndsWithinTheBounds) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const uint32_t chunk = 1 + random() % 65536, senders = random() % 5;
    const uint64_t bound = random() % 4 == 0 ? 0 : 1 + random() % 200000;
    if (bound == 0 && senders == 0) continue;
    std::vector<uint64_t> bytes(1 + random() % 12);
    uint64_t all = 0;
    for (uint64_t& n : bytes) all += n = random() % (20u * chunk);
    Incast incast(bound, senders, bytes, chunk);
    for (size_t peer = 0; peer < bytes.size(); ++peer) {
      incast.ask(peer);
      for (int i = 0; i < 3 && !incast.network.empty(); ++i) incast.arrive();
    }
    while (!incast.network.empty()) incast.arrive();
    uint64_t fetched = 0;
    for (uint64_t n : incast.fetched) fetched += n;
    ASSERT_EQ(fetched, all) << "somebody waits for ever";
    ASSERT_LE(incast.most_in_flight, bound == 0 ? all : std::max<uint64_t>(bound, chunk));
    ASSERT_LE(incast.most_peers, senders == 0 ? bytes.size() : senders);
  }
}

}  // namespace
}  // namespace roce::flow

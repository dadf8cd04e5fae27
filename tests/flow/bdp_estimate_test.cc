// The bound on a simulated path: a bottleneck of a known rate behind a known delay, so that the
// product is known too.
#include "flow/bdp_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "flow/get_scheduler.h"

namespace roce::flow {
namespace {

constexpr uint32_t kChunk = 65536;
constexpr TimeNs kMs = 1'000'000;
constexpr uint64_t kMost = uint64_t{64} << 20;

/// Peers that always have more to fetch, 16 requests each at most, over one bottleneck. A chunk
/// comes when its request has crossed the delay and the bottleneck has sent all before it and it.
struct Path {
  Path(size_t peers, double bytes_per_ns_in, TimeNs delay_in)
      : bytes_per_ns(bytes_per_ns_in), delay(delay_in), outstanding(peers, 0) {
    scheduler.start(kChunk, kMost, 0);
    for (size_t i = 0; i < peers; ++i) getters.emplace_back(nullptr);
  }

  void ask(size_t peer) {
    while (outstanding[peer] < 16 && scheduler.take(getters[peer], kChunk, now)) {
      ++outstanding[peer];
      busy_until = std::max(busy_until, now + delay) +
                   static_cast<TimeNs>(kChunk * (1 + messages_per_chunk) / bytes_per_ns);
      coming.push_back({busy_until, peer});
      in_flight += kChunk;
    }
  }
  void run(TimeNs duration) {
    const TimeNs end = now + duration;
    for (size_t peer = 0; peer < getters.size(); ++peer) ask(peer);
    while (now < end && !coming.empty()) {
      const auto [time, peer] = coming.front();
      coming.pop_front();
      now = std::max(now, time % cycle < awake ? time : (time / cycle + 1) * cycle);
      delivered += kChunk;
      in_flight -= kChunk;
      --outstanding[peer];
      messages += kChunk * messages_per_chunk;
      scheduler.come(getters[peer], kChunk, messages, now);
      ask(peer);
      while (Getter* waiter = scheduler.next()) {
        for (size_t i = 0; i < getters.size(); ++i) {
          if (&getters[i] == waiter) ask(i);
        }
        scheduler.end_turn();
      }
    }
  }
  /// What has to be in flight to keep the path busy: for a chunk's time alone, from request to end.
  double product() const { return bytes_per_ns * static_cast<double>(delay) + kChunk; }

  double bytes_per_ns;
  TimeNs delay;
  uint64_t messages_per_chunk = 0;  ///< Chunks' worth of messages between two chunks.
  GetScheduler scheduler;
  std::deque<Getter> getters;
  std::vector<int> outstanding;
  std::deque<std::pair<TimeNs, size_t>> coming;
  TimeNs cycle = kMs, awake = kMs;  ///< The fetcher looks only in the first part of each cycle.
  uint64_t delivered = 0;
  TimeNs now = 1'000'000'000, busy_until = 0;
  uint64_t in_flight = 0, messages = 0;
};

TEST(BdpEstimate, FindsTwiceTheProductOfPathsOfAllKinds) {
  struct {
    double gbit;
    TimeNs delay;
  } paths[] = {{10, kMs}, {1, 10 * kMs}, {100, 50'000}, {40, 300'000}};
  for (const auto& kind : paths) {
    Path path(24, kind.gbit / 8, kind.delay);
    path.run(100 * kind.delay);
    const auto bound = static_cast<double>(path.scheduler.bound_bytes());
    EXPECT_GT(bound, 1.9 * path.product()) << kind.gbit << " Gb/s, " << kind.delay << " ns";
    EXPECT_LT(bound, 2.1 * path.product()) << kind.gbit << " Gb/s, " << kind.delay << " ns";
    EXPECT_LE(path.in_flight, path.scheduler.bound_bytes());
  }
}

TEST(BdpEstimate, FollowsTheRateDownAndUp) {
  Path path(24, 1.25, kMs);
  path.run(100 * kMs);
  path.bytes_per_ns = 0.3;
  path.run(500 * kMs);
  // The shortest time is from before: 1 ms and a chunk at the old rate.
  const double shortest = kMs + kChunk / 1.25;
  EXPECT_NEAR(static_cast<double>(path.scheduler.bound_bytes()), 2 * 0.3 * shortest,
              0.1 * 2 * 0.3 * shortest);
  path.bytes_per_ns = 1.25;
  path.run(500 * kMs);
  EXPECT_GT(static_cast<double>(path.scheduler.bound_bytes()), 1.9 * path.product());
}

TEST(BdpEstimate, MeasuresTheDelayAgain) {
  Path path(24, 1.25, kMs);
  path.run(100 * kMs);
  path.delay = 3 * kMs;
  path.run(6000 * kMs);
  EXPECT_GT(static_cast<double>(path.scheduler.bound_bytes()), 1.8 * path.product());
  EXPECT_LT(static_cast<double>(path.scheduler.bound_bytes()), 2.2 * path.product());
  path.delay = kMs;
  path.run(6000 * kMs);
  EXPECT_GT(static_cast<double>(path.scheduler.bound_bytes()), 1.8 * path.product());
  EXPECT_LT(static_cast<double>(path.scheduler.bound_bytes()), 2.2 * path.product());
}

TEST(BdpEstimate, AFetcherThatIsAwayForAWhileKeepsThePathBusy) {
  // 20 Gb/s: 750 KB come while it is away, the product is 116 KB.
  Path path(24, 2.5, 20'000);
  path.cycle = 400'000;
  path.awake = 100'000;
  path.run(100 * kMs);
  const uint64_t before = path.delivered;
  path.run(100 * kMs);
  EXPECT_GT(static_cast<double>(path.delivered - before), 0.85 * 2.5 * 100 * kMs);
  // And when that is over, the bound shrinks again.
  path.awake = path.cycle;
  path.run(100 * kMs);
  EXPECT_LE(path.scheduler.bound_bytes(), 5u * kChunk);
}

TEST(BdpEstimate, AnIdleFetcherKeepsWhatItKnows) {
  Path path(24, 1.25, kMs);
  path.run(100 * kMs);
  const uint64_t before = path.scheduler.bound_bytes();
  while (!path.coming.empty()) {
    path.now = path.coming.front().first;
    path.scheduler.come(path.getters[path.coming.front().second], kChunk, 0, path.now);
    path.coming.pop_front();
  }
  for (int i = 0; i < 100; ++i) {
    path.now += 10 * kMs;
    while (path.scheduler.next() != nullptr) path.scheduler.end_turn();
    ASSERT_TRUE(path.scheduler.take(path.getters[0], kChunk, path.now));
    path.now += kMs + kChunk;
    path.scheduler.come(path.getters[0], kChunk, 0, path.now);
  }
  EXPECT_EQ(path.scheduler.bound_bytes(), before);
}

TEST(BdpEstimate, AProbeWithoutFullChunksEnds) {
  BdpEstimate estimate;
  estimate.start(kChunk, kMost);
  TimeNs now = kMs;
  estimate.begin(now);
  for (int i = 0; i < 100; ++i) {
    now += kMs;
    estimate.took(now - kMs, now);
    estimate.delivered(20 * kChunk, 0, true, now);
  }
  const uint64_t before = estimate.bound_bytes();
  EXPECT_EQ(before, 40u * kChunk);
  now += 3000 * kMs;
  estimate.took(now - 2 * kMs, now);
  EXPECT_EQ(estimate.bound_bytes(), kChunk);
  for (int i = 0; i < 200; ++i) {
    now += kMs;
    estimate.delivered(kChunk / 2, 0, false, now);
  }
  EXPECT_EQ(estimate.bound_bytes(), before);
}

TEST(BdpEstimate, MessagesTakeTheirShareOfTheBound) {
  Path path(24, 1.25, kMs);
  path.messages_per_chunk = 1;
  path.run(200 * kMs);
  // Messages bring half of the bytes, so half of twice the product is left to the chunks.
  const double whole = 2 * 1.25 * (kMs + 2 * kChunk / 1.25);
  EXPECT_NEAR(static_cast<double>(path.scheduler.bound_bytes()), whole / 2, 0.1 * whole);
}

TEST(BdpEstimate, StaysBetweenFourChunksAndTheMost) {
  Path slow(24, 0.001, 10'000);
  slow.run(20'000 * kMs);
  EXPECT_EQ(slow.scheduler.bound_bytes(), 4u * kChunk);
  Path fast(2000, 50, 2 * kMs);
  fast.run(200 * kMs);
  EXPECT_EQ(fast.scheduler.bound_bytes(), kMost);
}

}  // namespace
}  // namespace roce::flow

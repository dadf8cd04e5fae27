// Both drivers over a bad network: exactly once, in order, every byte.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "traffic.h"

namespace roce::engine::test {
namespace {

struct Case {
  const char* name;
  Impairments impairments;
  TrafficOptions options;
};

TrafficOptions options(uint32_t operations, uint32_t mtu = 1024, uint32_t large_every = 0,
                       TimeNs repost_delay_ns = 0) {
  TrafficOptions out;
  out.operations = operations;
  out.mtu = mtu;
  out.large_every = large_every;
  out.repost_delay_ns = repost_delay_ns;
  return out;
}

TrafficOptions lazy(TrafficOptions out) {
  out.lazy_ack = true;
  return out;
}

TrafficOptions selective(TrafficOptions out, double keep_share = 1) {
  out.selective = out.lazy_ack = true;
  out.keep_share = keep_share;
  return out;
}

TrafficOptions agreed_later(TrafficOptions out) {
  out.agree_after_ns = 5'000'000;
  return out;
}

class BadNetwork : public testing::TestWithParam<Case> {
 protected:
  void run(Host& a, Host& b, uint64_t seed) {
    const Case& c = GetParam();
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    Network network(a, b, c.impairments, seed);
    Traffic traffic(network, a, b, c.options, seed);
    traffic.start();
    EXPECT_TRUE(network.run([&] { return traffic.finished(); }, 30'000'000)) << "stalled";
    EXPECT_EQ(traffic.failure(), "");
    EXPECT_TRUE(a.arena.guards_intact());
    EXPECT_TRUE(b.arena.guards_intact());
    EXPECT_EQ(a.gather_faults + b.gather_faults, 0u);
    EXPECT_EQ(a.atomics_executed, traffic.atomics_posted(1));
    EXPECT_EQ(b.atomics_executed, traffic.atomics_posted(0));
    if (c.impairments.corrupt > 0) {
      EXPECT_GT(a.damaged_frames + b.damaged_frames, 0u);
    } else {
      EXPECT_EQ(a.damaged_frames + b.damaged_frames, 0u);
    }
    if (c.options.agree_after_ns != 0) {
      EXPECT_GT(network.now, 4 * c.options.agree_after_ns);
      EXPECT_GT(a.counters.kept_packets, 0u);
      EXPECT_GT(b.counters.kept_packets, 0u);
    }
    for (const Host* host : {&a, &b}) {
      EXPECT_EQ(host->counters.retry_exceeded, 0u);
      EXPECT_EQ(host->counters.drops[static_cast<int>(Drop::kRefused)], 0u);
      // All start just below 2^24 and need more PSNs than are left.
      EXPECT_LT(host->qp.next_psn(), c.options.start_psn);
    }
    std::printf(
        "%.1f ms simulated, %llu packets, %llu resent, %llu NAK, %llu implied, %llu adaptive, %llu "
        "timeouts, %llu RNR, %llu kept, %llu repairs\n",
        network.now / 1e6, static_cast<unsigned long long>(a.counters.tx_packets),
        static_cast<unsigned long long>(a.counters.resent_packets),
        static_cast<unsigned long long>(a.counters.packet_seq_err),
        static_cast<unsigned long long>(a.counters.implied_nak_seq_err),
        static_cast<unsigned long long>(a.counters.adaptive_resends),
        static_cast<unsigned long long>(a.counters.local_ack_timeout_err),
        static_cast<unsigned long long>(a.counters.rnr_naks_received),
        static_cast<unsigned long long>(a.counters.kept_packets),
        static_cast<unsigned long long>(a.counters.repairs));
  }
};

TEST_P(BadNetwork, DeliversPayloadExactlyOnceInOrder) {
  PayloadHost a(Traffic::config(1), Traffic::kReceives, 2, 1);
  PayloadHost b(Traffic::config(2), Traffic::kReceives, 2, 2);
  run(a, b, 20240501);
}

TEST_P(BadNetwork, DeliversLengthsExactlyOnceInOrder) {
  LengthsHost a(Traffic::config(1), Traffic::kReceives, 2);
  LengthsHost b(Traffic::config(2), Traffic::kReceives, 2);
  run(a, b, 20240502);
}

const Case kCases[] = {
    {"Clean", {}, options(10'000)},
    {"Loss1", {.loss = 0.01}, options(10'000)},
    {"Loss5", {.loss = 0.05}, options(10'000)},
    {"Duplicate5", {.duplicate = 0.05}, options(10'000)},
    {"Reorder5", {.reorder = 0.05}, options(10'000)},
    {"Corrupt5", {.corrupt = 0.05}, options(10'000)},
    {"Mixed1", {0.01, 0.01, 0.01, 0.01}, options(10'000)},
    {"Mixed5", {0.05, 0.05, 0.05, 0.05}, options(10'000)},
    {"Mixed1Large", {0.01, 0.01, 0.01, 0.01}, options(10'000, 1024, 400)},
    {"Mixed1SlowReceiver", {0.01, 0.01, 0.01, 0.01}, options(10'000, 256, 0, 300'000)},
    {"CleanLazyAck", {}, lazy(options(10'000))},
    {"Mixed5LazyAck", {0.05, 0.05, 0.05, 0.05}, lazy(options(10'000))},
    {"Mixed1SlowReceiverLazyAck", {0.01, 0.01, 0.01, 0.01}, lazy(options(10'000, 256, 0, 300'000))},
    {"CleanSelective", {}, selective(options(10'000))},
    {"Loss1Selective", {.loss = 0.01}, selective(options(10'000))},
    {"Loss5Selective", {.loss = 0.05}, selective(options(10'000))},
    {"Reorder5Selective", {.reorder = 0.05}, selective(options(10'000))},
    {"Mixed5Selective", {0.05, 0.05, 0.05, 0.05}, selective(options(10'000))},
    {"Mixed5SelectiveLittleRoom", {0.05, 0.05, 0.05, 0.05}, selective(options(10'000), 0.3)},
    {"Mixed1LargeSelective", {0.01, 0.01, 0.01, 0.01}, selective(options(10'000, 1024, 400))},
    {"Mixed5SmallMtuSelective", {0.05, 0.05, 0.05, 0.05}, selective(options(10'000, 256, 1000))},
    {"Mixed1SlowReceiverSelective",
     {0.01, 0.01, 0.01, 0.01},
     selective(options(10'000, 256, 0, 300'000))},
    {"Mixed5AgreedLater", {0.05, 0.05, 0.05, 0.05}, agreed_later(options(10'000))},
    {"Mixed1LargeAgreedLater", {0.01, 0.01, 0.01, 0.01}, agreed_later(options(10'000, 1024, 400))},
    {"Mixed1JumboMtu", {0.01, 0.01, 0.01, 0.01}, options(10'000, 8900, 1000)},
};

INSTANTIATE_TEST_SUITE_P(Rates, BadNetwork, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace roce::engine::test

// Small messages in bulk leave together, and never wait for a program that does not poll.
#include "soft/post_batching.h"

#include <atomic>
#include <chrono>

#include "two_processes.h"

namespace roce::soft::test {
namespace {

constexpr engine::TimeNs kUs = 1'000;

/// A program that posts two messages and polls 1 us later, until it is trusted.
struct Learned {
  PostBatching batching;
  engine::TimeNs now = 1'000'000'000;

  void run(engine::TimeNs until_poll) {
    batching.posted(now);
    batching.posted(now);
    now += until_poll;
    batching.polled(now);
  }
  int waiting_of(int posts) {
    int waiting = 0;
    for (int i = 0; i < posts; ++i) waiting += batching.may_wait(100) ? 1 : 0;
    return waiting;
  }
  Learned() {
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(waiting_of(1), 0) << i;
      run(kUs);
    }
  }
};

TEST(PostBatching, AfterSixteenGoodRunsFifteenOfSixteenPostsWait) {
  Learned program;
  EXPECT_EQ(program.waiting_of(32), 30);
}

TEST(PostBatching, TheFirstMessagesOfARunNeverWait) {
  Learned program;
  EXPECT_FALSE(program.batching.may_wait(3));
  EXPECT_TRUE(program.batching.may_wait(4));
}

TEST(PostBatching, LonePostsTeachNothing) {
  PostBatching batching;
  for (engine::TimeNs now = 0; now < 100'000 * kUs; now += 1000 * kUs) {
    batching.posted(now);
    batching.polled(now + kUs);
  }
  EXPECT_FALSE(batching.may_wait(100));
}

TEST(PostBatching, ALatePollClosesTheGateForTwiceAsLong) {
  Learned program;
  EXPECT_TRUE(program.batching.may_wait(100));
  program.now += 200 * kUs;
  program.batching.polled(program.now);
  for (int i = 0; i < 31; ++i) program.run(kUs);
  EXPECT_EQ(program.waiting_of(1), 0);
  program.run(kUs);
  EXPECT_EQ(program.waiting_of(1), 1);
}

TEST(PostBatching, SoDoesTheServiceThreadThatFindsMessagesWaiting) {
  Learned program;
  program.batching.not_polled();
  EXPECT_EQ(program.waiting_of(1), 1) << "nothing was waiting";
  program.batching.not_polled();
  EXPECT_EQ(program.waiting_of(1), 0);
}

TEST(PostBatching, ARunThatNoPollFollowsBeginsTheLessonAnew) {
  PostBatching batching;
  engine::TimeNs now = 1'000'000'000;
  for (int i = 0; i < 100; ++i) {
    batching.posted(now);
    batching.posted(now);
    // Every sixteenth run is followed by a long computation.
    batching.polled(now += i % 16 == 15 ? 200 * kUs : kUs);
    EXPECT_FALSE(batching.may_wait(100)) << i;
  }
}

constexpr uint32_t kUnderWay = 48;

struct Target {
  uintptr_t address;
  uint32_t rkey;
};

/// Keeps WRITEs of 8 bytes under way and polls, as benchmarks and MPI_Waitall do.
void stream(Rig& rig, const Target& target, uint32_t messages) {
  const auto start = std::chrono::steady_clock::now();
  uint32_t posted = 0, completed = 0;
  while (completed < messages) {
    for (; posted < messages && posted - completed < kUnderWay; ++posted) {
      CHILD_CHECK(rig.send(posted, IBV_WR_RDMA_WRITE, 0, 8, 0, target.address, target.rkey) == 0);
    }
    ibv_wc done[16];
    const int got = ibv_poll_cq(rig.cq, 16, done);
    CHILD_CHECK(got >= 0);
    for (int i = 0; i < got; ++i) CHILD_CHECK(done[i].status == IBV_WC_SUCCESS);
    completed += static_cast<uint32_t>(got);
    CHILD_CHECK(seconds_since(start) < 20);
  }
}

/// Connects, and runs `client` against a process that polls until the client has said a word, then
/// waits, without a call, until 8 bytes of its memory are not 0, and says so.
void run_against_target(const std::function<void(Rig&, const Target&, const Channel&)>& client) {
  run_two(
      [&](const Channel& channel) {
        Rig rig;
        rig.make_memory(4096);
        connect_over(rig, channel);
        client(rig, channel.get<Target>(), channel);
      },
      [](const Channel& channel) {
        Rig rig;
        rig.make_memory(4096);
        connect_over(rig, channel);
        channel.put(Target{reinterpret_cast<uintptr_t>(rig.data), rig.mr->rkey});
        pollfd word = {channel.in, POLLIN, 0};
        while (poll(&word, 1, 0) == 0) {
          for (int i = 0; i < 100; ++i) progress();
        }
        channel.get<char>();
        const auto* flag = reinterpret_cast<const std::atomic<uint64_t>*>(rig.data + 2048);
        const auto start = std::chrono::steady_clock::now();
        while (flag->load() == 0) CHILD_CHECK(seconds_since(start) < 5);
        channel.put(char{1});
        channel.get<char>();
      });
}

void end(Rig& rig, const Target& target, const Channel& channel) {
  std::memset(rig.data, 1, 8);
  channel.put(char{1});
  CHILD_CHECK(rig.send(0, IBV_WR_RDMA_WRITE, 0, 8, 0, target.address + 2048, target.rkey) == 0);
  channel.get<char>();
  channel.put(char{1});
}

TEST(SoftPostBatching, ManySmallMessagesShareASystemCall) {
  run_against_target([](Rig& rig, const Target& target, const Channel& channel) {
    // On a busy machine the program is often off its core: that looks as if it did not poll.
    bool shared = false;
    const auto start = std::chrono::steady_clock::now();
    while (!shared && seconds_since(start) < 20) {
      const uint64_t calls = counter("udp_tx_calls"), datagrams = counter("udp_tx_datagrams");
      stream(rig, target, 2'000);
      shared = (counter("udp_tx_calls") - calls) * 2 < counter("udp_tx_datagrams") - datagrams;
    }
    CHILD_CHECK(shared);
    end(rig, target, channel);
  });
}

// The program has polled, so that its next messages may wait for a poll; and then it does not.
TEST(SoftPostBatching, WhatIsPostedLeavesAlsoIfNobodyPolls) {
  run_against_target([](Rig& rig, const Target& target, const Channel& channel) {
    for (int round = 0; round < 20; ++round) {
      stream(rig, target, 5'000);
      usleep(1000 * round);
    }
    for (uint32_t i = 0; i < 13; ++i) {
      CHILD_CHECK(rig.send(i, IBV_WR_RDMA_WRITE, 0, 8, 0, target.address, target.rkey) == 0);
    }
    end(rig, target, channel);
  });
}

}  // namespace
}  // namespace roce::soft::test

// Threads that block in get_cq_event: the only one watches the socket itself, several leave it to
// the service thread, and threads that poll or are cancelled do not get in their way.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>

#include "rig.h"

namespace roce::soft::test {
namespace {

constexpr int kReceives = 16;

/// Two queue pairs; the completions of b raise events.
struct Line {
  explicit Line(ibv_context* context)
      : channel(create_comp_channel(context)),
        a(std::make_unique<Rig>(QpOptions{}, nullptr, context)),
        b(std::make_unique<Rig>(QpOptions{}, channel, context)) {
    a->make_memory(4096);
    b->make_memory(4096);
    a->connect(b->name());
    b->connect(a->name());
    for (int i = 0; i < kReceives; ++i) EXPECT_EQ(b->receive(0, 0, 8), 0);
  }
  ~Line() {
    a.reset();
    b.reset();
    EXPECT_EQ(destroy_comp_channel(channel), 0);
  }

  /// Receives until `rounds` messages are there, asleep in between.
  void sleep_for(uint64_t rounds) {
    while (received.load() < rounds) {
      ASSERT_EQ(ibv_req_notify_cq(b->cq, 0), 0);
      if (take()) continue;
      ibv_cq* cq = nullptr;
      void* cq_context = nullptr;
      ASSERT_EQ(get_cq_event(channel, &cq, &cq_context), 0);
      ack_cq_events(cq, 1);
      take();
    }
  }
  bool take() {
    ibv_wc wc;
    bool any = false;
    while (ibv_poll_cq(b->cq, 1, &wc) == 1) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(b->receive(0, 0, 8), 0);
      received.fetch_add(1);
      any = true;
    }
    return any;
  }
  /// Sends one message and sleeps until it is received. False after 20 s.
  bool send_one() {
    const uint64_t before = received.load();
    const auto start = std::chrono::steady_clock::now();
    if (a->send(0, IBV_WR_SEND, 0, 8) != 0) return false;
    while (received.load() == before) {
      if (seconds_since(start) > 20) return false;
      usleep(20);
    }
    return a->wait().status == IBV_WC_SUCCESS;
  }

  ibv_comp_channel* channel;
  std::unique_ptr<Rig> a, b;
  std::atomic<uint64_t> received{0};
};

struct Device {
  ibv_context* context = open_loopback();
  ~Device() { EXPECT_EQ(close_device(context), 0); }
};

TEST(EventWait, TheOnlyWaiterWatchesTheSocketItself) {
  const uint64_t rounds = 2000;
  Device device;
  Line line(device.context);
  std::thread sleeper([&] { line.sleep_for(rounds); });
  const uint64_t before = counter("service_wakes");
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < rounds; ++i) ASSERT_TRUE(line.send_one()) << "message " << i;
  sleeper.join();
  // A wake for each millisecond's tick, however long a busy machine takes; beside them one or two
  // for each message if the service thread had to receive it.
  const auto ticks = static_cast<uint64_t>(seconds_since(start) * 1000);
  EXPECT_LT(counter("service_wakes") - before, ticks + rounds / 2) << ticks << " ticks";
}

TEST(EventWait, SeveralWaitersAreAllServed) {
  const uint64_t rounds = 3000;
  Device device;
  Line first(device.context), second(device.context);
  std::thread one([&] { first.sleep_for(rounds); });
  std::thread two([&] { second.sleep_for(rounds); });
  for (uint64_t i = 0; i < rounds; ++i) {
    ASSERT_TRUE(first.send_one()) << "message " << i;
    ASSERT_TRUE(second.send_one()) << "message " << i;
  }
  one.join();
  two.join();
}

TEST(EventWait, APollerThatComesAndGoesTakesNothingAway) {
  const uint64_t rounds = 3000;
  Device device, other;
  Line line(device.context);
  Rig polled({}, nullptr, other.context);
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    ibv_wc wc;
    while (!stop.load()) {
      const auto start = std::chrono::steady_clock::now();
      while (seconds_since(start) < 0.002) ibv_poll_cq(polled.cq, 1, &wc);
      usleep(3000);
    }
  });
  std::thread sleeper([&] { line.sleep_for(rounds); });
  for (uint64_t i = 0; i < rounds; ++i) EXPECT_TRUE(line.send_one()) << "message " << i;
  stop.store(true);
  poller.join();
  sleeper.join();
}

TEST(EventWait, AWaiterMayBeCancelledAndTheDeviceGoesOn) {
  const uint64_t burst = 8;
  Device device;
  for (int i = 0; i < 50; ++i) {
    Line line(device.context);
    std::thread sleeper([&] { line.sleep_for(UINT64_MAX); });
    for (int delay = 0; delay < i; ++delay) ASSERT_TRUE(line.send_one()) << i;
    for (uint64_t k = 0; k < burst; ++k) ASSERT_EQ(line.a->send(k, IBV_WR_SEND, 0, 8), 0);
    ASSERT_EQ(pthread_cancel(sleeper.native_handle()), 0);
    sleeper.join();
    for (uint64_t k = 0; k < burst; ++k) ASSERT_EQ(line.a->wait().status, IBV_WC_SUCCESS) << i;
  }
}

TEST(EventWait, ASignalEndsTheWait) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Device device;
  Line line(device.context);
  std::atomic<int> error{0};
  std::thread sleeper([&] {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    error.store(get_cq_event(line.channel, &cq, &cq_context) == 0 ? -1 : errno);
  });
  for (int i = 0; i < 2000 && error.load() == 0; ++i) {
    pthread_kill(sleeper.native_handle(), SIGUSR1);
    usleep(10'000);
  }
  sleeper.join();
  EXPECT_EQ(error.load(), EINTR);
  EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST(EventWait, AChannelThatLosesItsDescriptorIsAnError) {
  Device device;
  Line line(device.context);
  const int descriptor = dup(line.channel->fd);
  int error = 0;
  std::thread sleeper([&] {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    error = get_cq_event(line.channel, &cq, &cq_context) == 0 ? -1 : errno;
  });
  usleep(50'000);
  EXPECT_EQ(close(line.channel->fd), 0);
  sleeper.join();
  EXPECT_EQ(error, EBADF);
  EXPECT_EQ(dup2(descriptor, line.channel->fd), line.channel->fd);
  EXPECT_EQ(close(descriptor), 0);
}

}  // namespace
}  // namespace roce::soft::test

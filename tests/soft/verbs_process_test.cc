// The device in several processes: connections between them, slots, other users, forked children,
// and what happens at exit.
#include <sys/resource.h>

#include "two_processes.h"

namespace roce::soft::test {
namespace {

TEST(SoftProcess, TwoProcessesExchangeMessages) {
  const auto side = [](bool first) {
    return [first](const Channel& channel) {
      Rig rig;
      rig.make_memory(1 << 16);
      connect_over(rig, channel);
      CHILD_CHECK(rig.receive(0, 1024, 1024) == 0);
      uint64_t sent = 0, received = 0;
      // The answer's data may come before the acknowledgement that rides behind it.
      const auto until_received = [&](uint64_t count) {
        while (received < count) {
          const ibv_wc wc = rig.wait();
          CHILD_CHECK(wc.status == IBV_WC_SUCCESS);
          ++(wc.opcode == IBV_WC_RECV ? received : sent);
        }
      };
      for (uint64_t i = 0; i < 2000; ++i) {
        if ((i % 2 == 0) == first) {
          std::memcpy(rig.data, &i, 8);
          CHILD_CHECK(rig.send(7, IBV_WR_SEND, 0, 8, IBV_SEND_INLINE) == 0);
        } else {
          until_received(i / 2 + 1);
          uint64_t got = 0;
          std::memcpy(&got, rig.data + 1024, 8);
          CHILD_CHECK(got == i);
          CHILD_CHECK(rig.receive(0, 1024, 1024) == 0);
        }
      }
      while (sent < 1000) {
        const ibv_wc wc = rig.wait();
        CHILD_CHECK(wc.status == IBV_WC_SUCCESS);
        ++(wc.opcode == IBV_WC_RECV ? received : sent);
      }
      channel.put(char{2});
      channel.get<char>();
    };
  };
  run_two(side(true), side(false));
}

TEST(SoftProcess, EachProcessHasItsSlot) {
  constexpr int kProcesses = 4;
  int pipes[2], hold[2];
  ASSERT_EQ(pipe(pipes), 0);
  ASSERT_EQ(pipe(hold), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(start(
        [](const Channel& channel) {
          Rig rig;
          PeerHints hints;
          CHILD_CHECK(device_hints(rig.context, &hints) == 0);
          CHILD_CHECK((rig.qp->qp_num >> 14 & 0x1FF) + 4791u == hints.udp_port);
          channel.put(hints.udp_port);
          channel.get<char>();
        },
        {hold[0], pipes[1]}));
  }
  std::vector<uint16_t> ports;
  for (int i = 0; i < kProcesses; ++i) ports.push_back(Channel{pipes[0], -1}.get<uint16_t>());
  std::sort(ports.begin(), ports.end());
  EXPECT_EQ(std::unique(ports.begin(), ports.end()), ports.end());
  EXPECT_GE(ports.front(), 4791);
  for (int i = 0; i < kProcesses; ++i) Channel{-1, hold[1]}.put(char{1});
  for (const pid_t child : children) EXPECT_EQ(finish(child), 0);
  for (const int fd : {pipes[0], pipes[1], hold[0], hold[1]}) close(fd);
}

TEST(SoftProcess, FirstSlotIsConfigurable) {
  const pid_t child = start(
      [](const Channel&) {
        Options options;
        options.first_slot = 77;
        options.interface_include = "127.0.0.0/8";
        configure(options);
        int count = 0;
        ibv_device** list = get_device_list(&count);
        CHILD_CHECK(count == 1);
        ibv_context* context = open_device(list[0]);
        CHILD_CHECK(context != nullptr);
        PeerHints hints;
        CHILD_CHECK(device_hints(context, &hints) == 0);
        CHILD_CHECK(hints.udp_port >= 4791 + 77);
        free_device_list(list);
        CHILD_CHECK(close_device(context) == 0);
      },
      {});
  EXPECT_EQ(finish(child), 0);
}

TEST(SoftProcess, EnvironmentExcludesInterfacesAndSurvivesNonsense) {
  const pid_t child = start(
      [](const Channel&) {
        setenv("ROCE_SOFT_IF_EXCLUDE", "lo,300.1.2.3/8,::/999", 1);
        setenv("ROCE_SOFT_FIRST_SLOT", "five", 1);
        ibv_device** list = get_device_list(nullptr);
        CHILD_CHECK(list != nullptr);
        for (ibv_device** device = list; *device != nullptr; ++device) {
          CHILD_CHECK(std::string((*device)->ibdev_path) != "/sys/class/net/lo");
        }
        free_device_list(list);
      },
      {});
  EXPECT_EQ(finish(child), 0);
}

TEST(SoftProcess, AnOrdinaryUserNeedsNothing) {
  if (getuid() != 0) GTEST_SKIP() << "not root: the other tests run as an ordinary user already";
  const auto side = [](const Channel& channel) {
    CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    Rig rig;
    rig.make_memory(1 << 20);
    connect_over(rig, channel);
    struct Remote {
      uint64_t address;
      uint32_t key;
    };
    channel.put(Remote{reinterpret_cast<uintptr_t>(rig.data), rig.mr->rkey});
    const auto remote = channel.get<Remote>();
    CHILD_CHECK(rig.send(1, IBV_WR_RDMA_WRITE, 0, 1 << 19, 0, remote.address, remote.key) == 0);
    CHILD_CHECK(rig.wait().status == IBV_WC_SUCCESS);
    channel.put(char{2});
    // The other one still needs this side's answers; the service thread gives them.
    channel.get<char>();
  };
  run_two(side, side);
}

TEST(SoftProcess, AProcessThatEndsAtOnceLeavesNoAcknowledgementUnsent) {
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 50; ++round) {
    // One message there, one back, as `latency -n 1`: the last receiver exits with its
    // acknowledgement deferred.
    run_two(
        [](const Channel& channel) {
          QpOptions options;
          options.timeout = 16;  // Long enough that a lost acknowledgement would show as a pause.
          Rig rig(options);
          rig.make_memory(4096);
          connect_over(rig, channel);
          CHILD_CHECK(rig.receive(1, 1024, 64) == 0);
          CHILD_CHECK(rig.send(2, IBV_WR_SEND, 0, 8, IBV_SEND_INLINE) == 0);
          CHILD_CHECK(rig.wait().status == IBV_WC_SUCCESS);
          CHILD_CHECK(rig.wait().status == IBV_WC_SUCCESS);
          exit(0);  // Without destroying anything.
        },
        [](const Channel& channel) {
          QpOptions options;
          options.timeout = 16;
          Rig rig(options);
          rig.make_memory(4096);
          connect_over(rig, channel);
          CHILD_CHECK(rig.receive(1, 1024, 64) == 0);
          CHILD_CHECK(rig.wait().status == IBV_WC_SUCCESS);
          CHILD_CHECK(rig.send(2, IBV_WR_SEND, 0, 8, IBV_SEND_INLINE) == 0);
          const ibv_wc wc = rig.wait();
          CHILD_CHECK(wc.status == IBV_WC_SUCCESS);
          CHILD_CHECK(counter("local_ack_timeout_err") == 0);
          exit(0);
        });
    if (testing::Test::HasFailure()) break;
  }
  RecordProperty("seconds", static_cast<int>(seconds_since(begin)));
}

TEST(SoftProcess, AForkedChildIsRefusedAndTheParentGoesOn) {
  const pid_t parent = start(
      [](const Channel&) {
        Pair pair;
        ibv_comp_channel* channel = create_comp_channel(pair.a.context);
        const pid_t grandchild = fork();
        if (grandchild == 0) {
          ibv_wc wc;
          errno = 0;
          CHILD_CHECK(ibv_poll_cq(pair.a.cq, 1, &wc) == -1);
          CHILD_CHECK(pair.a.send(1, IBV_WR_SEND, 0, 8) == EIO);
          CHILD_CHECK(pair.a.receive(1, 0, 8) == EIO);
          CHILD_CHECK(alloc_pd(pair.a.context) == nullptr && errno == EIO);
          CHILD_CHECK(get_device_list(nullptr) == nullptr);
          CHILD_CHECK(destroy_qp(pair.a.qp) == EIO);
          ibv_cq* cq = nullptr;
          void* context = nullptr;
          CHILD_CHECK(get_cq_event(channel, &cq, &context) == -1);
          exit(0);  // Destructors run and must do nothing.
        }
        CHILD_CHECK(finish(grandchild) == 0);
        CHILD_CHECK(pair.b.receive(1, 0, 64) == 0);
        CHILD_CHECK(pair.a.send(1, IBV_WR_SEND, 0, 8) == 0);
        CHILD_CHECK(pair.b.wait().status == IBV_WC_SUCCESS);
        CHILD_CHECK(destroy_comp_channel(channel) == 0);
      },
      {});
  EXPECT_EQ(finish(parent), 0);
}

TEST(SoftProcess, AnIdleDeviceSleeps) {
  run_two(
      [](const Channel& channel) {
        Rig rig;
        rig.make_memory(4096);
        connect_over(rig, channel);
        CHILD_CHECK(rig.send(1, IBV_WR_SEND, 0, 8) == 0);
        CHILD_CHECK(rig.wait().status == IBV_WC_SUCCESS);
        // Time to notice that nobody polls any more.
        usleep(200'000);
        const uint64_t before = counter("service_wakes");
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        const auto used = [](const rusage& u) {
          return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1'000'000 + u.ru_utime.tv_usec +
                 u.ru_stime.tv_usec;
        };
        const long used_before = used(usage);
        usleep(2'000'000);
        getrusage(RUSAGE_SELF, &usage);
        // It looks once a second; a few more rounds if addresses of interfaces change meanwhile.
        CHILD_CHECK(counter("service_wakes") - before < 20);
        CHILD_CHECK(used(usage) - used_before < 20'000);
        channel.put(char{3});
      },
      [](const Channel& channel) {
        Rig rig;
        rig.make_memory(4096);
        CHILD_CHECK(rig.to_init() == 0 && rig.receive(1, 0, 64) == 0);
        connect_over(rig, channel);
        CHILD_CHECK(rig.wait().status == IBV_WC_SUCCESS);
        channel.get<char>();
      });
}

TEST(SoftProcess, AProcessThatComputesStillAnswers) {
  run_two(
      [](const Channel& channel) {
        Rig rig;
        rig.make_memory(1 << 20);
        connect_over(rig, channel);
        const auto remote = channel.get<std::pair<uint64_t, uint32_t>>();
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 20; ++i) {
          CHILD_CHECK(rig.send(i, IBV_WR_RDMA_READ, 0, 65536, 0, remote.first, remote.second) == 0);
          CHILD_CHECK(rig.wait().status == IBV_WC_SUCCESS);
        }
        // One tick of at most 16 ms bounds the first; the rest need no tick. The bound leaves room
        // for a loaded host.
        CHILD_CHECK(seconds_since(begin) < 5);
        channel.put(char{3});
      },
      [](const Channel& channel) {
        Rig rig;
        rig.make_memory(1 << 20);
        connect_over(rig, channel);
        // Polls until it owns the socket, then computes.
        const auto begin = std::chrono::steady_clock::now();
        while (seconds_since(begin) < 0.05) progress();
        channel.put(
            std::pair<uint64_t, uint32_t>(reinterpret_cast<uintptr_t>(rig.data), rig.mr->rkey));
        pollfd fd = {channel.in, POLLIN, 0};
        CHILD_CHECK(poll(&fd, 1, 20000) == 1);
        channel.get<char>();
      });
}

}  // namespace
}  // namespace roce::soft::test

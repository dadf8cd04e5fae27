// Connections between transports over the software device: loss, blocked calls, refusals, ends.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>
#include <thread>

#include "support.h"
#include "transport/address.h"

namespace roce::transport {
namespace {

using namespace std::chrono_literals;
using test::Node;
using test::NodeSetup;
using test::pattern;
using test::pump;
using Clock = std::chrono::steady_clock;

TEST(Connect, SurvivesDroppedAndDuplicatedHandshakePackets) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (unsigned round = 0; round < 10; ++round) {
    auto random = std::make_shared<std::mt19937>(seed + round);
    auto mutex = std::make_shared<std::mutex>();
    NodeSetup first{.rank = 0}, second{.rank = 1};
    first.params.connect_timeout_s = second.params.connect_timeout_s = 20;
    first.hooks.copies_sent = second.hooks.copies_sent = [random, mutex](const ConnectionPacket&) {
      std::lock_guard guard(*mutex);
      return static_cast<int>((*random)() % 3);
    };
    Node a(first), b(second);
    Endpoint* to_b = a.add(b);
    Endpoint* to_a = b.add(a);
    a.send(to_b, pattern(100, round));
    if (round % 2 != 0) b.send(to_a, pattern(200, round));
    ASSERT_TRUE(pump({&a, &b}, [&] {
      return b.received.size() == 1 && a.received.size() == round % 2;
    })) << test::told({&a, &b});
    EXPECT_EQ(b.received[0].data, pattern(100, round));
    EXPECT_TRUE(a.errors.empty() && b.errors.empty());
  }
}

TEST(Connect, APeerInComputeAccepts) {
  Node a({.rank = 0}), b({.rank = 1});
  Endpoint* to_b = a.add(b);
  a.send(to_b, pattern(1000, 1));
  // Nobody calls b's progress, and b does not know a.
  ASSERT_TRUE(pump(
      {&a}, [&] { return a.sends_open() == 0; }, 2000ms));
  EXPECT_EQ(a.send_results, std::vector<Code>{Code::kOk});
  EXPECT_NE(b.transport().find_peer({1, 0}), nullptr);
  ASSERT_TRUE(pump({&b}, [&] { return b.received.size() == 1; }));
  // The acceptor answers over the same connection, with or without add_peer.
  b.send(b.transport().find_peer({1, 0}), pattern(9, 2));
  EXPECT_EQ(b.add(a), b.transport().find_peer({1, 0}));
  ASSERT_TRUE(pump({&a, &b}, [&] { return a.received.size() == 1; }));
}

TEST(Connect, ManyPairsAtOnceInBothDirections) {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Node*> all;
  for (uint32_t i = 0; i < 6; ++i) {
    nodes.push_back(std::make_unique<Node>(NodeSetup{.rank = i}));
    all.push_back(nodes.back().get());
  }
  for (Node* from : all) {
    for (Node* to : all) {
      if (from != to) from->send(from->add(*to), pattern(64, from->rank() * 10 + to->rank()));
    }
  }
  ASSERT_TRUE(pump(all, [&] {
    return std::all_of(all.begin(), all.end(), [](Node* n) { return n->received.size() == 5; });
  })) << test::told(all);
  for (Node* node : all) {
    EXPECT_EQ(node->counter(Counter::connects), 5U);
    for (auto& message : node->received) {
      EXPECT_EQ(message.data, pattern(64, message.from.rank * 10 + node->rank()));
    }
  }
}

TEST(Connect, AProcessReachesItself) {
  Node a({.rank = 0});
  Endpoint* self = a.add(a);
  a.send(self, pattern(50, 1));
  a.send(self, pattern(5000, 2));
  ASSERT_TRUE(pump({&a}, [&] { return a.received.size() == 2; })) << test::told({&a});
  EXPECT_EQ(a.received[1].data, pattern(5000, 2));
}

/// create_ah towards some control queue pairs blocks.
struct BlockingTable {
  static inline std::atomic<bool> blocking{false};
  static inline std::atomic<int> blocked{0};
  verbs::Table table = test::soft_table_copy();
  BlockingTable() {
    table.create_ah = [](ibv_pd* pd, ibv_ah_attr* attributes) -> ibv_ah* {
      if (blocking) {
        ++blocked;
        std::this_thread::sleep_for(5s);
      }
      return verbs::soft_table().create_ah(pd, attributes);
    };
  }
};

TEST(Connect, TwoPeersWhoseAddressDoesNotResolveHoldUpNobody) {
  BlockingTable table;
  NodeSetup setup{.rank = 0};
  setup.params.connect_timeout_s = 20;
  setup.hooks.soft_table = &table.table;
  Node a(setup), b({.rank = 1}), c({.rank = 2}), d({.rank = 3}), e({.rank = 4}), f({.rank = 5}),
      g({.rank = 6});
  Endpoint* to_b = a.add(b);
  a.send(to_b, pattern(8, 0));
  ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 1; }));

  BlockingTable::blocking = true;
  auto before = Clock::now();
  a.send(a.add(c), pattern(8, 1));
  a.send(a.add(d), pattern(8, 2));
  EXPECT_LT(Clock::now() - before, 2500ms);  // One resolution takes 5 s.
  ASSERT_TRUE(pump(
      {&a}, [] { return BlockingTable::blocked == 2; }, 2000ms));
  BlockingTable::blocking = false;

  // Other peers connect meanwhile; the fastest counts, since the machine may be busy.
  Clock::duration fastest = 1h;
  for (Node* other : {&e, &f, &g}) {
    before = Clock::now();
    size_t had = b.received.size();
    a.send(to_b, pattern(8, 3));
    a.send(a.add(*other), pattern(8, 4));
    ASSERT_TRUE(pump(
        {&a, &b, other},
        [&] { return b.received.size() == had + 1 && other->received.size() == 1; }, 3000ms));
    fastest = std::min(fastest, Clock::now() - before);
  }
  EXPECT_LT(fastest, 2500ms);
  EXPECT_TRUE(c.received.empty());
  ASSERT_TRUE(pump(
      {&a, &c, &d}, [&] { return c.received.size() == 1 && d.received.size() == 1; }, 10s));
}

TEST(Connect, WithoutAnAnswerTheTextNamesPortGidsInterfaceAndParameter) {
  NodeSetup deaf{.rank = 1};
  deaf.hooks.copies_sent = [](const ConnectionPacket&) { return 0; };
  NodeSetup hasty{.rank = 0};
  hasty.params.connect_timeout_s = 1;
  Node a(hasty), b(deaf);
  Endpoint* to_b = a.add(b);
  auto before = Clock::now();
  a.send(to_b, pattern(2000, 1));
  ASSERT_TRUE(pump(
      {&a, &b}, [&] { return a.sends_open() == 0 && !a.errors.empty(); }, 5s));
  EXPECT_GE(Clock::now() - before, 990ms);
  EXPECT_LT(Clock::now() - before, 2s);
  EXPECT_NE(a.send_results.at(0), Code::kOk);
  ASSERT_EQ(a.errors.size(), 1U);
  const std::string& text = a.errors[0].second;
  for (const char* part : {"process 1 of job 1", "UDP port 4", "GID 127.0.0.1", "interface lo",
                           "firewall", "connect_timeout_s = 1", "no answer to 6 connection"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
  // What is sent later ends with an error too, and is not told twice.
  a.send(to_b, pattern(10, 2));
  ASSERT_TRUE(pump({&a, &b}, [&] { return a.sends_open() == 0; }));
  EXPECT_EQ(a.errors.size(), 1U);
}

TEST(Connect, OtherReceiveBufferSizeIsRefusedWithBothValuesOnBothSides) {
  Node a({.rank = 0}), b({.rank = 1, .max_message_bytes = 8192});
  a.send(a.add(b), pattern(10, 1));
  ASSERT_TRUE(pump(
      {&a, &b}, [&] { return !a.errors.empty() && !b.errors.empty(); }, 2s))
      << test::told({&a, &b});
  for (Node* node : {&a, &b}) {
    const std::string& text = node->errors[0].second;
    EXPECT_NE(text.find("65536"), std::string::npos) << text;
    EXPECT_NE(text.find("8192"), std::string::npos) << text;
  }
}

TEST(Connect, BlobOfAnotherJobIsRefusedWithBothCookies) {
  Node a({.rank = 0}), b({.rank = 1, .cookie = 815});
  auto endpoint = a.transport().add_peer({1, 1}, b.transport().address(), nullptr);
  ASSERT_FALSE(endpoint.is_ok());
  EXPECT_EQ(endpoint.status().code(), Code::kProtocol);
  EXPECT_NE(endpoint.status().text().find("815"), std::string::npos);
  EXPECT_NE(endpoint.status().text().find("4711"), std::string::npos);
  EXPECT_FALSE(a.transport().add_peer({1, 1}, {}, nullptr).is_ok());
}

/// A blob that leads to `node` but has another job's cookie: as if its port had been reused.
std::vector<uint8_t> with_cookie(Node& node, uint64_t cookie) {
  auto address = decode(node.transport().address());
  address->job_cookie = cookie;
  return encode(*address);
}

TEST(Connect, HandshakeOfAnotherJobIsRefusedWithBothCookiesOnBothSides) {
  Node a({.rank = 0}), b({.rank = 1, .cookie = 0x815});
  a.send(a.add(1, with_cookie(b, 4711)), pattern(10, 1));
  ASSERT_TRUE(pump(
      {&a, &b}, [&] { return !a.errors.empty(); }, 2s))
      << test::told({&a, &b});
  pump(
      {&a, &b}, [] { return false; }, 50ms);
  EXPECT_TRUE(b.errors.empty());
  EXPECT_EQ(b.transport().find_peer({1, 0}), nullptr);
  EXPECT_GE(b.counter(Counter::bad_handshakes), 1U);
  std::string log;
  for (auto& line : b.log) log += line;
  for (const std::string& text : {a.errors[0].second, log}) {
    EXPECT_NE(text.find("0x815"), std::string::npos) << text;
    EXPECT_NE(text.find("0x1267"), std::string::npos) << text;  // 4711
  }
}

TEST(Connect, OtherHandshakeVersionIsRefusedWithBothVersions) {
  NodeSetup future{.rank = 0};
  future.hooks.copies_sent = [](const ConnectionPacket& packet) {
    const_cast<ConnectionPacket&>(packet).version = 9;  // what goes out
    return 1;
  };
  Node a(future), b({.rank = 1});
  a.send(a.add(b), pattern(10, 1));
  ASSERT_TRUE(pump(
      {&a, &b}, [&] { return !a.errors.empty(); }, 2s))
      << test::told({&a, &b});
  const std::string& text = a.errors[0].second;
  EXPECT_NE(text.find("version of the handshake: 9 at process 0 of job 1, 1 at process 1"),
            std::string::npos)
      << text;
  EXPECT_EQ(b.transport().find_peer({1, 0}), nullptr);
}

TEST(Connect, RemovedPeersCanConnectAgain) {
  Node a({.rank = 0}), b({.rank = 1});
  for (uint32_t round = 0; round < 20; ++round) {
    Endpoint* to_b = a.add(b);
    a.send(to_b, pattern(3000, round));
    ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == round + 1; }))
        << round << test::told({&a, &b});
    std::thread other([&] {
      pump(
          {&b}, [] { return false; }, 20ms);
    });
    a.transport().remove_peer(to_b);
    other.join();
    EXPECT_EQ(a.transport().find_peer({1, 1}), nullptr);
  }
  EXPECT_TRUE(a.errors.empty() && b.errors.empty()) << test::told({&a, &b});
}

TEST(Connect, AClosedTransportIsNoErrorForItsPeers) {
  Node a({.rank = 0});
  {
    Node b({.rank = 1});
    a.send(a.add(b), pattern(100, 1));
    ASSERT_TRUE(pump({&a, &b}, [&] { return b.received.size() == 1; }));
    auto before = Clock::now();
    b.destroy();
    EXPECT_LT(Clock::now() - before, 400ms);
  }
  pump(
      {&a}, [] { return false; }, 1000ms);
  EXPECT_TRUE(a.errors.empty()) << a.errors[0].second;
}

TEST(Open, WithoutAUsableDeviceTheTextSaysWhyForEach) {
  Params params = test::soft_params();
  params.if_include = "nosuch0";
  Options options;
  options.receive = [](void*, Endpoint*, uint8_t, uint8_t*, uint32_t) {};
  auto opened = Transport::open(params, options);
  ASSERT_FALSE(opened.is_ok());
  EXPECT_EQ(opened.status().code(), Code::kUnavailable);
  for (const char* part : {"no usable RoCE device", "if_include: \"nosuch0\"", "rocesw0:1",
                           "is not in parameter if_include = \"nosuch0\""}) {
    EXPECT_NE(opened.status().text().find(part), std::string::npos)
        << part << " is not in: " << opened.status().text();
  }
}

size_t threads_of_this_process() {
  std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(Open, CallsTheHookOnceBeforeItsFirstThread) {
  static int calls;
  static size_t threads;
  calls = 0;
  Options options;
  options.receive = [](void*, Endpoint*, uint8_t, uint8_t*, uint32_t) {};
  options.before_threads = [](void*) {
    ++calls;
    threads = threads_of_this_process();
  };
  const size_t before = threads_of_this_process();
  auto opened = Transport::open(test::soft_params(), options);
  ASSERT_TRUE(opened.is_ok()) << opened.status().text();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(threads, before);
  EXPECT_GT(threads_of_this_process(), before);  // so the count would have told

  Params params = test::soft_params();
  params.if_include = "nosuch0";
  ASSERT_FALSE(Transport::open(params, options).is_ok());
  EXPECT_EQ(calls, 1) << "without a usable device";
}

TEST(Open, TheSoftDeviceIsUsedUnaskedOnlyIfNamed) {
  Params params = test::soft_params();
  params.soft = "auto";
  params.if_include = "rocesw0,lo";  // so that a host with RDMA devices gives the same answer
  Options options;
  options.receive = [](void*, Endpoint*, uint8_t, uint8_t*, uint32_t) {};
  auto unnamed = Transport::open(params, options);
  ASSERT_FALSE(unnamed.is_ok());
  EXPECT_NE(unnamed.status().text().find("parameter soft = on"), std::string::npos)
      << unnamed.status().text();
  options.named_by_user = true;
  EXPECT_TRUE(Transport::open(params, options).is_ok());
  params.soft = "off";
  auto off = Transport::open(params, options);
  ASSERT_FALSE(off.is_ok());
  EXPECT_NE(off.status().text().find("parameter soft = off"), std::string::npos);
}

/// This program once more, running the test of that name, with a pipe in each direction (file
/// descriptors in the environment). The software device does not survive a bare fork.
class Child {
 public:
  static constexpr const char* kVariable = "ROCE_TEST_CHILD";

  explicit Child(const char* test) {
    int to_child[2], to_parent[2];
    if (pipe(to_child) != 0 || pipe(to_parent) != 0) throw std::runtime_error("pipe");
    std::string filter = std::string("--gtest_filter=") + test;
    std::string variable = std::string(kVariable) + "=" + std::to_string(to_child[0]) + " " +
                           std::to_string(to_parent[1]);
    pid_ = fork();
    if (pid_ == 0) {
      close(to_child[1]);
      close(to_parent[0]);
      putenv(variable.data());
      execl("/proc/self/exe", "transport_test", filter.c_str(), "--gtest_brief=1", nullptr);
      _exit(127);
    }
    close(to_child[0]);
    close(to_parent[1]);
    write_fd_ = to_child[1];
    read_fd_ = to_parent[0];
  }
  ~Child() {
    close(write_fd_);
    kill(SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(read_fd_);
  }
  void kill(int signal) { ::kill(pid_, signal); }
  int read_fd() const { return read_fd_; }
  int write_fd() const { return write_fd_; }

 private:
  pid_t pid_ = -1;
  int read_fd_ = -1, write_fd_ = -1;
};

void write_blob(int fd, const std::vector<uint8_t>& blob) {
  auto size = static_cast<uint32_t>(blob.size());
  if (write(fd, &size, 4) != 4 || write(fd, blob.data(), size) != static_cast<ssize_t>(size)) {
    throw std::runtime_error("write");
  }
}
std::vector<uint8_t> read_blob(int fd) {
  uint32_t size = 0;
  if (read(fd, &size, 4) != 4) throw std::runtime_error("read");
  std::vector<uint8_t> blob(size);
  for (size_t done = 0; done < size;) {
    ssize_t count = read(fd, blob.data() + done, size - done);
    if (count <= 0) throw std::runtime_error("read");
    done += static_cast<size_t>(count);
  }
  return blob;
}

/// Not a test of its own: answers every message of process 0 with its bytes, until killed.
TEST(ChildProcess, Echo) {
  const char* descriptors = getenv(Child::kVariable);
  if (descriptors == nullptr) {
    GTEST_SKIP() << "runs as a child of TwoProcesses";
  }
  int read_fd = -1, write_fd = -1;
  ASSERT_EQ(std::sscanf(descriptors, "%d %d", &read_fd, &write_fd), 2);
  Node child({.rank = 1});
  write_blob(write_fd, child.transport().address());
  Endpoint* parent = child.add(0, read_blob(read_fd));
  child.on_message = [&](Endpoint*, const test::Message& message) {
    child.send(parent, message.data, message.tag);
  };
  pump(
      {&child}, [] { return false; }, 50s);
}

TEST(TwoProcesses, ExchangeMessagesAndTheDeathOfOneIsTold) {
  Child child("ChildProcess.Echo");
  std::vector<uint8_t> blob = read_blob(child.read_fd());
  Params params = test::soft_params();
  params.ack_timeout = 14;
  Node a({.rank = 0, .params = params});
  write_blob(child.write_fd(), a.transport().address());
  Endpoint* to_child = a.add(1, blob);
  for (uint32_t i = 0; i < 500; ++i) a.send(to_child, pattern(i * 131 % 65537, i));
  ASSERT_TRUE(pump({&a}, [&] { return a.received.size() == 500; })) << test::told({&a});
  for (uint32_t i = 0; i < 500; ++i) {
    ASSERT_EQ(a.received[i].data, pattern(i * 131 % 65537, i)) << i;
  }

  child.kill(SIGKILL);
  auto before = Clock::now();
  a.send(to_child, pattern(2000, 1));
  a.send(to_child, pattern(20000, 2));
  ASSERT_TRUE(pump(
      {&a}, [&] { return a.sends_open() == 0 && !a.errors.empty(); }, 5s))
      << test::told({&a});
  // 4.096 us x 2^14 x 8 = 0.54 s.
  EXPECT_LT(Clock::now() - before, 2s);
  ASSERT_EQ(a.errors.size(), 1U);
  EXPECT_EQ(a.errors[0].first, to_child);
  const std::string& text = a.errors[0].second;
  std::string host = "host " + local_identity().host_name;
  size_t first = text.find("From " + host);
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("to " + host, first), std::string::npos) << text;
  for (const char* part :
       {"sending a message (2016 bytes)", "no acknowledgement for 0.54 s", "retry_count = 7",
        "DSCP 26", "path MTU", "Likely: 1. the peer process"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
  EXPECT_NE(a.send_results.back(), Code::kOk);
}

TEST(Failure, OfOnePeerLeavesTheOthers) {
  Node a({.rank = 0}), b({.rank = 1}), c({.rank = 2});
  Endpoint* to_b = a.add(b);
  Endpoint* to_c = a.add(c);
  a.send(to_b, pattern(10, 0));
  a.send(to_c, pattern(10, 0));
  ASSERT_TRUE(pump({&a, &b, &c}, [&] { return b.received.size() + c.received.size() == 2; }));
  std::vector<uint8_t> memory(4096);
  Registration registration;
  ASSERT_TRUE(
      a.transport().register_memory(memory.data(), 4096, kLocalWrite, &registration).is_ok());
  test::Transfer bad;
  MemoryHandle wrong{{1, 1, 1, 1}};
  ASSERT_TRUE(
      a.transport().get(to_b, &bad, memory.data(), &registration, 4096, wrong, 4096).is_ok());
  ASSERT_TRUE(pump({&a, &b, &c}, [&] { return bad.done; }));
  for (uint32_t i = 0; i < 100; ++i) a.send(to_c, pattern(3000, i));
  ASSERT_TRUE(pump({&a, &b, &c}, [&] { return c.received.size() == 101; }));
  EXPECT_EQ(a.errors.size(), 1U);
  a.transport().deregister_memory(&registration);
}

}  // namespace
}  // namespace roce::transport

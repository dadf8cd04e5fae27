// UdpPort when the kernel refuses: full buffers, trains it cannot cut, other errors.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/udp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <deque>
#include <functional>

#include "soft/udp_port.h"
#include "udp_reference.h"

namespace {

// What the next messages meet instead of the kernel: an errno, or 0 to pass. Used up front to back;
// when it is empty everything passes.
struct Plan {
  std::deque<int> messages;
  int trains = 0;  // Errno for every message with UDP_SEGMENT.
};
Plan plan;

bool is_train(const msghdr& message) {
  auto* header = const_cast<msghdr*>(&message);
  for (cmsghdr* one = CMSG_FIRSTHDR(header); one != nullptr; one = CMSG_NXTHDR(header, one)) {
    if (one->cmsg_level == IPPROTO_UDP && one->cmsg_type == UDP_SEGMENT) return true;
  }
  return false;
}

int refusal_of(const msghdr& message) {
  if (plan.trains != 0 && is_train(message)) return plan.trains;
  if (plan.messages.empty()) return 0;
  const int error = plan.messages.front();
  plan.messages.pop_front();
  return error;
}

}  // namespace

// In front of libc's; the port has no other way to the kernel.
extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto real =
      reinterpret_cast<ssize_t (*)(int, const msghdr*, int)>(dlsym(RTLD_NEXT, "sendmsg"));
  const int error = refusal_of(*message);
  if (error == 0) return real(fd, message, flags);
  errno = error;
  return -1;
}

extern "C" int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  for (unsigned i = 0; i < count; ++i) {
    const ssize_t sent = sendmsg(fd, &messages[i].msg_hdr, flags);
    if (sent < 0 && i == 0) return -1;
    if (sent < 0) {
      // As the kernel does: the error waits for the call that begins with this message.
      if (!is_train(messages[i].msg_hdr) || plan.trains == 0) plan.messages.push_front(errno);
      return static_cast<int>(i);
    }
    messages[i].msg_len = static_cast<unsigned>(sent);
  }
  return static_cast<int>(count);
}

namespace roce::soft::test {
namespace {

class UdpErrors : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    plan = {};
    port_ = open_port();
    ASSERT_NE(port_, nullptr);
    if (!ipv4() && !port_->has_ipv6()) GTEST_SKIP() << "no IPv6 on this host";
    receiver_ = std::make_unique<PlainSocket>(ipv4());
    to_ = route_to_port(*port_, ipv4(), receiver_->port());
  }
  void TearDown() override { plan = {}; }
  static bool ipv4() { return GetParam(); }
  Bytes wire_form(const Bytes& payload, uint16_t ip_id) const {
    return with_icrc(to_.flow, expected_datagram(some_header(), payload), ip_id);
  }

  std::unique_ptr<UdpPort> port_;
  std::unique_ptr<PlainSocket> receiver_;
  Route to_;
};
INSTANTIATE_TEST_SUITE_P(Families, UdpErrors, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "IPv4" : "IPv6"; });

TEST_P(UdpErrors, FullBufferKeepsTheRestWithoutItsPayloadMemory) {
  void* memory = mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, some_payload(4096).data(), 4096);
  const iovec piece{memory, 4096};
  const Bytes first = some_payload(100), header = some_header();
  ASSERT_TRUE(add(*port_, to_, first));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(port_->add(to_, to_.tos, header, {&piece, 1}, 4096, false));
  }
  plan.messages = {0, EAGAIN};
  EXPECT_FALSE(port_->flush());
  EXPECT_FALSE(port_->empty());
  EXPECT_TRUE(port_->blocked(to_));
  EXPECT_GE(port_->blocked_fd(), 0);
  EXPECT_EQ(port_->open_train_room(to_), 0u);
  EXPECT_FALSE(add(*port_, to_, first));
  ASSERT_EQ(munmap(memory, 1 << 16), 0);  // Whoever touches it now dies.
  plan.messages = {ENOBUFS};
  EXPECT_FALSE(port_->flush());
  ASSERT_TRUE(port_->flush());
  EXPECT_TRUE(port_->empty());
  EXPECT_FALSE(port_->blocked(to_));
  EXPECT_EQ(port_->blocked_fd(), -1);
  const auto got = receiver_->receive(4);
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[0], wire_form(first, 0));
  for (uint16_t i = 0; i < 3; ++i) EXPECT_EQ(got[i + 1], wire_form(some_payload(4096), i));
  EXPECT_TRUE(receiver_->nothing_waits());
  EXPECT_EQ(port_->counters().tx_blocked, 2u);
  EXPECT_EQ(port_->counters().tx_datagrams, 4u);
  EXPECT_EQ(port_->counters().tx_errors, 0u);
}

TEST_P(UdpErrors, OneFullSocketDoesNotStopTheOthers) {
  Route other = route_to_port(*port_, ipv4(), receiver_->port(), 1);
  ASSERT_NE(other.sender, to_.sender);
  ASSERT_TRUE(add(*port_, to_, some_payload(8)));
  ASSERT_TRUE(add(*port_, other, some_payload(12)));
  plan.messages = {EAGAIN};
  EXPECT_FALSE(port_->flush());
  EXPECT_TRUE(port_->blocked(to_));
  EXPECT_FALSE(port_->blocked(other));
  ASSERT_TRUE(add(*port_, other, some_payload(16)));
  plan.messages = {EAGAIN};
  EXPECT_FALSE(port_->flush());
  EXPECT_EQ(receiver_->receive(2).size(), 2u);
  EXPECT_TRUE(port_->flush());
  EXPECT_EQ(receiver_->receive(1).size(), 1u);
}

TEST_P(UdpErrors, RefusedTrainLeavesAsSinglePacketsWithIpIdZero) {
  for (const int error : {EIO, EINVAL, EMSGSIZE}) {
    plan.trains = error;
    to_.no_trains = false;
    std::vector<Bytes> sent;
    for (int i = 0; i < 5; ++i) sent.push_back(some_payload(2000, i));
    for (int i = 5; i < 8; ++i) sent.push_back(some_payload(40, i));
    for (const Bytes& payload : sent) ASSERT_TRUE(add(*port_, to_, payload));
    ASSERT_TRUE(port_->flush());
    EXPECT_TRUE(to_.no_trains);
    ASSERT_TRUE(add(*port_, to_, sent[0]));
    ASSERT_TRUE(add(*port_, to_, sent[1]));
    sent.insert(sent.end(), {sent[0], sent[1]});
    ASSERT_TRUE(port_->flush());
    const auto got = receiver_->receive(sent.size());
    ASSERT_EQ(got.size(), sent.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], wire_form(sent[i], 0)) << i;
  }
  EXPECT_EQ(port_->counters().tx_train_refused, 6u);
  EXPECT_EQ(port_->counters().tx_errors, 0u);
}

TEST_P(UdpErrors, TrainsLeaveAgainAfterATimeWhenNothingDid) {
  plan.trains = EMSGSIZE;
  plan.messages = {EMSGSIZE, EMSGSIZE, EMSGSIZE, 0};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add(*port_, to_, some_payload(1000, i)));
  ASSERT_TRUE(add(*port_, to_, some_payload(40)));  // Small enough for the MTU of now.
  ASSERT_TRUE(port_->flush());
  EXPECT_EQ(port_->counters().tx_errors, 3u);
  EXPECT_EQ(receiver_->receive(1).size(), 1u);
  EXPECT_FALSE(to_.no_trains);
}

TEST_P(UdpErrors, FullBufferAmidTheSinglesGoesOnWhereItStopped) {
  plan.trains = EIO;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(add(*port_, to_, some_payload(1000, i)));
  plan.messages = {0, 0, EAGAIN, EAGAIN};
  EXPECT_FALSE(port_->flush());
  EXPECT_FALSE(port_->flush());
  EXPECT_TRUE(port_->flush());
  const auto got = receiver_->receive(5);
  ASSERT_EQ(got.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(got[i], wire_form(some_payload(1000, i), 0));
  EXPECT_TRUE(receiver_->nothing_waits());
}

TEST_P(UdpErrors, ForgottenRouteIsNotTouchedButItsPacketsLeave) {
  auto route = std::make_unique<Route>(to_);
  plan.trains = EIO;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add(*port_, *route, some_payload(600)));
  port_->forget(*route);
  EXPECT_EQ(port_->open_train_room(*route), 0u);
  route.reset();  // The address sanitizer sees a later use.
  EXPECT_TRUE(port_->flush());
  EXPECT_EQ(receiver_->receive(3).size(), 3u);
}

TEST_P(UdpErrors, OtherErrorsAreLossByErrno) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add(*port_, to_, some_payload(40)));  // One train.
  ASSERT_TRUE(add(*port_, to_, some_payload(80)));
  ASSERT_TRUE(add(*port_, to_, some_payload(120)));
  plan.messages = {EPERM, 0, EINVAL};
  EXPECT_TRUE(port_->flush());
  EXPECT_EQ(port_->counters().tx_errors, 4u);
  EXPECT_EQ(port_->counters().last_tx_errno, EINVAL);
  EXPECT_EQ(port_->counters().tx_train_refused, 0u);
  EXPECT_FALSE(to_.no_trains);
  const auto got = receiver_->receive(1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0], wire_form(some_payload(80), 0));
  EXPECT_TRUE(receiver_->nothing_waits());
}

// The kernel itself: packets for a neighbour that does not answer hold the send buffer until they
// are given up.
int fill_a_small_send_buffer() {
  auto port = UdpPort::open({.send_buffer_bytes = 16384});
  if (!port) return 1;
  Route to = route_to_neighbour(**port, 64);
  to.no_trains = true;
  const Bytes payload = some_payload(1024);
  int sent = 0;
  while ((*port)->flush()) {
    if (++sent > 200) return 2;  // 200 KiB in a buffer of 32 KiB.
    if (!add(**port, to, payload)) return 3;
  }
  if ((*port)->counters().last_tx_errno != 0 || (*port)->counters().tx_errors != 0) return 4;
  pollfd waiting{(*port)->blocked_fd(), POLLOUT, 0};
  if (poll(&waiting, 1, 0) != 0) return 5;
  // A neighbour comes up: what waits leaves, and the rest finds room.
  if (system("ip neighbour replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev va") != 0) return 6;
  if (poll(&waiting, 1, 5000) != 1) return 7;
  if (!(*port)->flush() || !(*port)->empty()) return 8;
  return (*port)->counters().tx_datagrams == static_cast<uint64_t>(sent) ? 0 : 9;
}

TEST(UdpErrorsOfTheKernel, SmallSendBufferFillsAndDrains) {
  plan = {};
  const int status = run_in_namespace(fill_a_small_send_buffer);
  if (status == 77) GTEST_SKIP() << "no network namespace may be made here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace roce::soft::test

// Interfaces, GIDs and routes: on loopback, and in a network namespace of the test's own.
#include "soft/interfaces.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "soft/interfaces_netlink.h"

namespace roce::soft {
namespace {

std::vector<uint8_t> gid(const char* text) {
  std::vector<uint8_t> bytes(16);
  EXPECT_EQ(inet_pton(AF_INET6, text, bytes.data()), 1) << text;
  return bytes;
}

std::string text_of(const Gid& one) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, one.bytes, text, sizeof text);
  return text + ("/" + std::to_string(one.prefix_length));
}

std::vector<std::string> gid_texts(const Interface& interface) {
  std::vector<std::string> texts;
  for (const Gid& one : interface.gids) texts.push_back(text_of(one));
  return texts;
}

const Interface* find(const std::vector<Interface>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Interface& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool has_loopback_ipv6() { return access("/proc/net/if_inet6", R_OK) == 0; }

TEST(Interfaces, LoopbackIsListedLastWithItsTwoAddresses) {
  const auto all = list_interfaces(nullptr);
  ASSERT_FALSE(all.empty());
  const Interface& lo = all.back();
  EXPECT_EQ(lo.name, "lo");
  EXPECT_TRUE(lo.loopback);
  EXPECT_TRUE(lo.running);
  EXPECT_EQ(lo.ifindex, 1u);
  EXPECT_GE(lo.mtu_bytes, 1500u);
  const auto texts = gid_texts(lo);
  ASSERT_FALSE(texts.empty());
  EXPECT_EQ(texts[0], "::ffff:127.0.0.1/104");  // 96 + 8
  if (has_loopback_ipv6()) {
    EXPECT_NE(std::find(texts.begin(), texts.end(), "::1/128"), texts.end());
  }
  for (size_t i = 0; i + 1 < all.size(); ++i) EXPECT_FALSE(all[i].loopback);
}

TEST(Interfaces, OneInterfaceIsReadByIndex) {
  const Interface lo = read_interface(1);
  EXPECT_EQ(lo.name, "lo");
  EXPECT_TRUE(lo.running);
  const Interface gone = read_interface(0x7FFFFFF0);
  EXPECT_FALSE(gone.running);
  EXPECT_TRUE(gone.gids.empty());
  EXPECT_TRUE(gone.name.empty());
}

TEST(Interfaces, RouteToLoopbackIsLocal) {
  for (const char* text : {"::ffff:127.0.0.1", "::1"}) {
    if (std::string(text) == "::1" && !has_loopback_ipv6()) continue;
    auto answer = route_to(gid(text).data());
    ASSERT_TRUE(answer) << answer.status().text();
    EXPECT_TRUE(answer->local);
    EXPECT_EQ(answer->ifindex, 1u);
    EXPECT_EQ(std::memcmp(answer->source, gid(text).data(), 16), 0);
    EXPECT_EQ(answer->mtu_bytes, read_interface(1).mtu_bytes);
  }
}

TEST(Interfaces, RefusedDestinationsSayWhy) {
  for (const char* text : {"::ffff:224.0.0.1", "::ffff:255.255.255.255", "fe80::1"}) {
    auto answer = route_to(gid(text).data());
    ASSERT_FALSE(answer) << text;
    EXPECT_NE(answer.status().text().find("no path to"), std::string::npos);
  }
}

TEST(Interfaces, MonitorIsOpenToAnyone) {
  const int fd = open_change_monitor();
  ASSERT_GE(fd, 0);
  close(fd);
  EXPECT_FALSE(drain_change_monitor(-1));
}

// ---- lengths that lie ----

std::vector<uint8_t> attribute(uint16_t length, uint16_t type, std::vector<uint8_t> value) {
  std::vector<uint8_t> bytes(4);
  std::memcpy(bytes.data(), &length, 2);
  std::memcpy(bytes.data() + 2, &type, 2);
  bytes.insert(bytes.end(), value.begin(), value.end());
  return bytes;
}

TEST(Netlink, AttributesWithLyingLengthsEndTheSearch) {
  auto bytes = attribute(8, 1, {1, 2, 3, 4});
  const auto second = attribute(5, 2, {9});
  bytes.insert(bytes.end(), second.begin(), second.end());
  ASSERT_EQ(find_attribute(bytes, 1).size(), 4u);
  ASSERT_EQ(find_attribute(bytes, 2).size(), 1u);
  EXPECT_EQ(find_attribute(bytes, 2)[0], 9);
  EXPECT_EQ(attribute_u32(find_attribute(bytes, 2), 7), 7u);  // Too short for a number.
  for (const uint16_t length : {0, 3, 9, 0xFFFF}) {
    const auto lie = attribute(length, 1, {1, 2, 3, 4});
    EXPECT_TRUE(find_attribute(lie, 1).empty()) << length;
    EXPECT_TRUE(find_attribute(lie, 2).empty()) << length;
  }
  EXPECT_TRUE(find_attribute({bytes.data(), 3}, 1).empty());
}

TEST(Netlink, MessagesWithLyingLengthsEndTheWalk) {
  for (const uint32_t length : {0u, 15u, 21u, 0xFFFFFFFFu}) {
    std::vector<uint8_t> bytes(20);
    std::memcpy(bytes.data(), &length, 4);
    int seen = 0;
    walk_netlink(bytes, [&](const nlmsghdr&, const NetlinkMessage&) { return ++seen < 100; });
    EXPECT_EQ(seen, 0) << length;
  }
  std::vector<uint8_t> bytes(16 + 17);
  const uint32_t first = 16, second = 17;
  std::memcpy(bytes.data(), &first, 4);
  std::memcpy(bytes.data() + 16, &second, 4);
  std::vector<size_t> bodies;
  walk_netlink(bytes, [&](const nlmsghdr&, const NetlinkMessage& message) {
    bodies.push_back(message.body.size());
    EXPECT_EQ(message.fixed<uint64_t>(), 0u);  // Shorter than asked for.
    return true;
  });
  EXPECT_EQ(bodies, (std::vector<size_t>{0, 1}));
}

// ---- in a network namespace of its own; 77: none may be made here ----

// In the child: says what failed and ends it.
#define CHILD_EXPECT(condition)                               \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      return 1;                                               \
    }                                                         \
  } while (false)

int run_in_namespace(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const int flags = geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET;
    if (unshare(flags) != 0 || system("ip link set lo up") != 0) _exit(77);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool run(const std::string& commands) { return system(("set -e; " + commands).c_str()) == 0; }

bool mentions(const std::vector<std::string>& refusals, const std::string& name,
              const std::string& why) {
  return std::any_of(refusals.begin(), refusals.end(), [&](const std::string& one) {
    return one.find("interface " + name + " ") == 0 && one.find(why) != std::string::npos;
  });
}

int check_list() {
  CHILD_EXPECT(
      run("ip link add good type veth peer name peer; ip link add nocarrier type veth peer name np;"
          "ip link add docker7 type bridge; ip link add tiny type veth peer name tp;"
          "ip link add name sw type bridge; ip link add inbr type veth peer name ib;"
          "ip link set inbr master sw; ip link set good mtu 4200;"
          "for i in good peer nocarrier docker7 tiny tp sw inbr ib; do ip link set $i up; done;"
          "ip address add fd77::1/64 dev good nodad;"
          "ip address add 10.77.0.1/24 dev good; ip address add 10.77.0.2/24 dev good;"
          "ip address add 10.78.0.1/24 dev nocarrier; ip address add 10.79.0.1/24 dev tiny;"
          "ip address add 10.80.0.1/24 dev docker7; ip link set tiny mtu 335"));
  std::vector<std::string> refusals;
  const auto all = list_interfaces(&refusals);
  const Interface* good = find(all, "good");
  CHILD_EXPECT(good != nullptr && good->running && !good->loopback);
  CHILD_EXPECT(good->mtu_bytes == 4200 && good->speed_mbps == 10000);  // What veth reports.
  const auto texts = gid_texts(*good);
  CHILD_EXPECT(texts.size() >= 3 && texts[0] == "::ffff:10.77.0.1/120" &&
               texts[1] == "::ffff:10.77.0.2/120" && texts[2] == "fd77::1/64");
  for (size_t i = 3; i < texts.size(); ++i) CHILD_EXPECT(texts[i].find("fe80::") == 0);
  CHILD_EXPECT(all.back().name == "lo");
  CHILD_EXPECT(all.back().ifindex == 1);
  CHILD_EXPECT(mentions(refusals, "nocarrier", "no carrier"));
  CHILD_EXPECT(mentions(refusals, "np", "is down"));
  CHILD_EXPECT(mentions(refusals, "tiny", "MTU 335, the smallest usable is 336"));
  CHILD_EXPECT(mentions(refusals, "docker7", "docker*"));
  CHILD_EXPECT(
      run("sysctl -q -w net.ipv6.conf.inbr.disable_ipv6=1 2>/dev/null || "
          "ip address flush dev inbr"));
  refusals.clear();
  list_interfaces(&refusals);
  CHILD_EXPECT(mentions(refusals, "inbr", "port of a bridge"));
  CHILD_EXPECT(run("ip link set tiny mtu 336"));
  CHILD_EXPECT(find(list_interfaces(nullptr), "tiny") != nullptr);
  return 0;
}

int check_routes() {
  CHILD_EXPECT(run(
      "ip link add va type veth peer name vb; ip link set va mtu 4200; ip link set va up;"
      "ip link set vb up; ip address add 10.77.0.1/24 dev va; ip address add 10.77.0.9/24 dev va;"
      "ip route add 10.99.0.0/16 via 10.77.0.2 mtu 1400 src 10.77.0.9;"
      "ip route add prohibit 10.98.0.0/16"));
  const uint32_t index = find(list_interfaces(nullptr), "va")->ifindex;
  auto answer = route_to(gid("::ffff:10.77.0.2").data());
  CHILD_EXPECT(answer && answer->ifindex == index && !answer->local);
  CHILD_EXPECT(answer->mtu_bytes == 4200);
  CHILD_EXPECT(std::memcmp(answer->source, gid("::ffff:10.77.0.1").data(), 16) == 0);
  answer = route_to(gid("::ffff:10.99.1.1").data());
  CHILD_EXPECT(answer && answer->mtu_bytes == 1400);
  CHILD_EXPECT(std::memcmp(answer->source, gid("::ffff:10.77.0.9").data(), 16) == 0);
  answer = route_to(gid("::ffff:10.77.0.9").data());
  CHILD_EXPECT(answer && answer->local);
  for (const char* text : {"::ffff:10.98.0.1", "::ffff:8.8.8.8", "2001:db8::1"}) {
    answer = route_to(gid(text).data());
    CHILD_EXPECT(!answer && answer.status().code() == Code::kUnreachable);
  }
  const Interface a = read_interface(index);
  if (!a.gids.empty() && a.gids.back().bytes[0] == 0xFE) {
    answer = route_to(gid("fe80::1234").data(), index);
    CHILD_EXPECT(answer && answer->ifindex == index);
    CHILD_EXPECT(std::memcmp(answer->source, a.gids.back().bytes, 16) == 0);
  }
  return 0;
}

int check_monitor() {
  const int fd = open_change_monitor();
  CHILD_EXPECT(fd >= 0);
  usleep(100 * 1000);  // Until the loopback of the new namespace has its IPv6 address.
  drain_change_monitor(fd);
  CHILD_EXPECT(!drain_change_monitor(fd));
  for (const char* change :
       {"ip link add va type veth peer name vb", "ip link set va up; ip link set vb up",
        "ip address add 10.77.0.1/24 dev va", "ip address del 10.77.0.1/24 dev va",
        "ip link del va"}) {
    CHILD_EXPECT(run(change));
    pollfd waiting{fd, POLLIN, 0};
    CHILD_EXPECT(poll(&waiting, 1, 1000) == 1);
    CHILD_EXPECT(drain_change_monitor(fd));
    CHILD_EXPECT(read_interface(1).running);
  }
  return 0;
}

void expect_in_namespace(const std::function<int()>& body) {
  const int status = run_in_namespace(body);
  if (status == 77) GTEST_SKIP() << "no network namespace may be made here";
  EXPECT_EQ(status, 0);
}

TEST(InterfacesInNamespace, UsableOnesAreListedAndOthersRefusedWithReasons) {
  expect_in_namespace(check_list);
}
TEST(InterfacesInNamespace, RoutesTellInterfaceSourceAndMtu) { expect_in_namespace(check_routes); }
TEST(InterfacesInNamespace, MonitorTellsEveryChange) { expect_in_namespace(check_monitor); }

int compare_with_nobody() {
  CHILD_EXPECT(
      run("ip link add va type veth peer name vb; ip link set va up; ip link set vb up;"
          "ip address add 10.77.0.1/24 dev va"));
  const auto before = list_interfaces(nullptr);
  constexpr uid_t kNobody = 65534;
  CHILD_EXPECT(setresgid(kNobody, kNobody, kNobody) == 0);
  CHILD_EXPECT(setresuid(kNobody, kNobody, kNobody) == 0);
  const auto after = list_interfaces(nullptr);
  for (const char* name : {"va", "lo"}) {
    const Interface *was = find(before, name), *is = find(after, name);
    CHILD_EXPECT(was != nullptr && is != nullptr);
    CHILD_EXPECT(is->running && is->speed_mbps == was->speed_mbps);
    CHILD_EXPECT(gid_texts(*is)[0] == gid_texts(*was)[0]);
  }
  auto answer = route_to(gid("::ffff:10.77.0.1").data());
  CHILD_EXPECT(answer && answer->local);
  CHILD_EXPECT(open_change_monitor() >= 0);
  return 0;
}

TEST(InterfacesInNamespace, UnprivilegedUserSeesTheSame) {
  if (geteuid() != 0) GTEST_SKIP() << "the other tests already run without privilege";
  expect_in_namespace(compare_with_nobody);
}

}  // namespace
}  // namespace roce::soft

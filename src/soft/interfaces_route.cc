// Which way the kernel would send.
#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "soft/interfaces.h"
#include "soft/interfaces_netlink.h"

namespace roce::soft {
namespace {

constexpr size_t kMappedOffset = 12;

bool is_mapped(const uint8_t address[16]) {
  static constexpr uint8_t kPrefix[kMappedOffset] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::memcmp(address, kPrefix, sizeof kPrefix) == 0;
}

std::string text_of(const uint8_t address[16]) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (is_mapped(address)) {
    inet_ntop(AF_INET, address + kMappedOffset, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, address, text, sizeof text);
  }
  return text;
}

struct Answer {
  uint8_t type = RTN_UNSPEC;
  RouteAnswer route;
  bool has_source = false;
};

std::optional<Answer> parse(const NetlinkMessage& message, bool ipv4) {
  if (message.type != RTM_NEWROUTE || message.body.size() < sizeof(rtmsg)) return std::nullopt;
  const auto info = message.fixed<rtmsg>();
  const auto attributes = attributes_after(message, sizeof info);
  Answer answer;
  answer.type = info.rtm_type;
  answer.route.local = info.rtm_type == RTN_LOCAL;
  answer.route.ifindex = attribute_u32(find_attribute(attributes, RTA_OIF), 0);
  const auto metrics = find_attribute(attributes, RTA_METRICS);
  answer.route.mtu_bytes = attribute_u32(find_attribute(metrics, RTAX_MTU), 0);
  const auto source = find_attribute(attributes, RTA_PREFSRC);
  if (ipv4 && source.size() == 4) {
    answer.route.source[10] = answer.route.source[11] = 0xFF;
    std::memcpy(answer.route.source + kMappedOffset, source.data(), 4);
    answer.has_source = true;
  } else if (!ipv4 && source.size() == 16) {
    std::memcpy(answer.route.source, source.data(), 16);
    answer.has_source = true;
  }
  return answer;
}

// Routes of these types answer without an error.
const char* why_unusable(uint8_t type) {
  switch (type) {
    case RTN_UNICAST:
    case RTN_LOCAL:
      return nullptr;
    case RTN_BROADCAST:
    case RTN_ANYCAST:
    case RTN_MULTICAST:
      return "it is not a unicast address";
    case RTN_PROHIBIT:
      return "the route to it is of type prohibit";
    case RTN_BLACKHOLE:
      return "the route to it is of type blackhole";
    default:
      return "there is no route to it";
  }
}

NetlinkRequest make_request(const uint8_t destination[16], bool ipv4, uint32_t ifindex) {
  rtmsg fixed{};
  fixed.rtm_family = ipv4 ? AF_INET : AF_INET6;
  fixed.rtm_dst_len = ipv4 ? 32 : 128;
  NetlinkRequest request(RTM_GETROUTE, 0, &fixed, sizeof fixed);
  request.add_attribute(RTA_DST, destination + (ipv4 ? kMappedOffset : 0), ipv4 ? 4 : 16);
  if (ifindex != 0) request.add_attribute(RTA_OIF, &ifindex, sizeof ifindex);
  return request;
}

}  // namespace

Result<RouteAnswer> route_to(const uint8_t destination[16], uint32_t ifindex) {
  const bool ipv4 = is_mapped(destination);
  const std::string refused = "no path to " + text_of(destination) + ": ";
  if (!ipv4 && ifindex == 0 && destination[0] == 0xFE && (destination[1] & 0xC0) == 0x80) {
    return Status(Code::kInvalidArgument,
                  refused + "a link-local address needs the interface to leave by");
  }
  std::optional<Answer> answer;
  int error = 0;
  const Status status = netlink_ask(
      make_request(destination, ipv4, ifindex),
      [&](const NetlinkMessage& message) {
        if (!answer) answer = parse(message, ipv4);
      },
      &error);
  if (!status) {
    const bool no_path = error == ENETUNREACH || error == EHOSTUNREACH || error == EACCES ||
                         error == EINVAL || error == ENODEV;
    return Status(no_path ? Code::kUnreachable : Code::kDevice,
                  refused + std::strerror(error) + "; see ip route get " + text_of(destination));
  }
  if (!answer) return Status(Code::kDevice, refused + "the kernel's answer has no route");
  if (const char* reason = why_unusable(answer->type); reason != nullptr) {
    return Status(Code::kUnreachable,
                  refused + reason + "; see ip route get " + text_of(destination));
  }
  if (!answer->has_source || answer->route.ifindex == 0) {
    return Status(Code::kUnreachable, refused + "the route has no interface or no source address");
  }
  if (answer->route.mtu_bytes == 0) {
    answer->route.mtu_bytes = read_interface(answer->route.ifindex).mtu_bytes;
  }
  return answer->route;
}

}  // namespace roce::soft

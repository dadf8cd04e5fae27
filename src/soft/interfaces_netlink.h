// rtnetlink requests, and answers read with bounds.
#ifndef ROCE_SOFT_INTERFACES_NETLINK_H_
#define ROCE_SOFT_INTERFACES_NETLINK_H_

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "roce/status.h"

namespace roce::soft {

/// One answer: its type and what follows the netlink header.
struct NetlinkMessage {
  uint16_t type;
  std::span<const uint8_t> body;

  /// The fixed structure at the start of the body, all zero if the body is shorter.
  template <typename T>
  T fixed() const {
    T value{};
    if (body.size() >= sizeof(T)) std::memcpy(&value, body.data(), sizeof(T));
    return value;
  }
};

/// Value of the first attribute of this type in a run of attributes; empty if there is none.
std::span<const uint8_t> find_attribute(std::span<const uint8_t> attributes, uint16_t type);

/// Attributes that follow a fixed structure of fixed_bytes in a message.
std::span<const uint8_t> attributes_after(const NetlinkMessage& message, size_t fixed_bytes);

/// An attribute as a 32-bit number, `otherwise` if it is shorter than four bytes.
uint32_t attribute_u32(std::span<const uint8_t> value, uint32_t otherwise);

/// A request in the making: header, fixed structure, attributes.
class NetlinkRequest {
 public:
  NetlinkRequest(uint16_t type, uint16_t flags, const void* fixed, size_t bytes);
  void add_attribute(uint16_t type, const void* value, size_t bytes);
  std::span<uint8_t> bytes() { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

/// Sends the request to the kernel and hands each answer to `take` until the last one. The status
/// is the kernel's: its errno stands in *error (0: none), so that callers can word it.
Status netlink_ask(NetlinkRequest request, const std::function<void(const NetlinkMessage&)>& take,
                   int* error);

/// Walks netlink messages in one datagram; stops where lengths do not add up. take returns false to
/// stop.
void walk_netlink(std::span<const uint8_t> datagram,
                  const std::function<bool(const nlmsghdr&, const NetlinkMessage&)>& take);

}  // namespace roce::soft

#endif  // ROCE_SOFT_INTERFACES_NETLINK_H_

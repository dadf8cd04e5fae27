// Opening the sockets of a UdpPort.
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "soft/udp_impl.h"
#include "wire/packet.h"

namespace roce::soft {
namespace {

constexpr int kSlots = 512;
// The kernel cuts a request down to rmem_max or wmem_max; asking for everything needs no look at
// /proc, which does not show these limits in every network namespace.
constexpr int kAllTheKernelGives = 0x3FFFFFFF;
constexpr int kSourcePortTries = 256;
constexpr uint32_t kMaxSendSockets = 16;  // Per family; 32 in all, the bits of Impl::pending.

std::string errno_text(int error) { return std::strerror(error); }

bool set_option(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

Status option_refused(const char* option, int error) {
  return Status(Code::kDevice, std::string("the kernel refused socket option ") + option + ": " +
                                   errno_text(error) + "; Linux 4.18 or newer is needed");
}

int buffer_request(uint32_t wanted_bytes) {
  return wanted_bytes == 0 ? kAllTheKernelGives
                           : static_cast<int>(std::min<uint32_t>(wanted_bytes, kAllTheKernelGives));
}

bool bind_port(int fd, int family, uint16_t port) {
  if (family == AF_INET6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    return bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

Descriptor open_socket(int family) {
  return Descriptor(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
}

// A NIC with RDMA may take packets to 4791 away before the kernel sees them.
bool has_rdma_nic() {
  struct if_nameindex* names = if_nameindex();
  if (names == nullptr) return false;
  bool found = false;
  for (struct if_nameindex* one = names; one->if_index != 0 && !found; ++one) {
    const std::string path = std::string("/sys/class/net/") + one->if_name + "/device/infiniband";
    found = access(path.c_str(), F_OK) == 0;
  }
  if_freenameindex(names);
  return found;
}

Status set_receive_options(int fd, bool ipv6, uint32_t buffer_bytes) {
  if (ipv6) {
    // Tells the destination of IPv4 packets as well, as an IPv4-mapped address.
    if (!set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)) {
      return option_refused("IPV6_RECVPKTINFO", errno);
    }
    if (!set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1)) {
      return option_refused("IPV6_RECVTCLASS", errno);
    }
  } else if (!set_option(fd, IPPROTO_IP, IP_PKTINFO, 1)) {
    return option_refused("IP_PKTINFO", errno);
  }
  if (!set_option(fd, IPPROTO_IP, IP_RECVTOS, 1)) return option_refused("IP_RECVTOS", errno);
  // Without GRO (before Linux 5.0) datagrams arrive one by one.
  set_option(fd, IPPROTO_UDP, UDP_GRO, 1);
  set_option(fd, SOL_SOCKET, SO_RCVBUF, buffer_request(buffer_bytes));
  return Status::ok();
}

// With a wildcard bind of both families; IPv4 alone where the kernel has no IPv6.
Result<Descriptor> open_receive_socket(bool* ipv6, uint32_t buffer_bytes) {
  Descriptor fd = open_socket(AF_INET6);
  *ipv6 = fd.get() >= 0 && set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (!*ipv6) fd = open_socket(AF_INET);
  if (fd.get() < 0) {
    return Status(Code::kUnavailable, "cannot open a UDP socket: " + errno_text(errno));
  }
  if (Status status = set_receive_options(fd.get(), *ipv6, buffer_bytes); !status) return status;
  return fd;
}

Status set_send_options(int fd, int family, const UdpPort::Options& options) {
  // Together with not being connected this makes the kernel send DF and IP ID 0, which the ICRC
  // covers.
  if (family == AF_INET) {
    if (!set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)) {
      return option_refused("IP_MTU_DISCOVER", errno);
    }
  } else {
    if (!set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) return option_refused("IPV6_V6ONLY", errno);
    if (!set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO)) {
      return option_refused("IPV6_MTU_DISCOVER", errno);
    }
  }
  set_option(fd, SOL_SOCKET, SO_SNDBUF, buffer_request(options.send_buffer_bytes));
  // Nobody reads what strangers send here: the least the kernel allows.
  set_option(fd, SOL_SOCKET, SO_RCVBUF, 0);
  return Status::ok();
}

uint16_t random_source_port() {
  uint16_t bits = 0;
  if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits) {
    // Early at boot only; any spread will do.
    static uint16_t next = static_cast<uint16_t>(getpid());
    bits = next += 7919;
  }
  return static_cast<uint16_t>(0xC000 | bits);
}

}  // namespace

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::unique_ptr<ReceiveSide>> open_receive_side(const UdpPort::Options& options, int* slot) {
  if (options.first_slot < 0 || options.first_slot >= kSlots) {
    return Status(Code::kInvalidArgument,
                  "first slot " + std::to_string(options.first_slot) + " is outside 0..511");
  }
  bool ipv6 = false;
  Result<Descriptor> fd = open_receive_socket(&ipv6, options.receive_buffer_bytes);
  if (!fd) return fd.status();
  int first = options.first_slot;
  if (first == 0 && options.avoid_rdma_port && has_rdma_nic()) first = 1;
  int error = 0;
  for (*slot = first; *slot < kSlots; ++*slot) {
    const auto port = static_cast<uint16_t>(wire::kRoceUdpPort + *slot);
    if (bind_port(fd->get(), ipv6 ? AF_INET6 : AF_INET, port)) {
      return std::make_unique<ReceiveSide>(std::move(*fd), port, ipv6);
    }
    error = errno;
    if (error != EADDRINUSE && error != EACCES && error != EPERM) break;
  }
  return Status(Code::kUnavailable, "no UDP port from " +
                                        std::to_string(wire::kRoceUdpPort + first) + " to " +
                                        std::to_string(wire::kRoceUdpPort + kSlots - 1) +
                                        " can be bound (last error: " + errno_text(error) + ")");
}

Result<std::vector<SendQueue>> open_senders(const UdpPort::Options& options, int family) {
  std::vector<SendQueue> senders;
  const uint32_t wanted = std::clamp(options.send_sockets, 1u, kMaxSendSockets);
  for (uint32_t i = 0; i < wanted; ++i) {
    Descriptor fd = open_socket(family);
    if (fd.get() < 0) {
      return Status(Code::kUnavailable, "cannot open a UDP socket: " + errno_text(errno));
    }
    if (Status status = set_send_options(fd.get(), family, options); !status) return status;
    uint16_t port = 0;
    for (int tries = 0; port == 0; ++tries) {
      const uint16_t candidate = random_source_port();
      if (bind_port(fd.get(), family, candidate)) {
        port = candidate;
      } else if (tries == kSourcePortTries) {
        return Status(Code::kUnavailable,
                      "no UDP source port from 49152 to 65535 could be bound in " +
                          std::to_string(tries) + " tries (last error: " + errno_text(errno) + ")");
      }
    }
    senders.emplace_back(std::move(fd), port, family == AF_INET);
  }
  return senders;
}

}  // namespace roce::soft

// What the UDP tests share: an ICRC of their own, and packets received as plain sockets see them.
#ifndef ROCE_TESTS_SOFT_UDP_REFERENCE_H_
#define ROCE_TESTS_SOFT_UDP_REFERENCE_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "soft/udp_port.h"

namespace roce::soft::test {

using Bytes = std::vector<uint8_t>;

// CRC-32 of IEEE 802.3, bit by bit.
inline uint32_t bitwise_crc(const Bytes& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
  }
  return ~crc;
}

inline void put16(Bytes& to, size_t value) {
  to.push_back(static_cast<uint8_t>(value >> 8));
  to.push_back(static_cast<uint8_t>(value));
}

// Annex A17.3.3: eight ones, IP and UDP headers and the packet, variant fields as ones. `datagram`
// ends in the ICRC, which is not read.
inline uint32_t reference_icrc(const wire::Flow& flow, const Bytes& datagram, uint16_t ip_id) {
  Bytes all(8, 0xFF);
  const bool ipv4 = flow.dst[10] == 0xFF;
  if (ipv4) {
    all.insert(all.end(), {0x45, 0xFF});
    put16(all, 28 + datagram.size());
    put16(all, ip_id);
    all.insert(all.end(), {0x40, 0x00, 0xFF, 17, 0xFF, 0xFF});
    all.insert(all.end(), flow.src + 12, flow.src + 16);
    all.insert(all.end(), flow.dst + 12, flow.dst + 16);
  } else {
    all.insert(all.end(), {0x6F, 0xFF, 0xFF, 0xFF});
    put16(all, 8 + datagram.size());
    all.insert(all.end(), {17, 0xFF});
    all.insert(all.end(), flow.src, flow.src + 16);
    all.insert(all.end(), flow.dst, flow.dst + 16);
  }
  put16(all, flow.src_port);
  put16(all, flow.dst_port);
  put16(all, 8 + datagram.size());
  put16(all, 0xFFFF);
  const size_t bth = all.size();
  all.insert(all.end(), datagram.begin(), datagram.end() - 4);
  all[bth + 4] = 0xFF;
  return bitwise_crc(all);
}

inline uint32_t stored_icrc(const Bytes& datagram) {
  const uint8_t* at = datagram.data() + datagram.size() - 4;
  return at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24;
}

inline Bytes with_icrc(const wire::Flow& flow, Bytes datagram, uint16_t ip_id) {
  const uint32_t icrc = reference_icrc(flow, datagram, ip_id);
  for (int i = 0; i < 4; ++i) datagram[datagram.size() - 4 + i] = icrc >> 8 * i & 0xFF;
  return datagram;
}

inline wire::Flow loopback_flow(bool ipv4, uint16_t dst_port) {
  wire::Flow flow;
  if (ipv4) {
    const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1};
    std::memcpy(flow.src, mapped, 16);
  } else {
    flow.src[15] = 1;
  }
  std::memcpy(flow.dst, flow.src, 16);
  flow.dst_port = dst_port;
  return flow;
}

/// Any header will do: the port looks at none. Byte 4 is not ones, so that its masking shows.
inline Bytes some_header(size_t bytes = 12) {
  Bytes header(bytes);
  std::iota(header.begin(), header.end(), uint8_t{0x30});
  return header;
}

/// Lives for ever: a port refers to a payload until it is flushed.
inline const Bytes& some_payload(size_t bytes, uint8_t seed = 1) {
  static std::map<std::pair<size_t, uint8_t>, Bytes> all;
  Bytes& payload = all[{bytes, seed}];
  if (payload.size() == bytes) return payload;
  payload.resize(bytes);
  uint32_t state = seed;
  for (uint8_t& byte : payload) byte = (state = state * 1664525 + 1013904223) >> 24;
  return payload;
}

/// Header, payload, pad, space for the ICRC.
inline Bytes expected_datagram(const Bytes& header, const Bytes& payload) {
  Bytes all = header;
  all.insert(all.end(), payload.begin(), payload.end());
  all.resize((all.size() + 3) / 4 * 4 + 4);
  return all;
}

/// A UDP socket without options, bound to a free port: the kernel cuts trains for it.
class PlainSocket {
 public:
  explicit PlainSocket(bool ipv4, uint16_t wanted = 0)
      : fd_(socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage address = loopback(ipv4, wanted);
    socklen_t bytes = ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    bound_ = bind(fd_, reinterpret_cast<sockaddr*>(&address), bytes) == 0;
    const int room = 4 << 20, dont_fragment = IP_PMTUDISC_DO;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (ipv4) {
      setsockopt(fd_, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof dont_fragment);
    }
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);  // sin6_port is there, too.
  }
  ~PlainSocket() { close(fd_); }
  bool bound() const { return bound_; }
  uint16_t port() const { return port_; }

  static sockaddr_storage loopback(bool ipv4, uint16_t port) {
    sockaddr_storage storage{};
    if (ipv4) {
      auto& address = reinterpret_cast<sockaddr_in&>(storage);
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(port);
    } else {
      auto& address = reinterpret_cast<sockaddr_in6&>(storage);
      address.sin6_family = AF_INET6;
      address.sin6_addr = in6addr_loopback;
      address.sin6_port = htons(port);
    }
    return storage;
  }

  bool send(bool ipv4, uint16_t port, const Bytes& datagram) {
    const sockaddr_storage to = loopback(ipv4, port);
    return sendto(fd_, datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                  ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)) ==
           static_cast<ssize_t>(datagram.size());
  }

  std::vector<Bytes> receive(size_t count) {
    std::vector<Bytes> all;
    while (all.size() < count) {
      pollfd waiting{fd_, POLLIN, 0};
      if (poll(&waiting, 1, 2000) <= 0) break;
      Bytes buffer(65536);
      const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
      if (got < 0) break;
      buffer.resize(got);
      all.push_back(std::move(buffer));
    }
    return all;
  }
  /// What waits now.
  std::vector<Bytes> receive_waiting() {
    std::vector<Bytes> all;
    while (!nothing_waits()) {
      const std::vector<Bytes> one = receive(1);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  bool nothing_waits() {
    pollfd waiting{fd_, POLLIN, 0};
    return poll(&waiting, 1, 0) == 0;
  }

 private:
  int fd_;
  uint16_t port_ = 0;
  bool bound_ = false;
};

/// A received datagram, copied out of its buffer.
struct Datagram {
  Bytes bytes;
  wire::Flow flow;
  uint8_t tos;
  bool icrc_ok;
};

inline std::vector<Datagram> receive_all(UdpPort& port, size_t count, bool foreign = false) {
  std::vector<Datagram> all;
  while (all.size() < count) {
    pollfd waiting{port.receive_fd(), POLLIN, 0};
    if (poll(&waiting, 1, 2000) <= 0) break;
    for (const ReceivedBuffer& buffer : port.receive()) {
      for (uint32_t i = 0; i * buffer.segment_bytes < buffer.bytes; ++i) {
        const uint8_t* start = buffer.data + i * buffer.segment_bytes;
        const uint8_t* end = std::min(start + buffer.segment_bytes, buffer.data + buffer.bytes);
        all.push_back(
            {Bytes(start, end), buffer.flow, buffer.tos, port.icrc_ok(buffer, i, foreign)});
      }
    }
  }
  return all;
}

inline bool add(UdpPort& port, Route& route, const Bytes& payload, bool copy = false,
                const Bytes& header = some_header()) {
  const iovec piece{const_cast<uint8_t*>(payload.data()), payload.size()};
  return port.add(route, route.tos, header, {&piece, 1}, static_cast<uint32_t>(payload.size()),
                  copy);
}

inline std::unique_ptr<UdpPort> open_port(int first_slot = 0) {
  auto port = UdpPort::open({.first_slot = first_slot});
  EXPECT_TRUE(port) << port.status().text();
  return port ? std::move(*port) : nullptr;
}

inline Route route_to_port(UdpPort& port, bool ipv4, uint16_t dst_port, uint32_t hash = 0) {
  Route route;
  route.flow = loopback_flow(ipv4, dst_port);
  route.tos = 106;
  port.assign_source(route, hash);
  return route;
}

/// Runs `body` in a child with a network namespace of its own that has two ends of one cable, va
/// (10.77.0.1) and vb, and a neighbour 10.77.0.2 that never answers. Returns the child's exit
/// status; 77: no namespace may be made here.
inline int run_in_namespace(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0 ||
        system("ip link set lo up") != 0) {
      _exit(77);
    }
    const bool ready = system(
                           "ip link add va type veth peer name vb && ip link set va up && "
                           "ip link set vb up && ip address add 10.77.0.1/24 dev va") == 0;
    _exit(ready ? body() : 99);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline Route route_to_neighbour(UdpPort& port, uint8_t hop_limit) {
  Route route;
  route.flow = loopback_flow(true, 4791);
  const uint8_t source[4] = {10, 77, 0, 1}, destination[4] = {10, 77, 0, 2};
  std::memcpy(route.flow.src + 12, source, 4);
  std::memcpy(route.flow.dst + 12, destination, 4);
  route.tos = 106;
  route.hop_limit = hop_limit;
  port.assign_source(route, 0);
  return route;
}

}  // namespace roce::soft::test

#endif  // ROCE_TESTS_SOFT_UDP_REFERENCE_H_

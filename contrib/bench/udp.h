// Shared by the raw UDP programs: addresses, sockets as the software device makes them, pinning,
// time.
//
// Sockets are unconnected, non-blocking, with IP_PMTUDISC_DO (the kernel then sends IP ID 0 and
// never fragments). They are bound to loopback or to an address given on the command line, never to
// all addresses. A fault ends the program with one line and status 1.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace bench {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void die(const std::string& what, int error = 0) {
  std::fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what.c_str(),
               error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "");
  std::exit(1);
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline long parse_number(const char* text, long lowest, long highest, const char* option) {
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || number < lowest || number > highest) {
    die(std::string(option) + " takes a number from " + std::to_string(lowest) + " to " +
        std::to_string(highest) + ", not \"" + text + "\"");
  }
  return number;
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  in_port_t& port() {
    return family() == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                                : reinterpret_cast<sockaddr_in*>(&storage)->sin_port;
  }
};

// "10.0.0.1", "10.0.0.1:5000", "fd00::1", "[fd00::1]:5000"; names are not resolved.
inline Address parse_address(std::string text, int default_port) {
  int port = default_port;
  const std::size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  if (colon != std::string::npos &&
      (bracketed ? text[colon - 1] == ']' : text.find(':') == colon)) {
    port = static_cast<int>(parse_number(text.c_str() + colon + 1, 0, 65535, "a port"));
    text.resize(colon);
  }
  if (bracketed && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    address.length = sizeof *v4;
    if (v4->sin_addr.s_addr == INADDR_ANY) die("give one address of this host, not 0.0.0.0");
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    address.length = sizeof *v6;
    if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)) die("give one address of this host, not ::");
  } else {
    die("\"" + text + "\" is not an IPv4 or IPv6 address");
  }
  address.port() = htons(static_cast<in_port_t>(port));
  return address;
}

// local: bound to it (port 0: any), and on return holds the port. nullptr: any address of the
// family, chosen by the route.
inline int open_socket(int family, Address* local) {
  const int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket", errno);
  const int probe = IP_PMTUDISC_DO;
  const bool v6 = family == AF_INET6;
  if (setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
                 &probe, sizeof probe) != 0) {
    die("setsockopt IP_MTU_DISCOVER", errno);
  }
  // The kernel takes what rmem_max and wmem_max allow.
  const int wanted = 16 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
  if (local != nullptr) {
    if (bind(fd, local->get(), local->length) != 0) die("bind", errno);
    if (getsockname(fd, local->get(), &local->length) != 0) die("getsockname", errno);
  }
  return fd;
}

// cpu < 0: leave it to the scheduler.
inline void pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu) % static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) die("sched_setaffinity", errno);
}

inline std::string send_error(int error, std::size_t bytes) {
  if (error != EMSGSIZE) return std::string("send: ") + std::strerror(error);
  return "datagrams of " + std::to_string(bytes) +
         " bytes do not fit the interface's MTU; use a smaller -s";
}

}  // namespace bench

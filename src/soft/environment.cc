#include "soft/environment.h"

#include <arpa/inet.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace roce::soft {
namespace {

constexpr long kMaxSlot = 511;
constexpr long kMaxReceiveBufferBytes = 1 << 30;
constexpr long kMaxMemlockBytes = 1L << 50;
constexpr size_t kMaxListBytes = 4096;

std::string text_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return {};
  if (std::strlen(value) > kMaxListBytes) {
    std::fprintf(stderr, "mpi-roce: %s is longer than %zu bytes and is ignored\n", name,
                 kMaxListBytes);
    return {};
  }
  return value;
}

/// 0 if not set, or out of range: then `otherwise` says on stderr what is done instead.
long number_variable(const char* name, long most, const char* otherwise) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return 0;
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(value, &end, 10);
  if (errno != 0 || *end != '\0' || number < 0 || number > most) {
    std::fprintf(stderr, "mpi-roce: %s=%.40s is not a number from 0 to %ld; %s\n", name, value,
                 most, otherwise);
    return 0;
  }
  return number;
}

/// Parses an IPv4 or IPv6 address into its 16-byte form; returns the number of prefix bits that
/// come before the address itself (96 for IPv4), -1 if malformed.
int parse_address(const std::string& text, uint8_t out[16]) {
  std::memset(out, 0, 16);
  if (inet_pton(AF_INET6, text.c_str(), out) == 1) return 0;
  out[10] = out[11] = 0xFF;
  return inet_pton(AF_INET, text.c_str(), out + 12) == 1 ? 96 : -1;
}

bool same_prefix(const uint8_t* a, const uint8_t* b, int bits) {
  if (std::memcmp(a, b, static_cast<size_t>(bits / 8)) != 0) return false;
  const int rest = bits % 8;
  return rest == 0 || ((a[bits / 8] ^ b[bits / 8]) >> (8 - rest)) == 0;
}

bool element_matches(std::string_view element, const Interface& interface) {
  const size_t slash = element.find('/');
  if (slash == std::string_view::npos) return element == interface.name;
  uint8_t prefix[16];
  const int base = parse_address(std::string(element.substr(0, slash)), prefix);
  const std::string_view digits = element.substr(slash + 1);
  int bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (error != std::errc() || end != digits.data() + digits.size()) return false;
  if (base < 0 || bits < 0 || base + bits > 128) return false;
  for (const Gid& gid : interface.gids) {
    if (same_prefix(gid.bytes, prefix, base + bits)) return true;
  }
  return false;
}

}  // namespace

Options options_from_environment() {
  Options options;
  options.interface_include = text_variable("ROCE_SOFT_IF_INCLUDE");
  options.interface_exclude = text_variable("ROCE_SOFT_IF_EXCLUDE");
  options.first_slot = static_cast<int>(
      number_variable("ROCE_SOFT_FIRST_SLOT", kMaxSlot, "slot 0 (UDP port 4791) is used"));
  options.receive_buffer_bytes =
      static_cast<uint32_t>(number_variable("ROCE_SOFT_RECEIVE_BUFFER", kMaxReceiveBufferBytes,
                                            "the buffer is as large as net.core.rmem_max allows"));
  options.memlock_bytes = static_cast<uint64_t>(
      number_variable("ROCE_SOFT_MEMLOCK", kMaxMemlockBytes, "registered memory is not limited"));
  return options;
}

bool list_matches(const std::string& list, const Interface& interface) {
  std::string_view rest = list;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    if (element_matches(rest.substr(0, comma), interface)) return true;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return false;
}

bool interface_allowed(const Options& options, const Interface& interface) {
  if (!options.interface_include.empty()) return list_matches(options.interface_include, interface);
  return !list_matches(options.interface_exclude, interface);
}

}  // namespace roce::soft

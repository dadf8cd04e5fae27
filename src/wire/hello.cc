#include "wire/hello.h"

#include <cstring>

#include "wire/bytes.h"

namespace roce::wire {
namespace {

constexpr char kMagic[] = {'m', 'p', 'i', '-', 'r', 'o', 'c', 'e'};
constexpr uint8_t kVersion = 1;
constexpr uint32_t kQpnMask = 0xFFFFFF;

}  // namespace

void build_hello(const Hello& hello, std::span<uint8_t, kHelloBytes> out) {
  uint8_t* at = out.data();
  std::memcpy(at, kMagic, sizeof kMagic);
  at[8] = kVersion;
  at[9] = static_cast<uint8_t>(hello.kind);
  store_be16(at + 10, hello.udp_port);
  store_be32(at + 12, hello.capabilities);
  store_be32(at + 16, hello.receive_budget_bytes);
  store_be32(at + 20, hello.from_qpn & kQpnMask);
  store_be32(at + 24, hello.to_qpn & kQpnMask);
  store_be32(at + 28, 0);
  store_be64(at + 32, hello.nonce);
}

std::optional<Hello> parse_hello(std::span<const uint8_t> payload) {
  const uint8_t* at = payload.data();
  if (payload.size() < kHelloBytes || std::memcmp(at, kMagic, sizeof kMagic) != 0) return {};
  // Later versions keep these fields, so that a peer of any version can answer.
  if (at[8] < kVersion) return {};
  if (at[9] < static_cast<uint8_t>(HelloKind::kHello) ||
      at[9] > static_cast<uint8_t>(HelloKind::kGrant)) {
    return {};
  }
  Hello hello;
  hello.kind = static_cast<HelloKind>(at[9]);
  hello.udp_port = load_be16(at + 10);
  hello.capabilities = load_be32(at + 12);
  hello.receive_budget_bytes = load_be32(at + 16);
  hello.from_qpn = load_be24_of32(at + 20);
  hello.to_qpn = load_be24_of32(at + 24);
  hello.nonce = load_be64(at + 32);
  return hello;
}

}  // namespace roce::wire

// The IPv4 identification inside the ICRC, by arithmetic in GF(2)[x] modulo the CRC polynomial P.
//
// With the two bytes of the identification as a polynomial M of degree below 16, and n bytes
// between them and the ICRC, changing the identification from 0 changes the ICRC by M x^(32 + 8n)
// mod P. P is primitive, so x has an inverse: an ICRC difference times x^-(32 + 8n) is the
// identification again if and only if its degree is below 16. One multiplication answers either
// way.
#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/icrc.h"

namespace roce::wire {
namespace {

// Polynomials are reflected, as in the register: bit 31 is the coefficient of x^0, bit 0 that of
// x^31.
constexpr uint32_t kOne = 0x80000000;
constexpr uint32_t kX = 0x40000000;
constexpr uint32_t kReflectedPolynomial = 0xEDB88320;
constexpr uint32_t kOrderOfX = 0xFFFFFFFF;  // x^(2^32 - 1) == 1: P is primitive.

constexpr uint32_t times_x(uint32_t a) {
  return (a >> 1) ^ (kReflectedPolynomial & (0u - (a & 1)));
}

// Takes as many steps as the degree of a needs.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    product ^= b & (0u - (a >> 31));
    b = times_x(b);
  }
  return product;
}

// x^(2^i)
constexpr std::array<uint32_t, 32> make_squares() {
  std::array<uint32_t, 32> squares{};
  uint32_t power = kX;
  for (uint32_t& square : squares) {
    square = power;
    power = multiply(power, power);
  }
  return squares;
}
constexpr std::array<uint32_t, 32> kSquares = make_squares();

constexpr uint32_t x_to_the(uint32_t exponent) {
  uint32_t power = kOne;
  for (size_t i = 0; i < kSquares.size(); ++i) {
    if (exponent >> i & 1) power = multiply(power, kSquares[i]);
  }
  return power;
}
static_assert(x_to_the(kOrderOfX) == kOne);

// Bytes after the identification: 14 of the IPv4 header, 8 of UDP, and the UDP payload without the
// ICRC.
constexpr size_t kBytesAfterIdWithoutPayload = 14 + 8 - 4;

struct Factors {
  uint32_t udp_payload_bytes = 0;
  uint32_t shift = 0;    // x^(32 + 8n)
  uint32_t unshift = 0;  // its inverse
};

// A process sees few datagram lengths, so a small direct-mapped cache per thread nearly always hits
// (a miss costs about a microsecond).
const Factors& factors(size_t udp_payload_bytes) {
  static constexpr size_t kEntries = 256;
  thread_local std::array<Factors, kEntries> cache;
  Factors& entry = cache[udp_payload_bytes / 4 % kEntries];
  if (entry.udp_payload_bytes != udp_payload_bytes) {
    const auto exponent =
        static_cast<uint32_t>(32 + 8 * (kBytesAfterIdWithoutPayload + udp_payload_bytes));
    entry = {static_cast<uint32_t>(udp_payload_bytes), x_to_the(exponent),
             x_to_the(kOrderOfX - exponent)};
  }
  return entry;
}

}  // namespace

uint32_t icrc_id_delta(uint16_t ip_id, size_t udp_payload_bytes) {
  const uint32_t id = static_cast<uint32_t>(__builtin_bswap16(ip_id)) << 16;
  return id == 0 ? 0 : multiply(id, factors(udp_payload_bytes).shift);
}

int32_t icrc_id_of(uint32_t difference, size_t udp_payload_bytes) {
  if (difference == 0) return 0;
  const uint32_t id = multiply(difference, factors(udp_payload_bytes).unshift);
  if (id & 0xFFFF) return -1;
  return __builtin_bswap16(static_cast<uint16_t>(id >> 16));
}

bool icrc_id_matches(uint32_t difference, size_t udp_payload_bytes, uint32_t limit) {
  const int32_t id = icrc_id_of(difference, udp_payload_bytes);
  return id >= 0 && static_cast<uint32_t>(id) < limit;
}

}  // namespace roce::wire

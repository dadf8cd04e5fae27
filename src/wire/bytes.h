// Big-endian loads and stores of 1 to 8 bytes at any alignment. Every field of the wire but the
// ICRC goes through these.
#ifndef ROCE_WIRE_BYTES_H_
#define ROCE_WIRE_BYTES_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace roce::wire {

static_assert(std::endian::native == std::endian::little,
              "the byte order conversions below are written for little-endian hosts");

inline uint16_t load_be16(const uint8_t* in) {
  uint16_t value;
  std::memcpy(&value, in, sizeof value);
  return __builtin_bswap16(value);
}
inline uint32_t load_be32(const uint8_t* in) {
  uint32_t value;
  std::memcpy(&value, in, sizeof value);
  return __builtin_bswap32(value);
}
inline uint64_t load_be64(const uint8_t* in) {
  uint64_t value;
  std::memcpy(&value, in, sizeof value);
  return __builtin_bswap64(value);
}

/// The lower 24 bits of the four bytes at `in`: a field of 8 + 24 bits without its first byte.
inline uint32_t load_be24_of32(const uint8_t* in) { return load_be32(in) & 0xFFFFFF; }

inline void store_be16(uint8_t* out, uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(out, &value, sizeof value);
}
inline void store_be32(uint8_t* out, uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(out, &value, sizeof value);
}
inline void store_be64(uint8_t* out, uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(out, &value, sizeof value);
}

/// Four bytes without conversion: immediate data.
inline uint32_t load_raw32(const uint8_t* in) {
  uint32_t value;
  std::memcpy(&value, in, sizeof value);
  return value;
}
inline void store_raw32(uint8_t* out, uint32_t value) { std::memcpy(out, &value, sizeof value); }

}  // namespace roce::wire

#endif  // ROCE_WIRE_BYTES_H_

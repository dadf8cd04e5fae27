// The 16 bytes in front of every message of the transport, little-endian:
//   0  mark: 0xB0 | version
//   1  kind
//   2  tag (the adapter's)
//   3  reserved, zero
//   4  length of the message, bytes
//   8  endpoint: index of the sender in the receiver's table, as told in the handshake; a receive
//      from a shared queue finds its endpoint by it
//  12  consumed: messages that the sender of this header has consumed from its peer, modulo 2^16
//  14  window: messages that it lets its peer have unconsumed
// A credit message is a header alone: it does not count against the window.
#ifndef ROCE_TRANSPORT_HEADER_H_
#define ROCE_TRANSPORT_HEADER_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace roce::transport {

static_assert(std::endian::native == std::endian::little,
              "headers are stored by copying little-endian words");

inline constexpr uint32_t kHeaderBytes = 16;
inline constexpr uint8_t kHeaderMark = 0xB1;

enum class MessageKind : uint8_t { kMessage = 1, kCredit = 2 };

struct MessageHeader {
  uint8_t mark = kHeaderMark;
  MessageKind kind = MessageKind::kMessage;
  uint8_t tag = 0;
  uint8_t reserved = 0;
  uint32_t length = 0;
  uint32_t endpoint = 0;
  uint16_t consumed = 0;
  uint16_t window = 0;
};
static_assert(sizeof(MessageHeader) == kHeaderBytes);

inline void store_header(uint8_t* out, const MessageHeader& header) {
  std::memcpy(out, &header, kHeaderBytes);
}

/// False: not a header of this version, or its length is not that of the received message.
inline bool load_header(const uint8_t* in, uint32_t received_bytes, MessageHeader* header) {
  if (received_bytes < kHeaderBytes) {
    return false;
  }
  std::memcpy(header, in, kHeaderBytes);
  return header->mark == kHeaderMark && header->length == received_bytes - kHeaderBytes &&
         (header->kind == MessageKind::kMessage ||
          (header->kind == MessageKind::kCredit && header->length == 0));
}

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_HEADER_H_

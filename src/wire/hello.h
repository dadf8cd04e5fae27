// What two software devices tell each other about themselves, where programs connect them by plain
// verbs and so cannot: HELLO asks, ANSWER replies; and GRANT, by which one that many send to tells
// each how much of its receive memory it may use. All are the payload of an ordinary UD SEND Only
// to the queue pair number that each process keeps for it, so that any other device drops them.
#ifndef ROCE_WIRE_HELLO_H_
#define ROCE_WIRE_HELLO_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace roce::wire {

/// Q_Key of all.
inline constexpr uint32_t kHelloQkey = 0x726F6365;
/// Bytes of the layout below; a later version may append to it.
inline constexpr size_t kHelloBytes = 40;

enum class HelloKind : uint8_t { kHello = 1, kAnswer = 2, kGrant = 3 };

/// On the wire, everything big-endian: magic "mpi-roce" (8 bytes), version 1 (1), kind (1),
/// udp_port (2), capabilities (4), receive_budget_bytes (4), from_qpn (4), to_qpn (4), reserved
/// (4), nonce (8).
struct Hello {
  HelloKind kind = HelloKind::kHello;
  uint16_t udp_port = 0;              ///< Of the sender's receive socket.
  uint32_t capabilities = 0;          ///< Bits as in soft.h.
  uint32_t receive_budget_bytes = 0;  ///< Kernel receive memory that senders may use together.
  uint32_t from_qpn = 0;              ///< 24 bits: the sender's queue pair,
  uint32_t to_qpn = 0;                ///< 24 bits: and the one that it is being connected to.
  uint64_t nonce = 0;  ///< Random; an ANSWER carries that of its HELLO. GRANT: a number that grows,
                       ///< so that the newest counts.
};

void build_hello(const Hello& hello, std::span<uint8_t, kHelloBytes> out);
/// Empty: not a HELLO or ANSWER, or none that this version understands.
std::optional<Hello> parse_hello(std::span<const uint8_t> payload);

}  // namespace roce::wire

#endif  // ROCE_WIRE_HELLO_H_

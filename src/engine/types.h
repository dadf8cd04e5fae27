// Values that go into and come out of a queue pair of src/engine.
//
// The engine is the RoCE v2 transport protocol without I/O: it never touches payload, sockets,
// clocks, threads, and allocates only where a queue pair is created and where its attributes are
// set. Payload is described by references and placements, which the driver (socket layer, simulator
// or unit test) carries out in the order in which it gets them. Time is an argument. Rules:
// InfiniBand specification volume 1, chapters 9 and 10.
#ifndef ROCE_ENGINE_TYPES_H_
#define ROCE_ENGINE_TYPES_H_

#include <cstdint>
#include <span>

#include "wire/packet.h"

namespace roce::engine {

/// Nanoseconds on the driver's monotonic clock.
using TimeNs = uint64_t;
inline constexpr TimeNs kNever = UINT64_MAX;

/// One element of a scatter/gather list; same layout as ibv_sge. The engine adds up lengths and
/// hands the elements back; addresses and keys mean something to the driver only.
struct Sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};

/// Most READ and atomic requests outstanding in either direction; larger attributes are taken as
/// this.
inline constexpr uint32_t kMaxRdAtomic = 128;

enum class QpType : uint8_t { kRc, kUd };
enum class QpState : uint8_t {
  kReset,
  kInit,
  kRtr,
  kRts,
  kSqd,
  kSqe,
  kErr
};  ///< Values of enum ibv_qp_state.

enum class WrOpcode : uint8_t {  ///< Values of enum ibv_wr_opcode.
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kSendInvalidate = 9,
};

enum class WcStatus : uint8_t {  ///< Values of enum ibv_wc_status.
  kSuccess = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalProtection = 4,
  kFlushed = 5,
  kBadResponse = 7,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
};

enum Access : unsigned {  ///< Values of enum ibv_access_flags.
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
};

struct SendRequest {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool inlined = false;  ///< The driver holds the bytes; sges then describe its copy.
  uint32_t imm = 0;      ///< Wire order; kSendInvalidate: the rkey.
  // What a UD request has instead of an RC one stands second: `address` is the driver's address
  // handle, given back in OutPacket.
  union {
    uint32_t rkey = 0;
    uint32_t remote_qpn;
  };
  union {
    uint64_t remote_addr = 0;
    uint64_t address;
  };
  union {
    uint64_t compare_add = 0;
    uint32_t remote_qkey;
  };
  uint64_t swap = 0;
  std::span<const Sge> sges;  ///< Copied by post_send; at most max_send_sge.
};

struct RecvRequest {
  uint64_t wr_id = 0;
  std::span<const Sge> sges;
};

enum class WcOpcode : uint8_t {  ///< Values of enum ibv_wc_opcode.
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kRecv = 128,
  kRecvWithImm = 129,
};

struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  bool is_recv = false;
  bool has_imm = false;
  bool has_grh = false;      ///< UD: the first 40 bytes of the receive buffer hold the GRH.
  bool invalidated = false;  ///< imm holds the rkey that the peer's send invalidated.
  bool solicited = false;    ///< The message that completed a receive asked for a solicited event;
                             ///< errors count as solicited.
  uint32_t byte_len = 0;
  uint32_t imm = 0;
  uint32_t src_qpn = 0;  ///< UD.
};

/// Where the payload of an outgoing packet comes from.
struct PayloadRef {
  enum class Kind : uint8_t {
    kNone,
    kSendQueue,     ///< Bytes [offset, offset + length) of the scatter list `sges`.
    kRemoteRegion,  ///< READ response: [va, va + length) of the region `rkey`; key, range and
                    ///< access are to be checked for each packet.
  };
  Kind kind = Kind::kNone;
  uint32_t length = 0;
  std::span<const Sge> sges;
  uint64_t offset = 0;
  uint32_t rkey = 0;
  uint64_t va = 0;
};

struct OutPacket {
  wire::Header header;
  PayloadRef payload;
  bool resend =
      false;  ///< Was sent before: the driver copies the payload before it computes the ICRC.
  bool inlined = false;  ///< The payload is the driver's own copy already.
  uint64_t address = 0;  ///< UD: SendRequest::address.
};

/// Where the payload of an accepted packet goes.
struct Placement {
  enum class Kind : uint8_t {
    kNone,
    kScatter,  ///< Receive buffer or local buffer of a READ or atomic: from `offset` of the scatter
               ///< list `sges`.
    kRemoteRegion,  ///< RDMA WRITE: to [va, va + length) of the region `rkey`, which has been
                    ///< checked.
  };
  Kind kind = Kind::kNone;
  uint32_t length = 0;
  std::span<const Sge> sges;
  uint64_t offset = 0;
  uint32_t rkey = 0;
  uint64_t va = 0;
  bool is_atomic_original =
      false;         ///< No payload: place header.atomic_original (8 bytes, host order) instead.
  bool grh = false;  ///< UD: the driver also writes the 40-byte GRH at offset 0.
};

/// An atomic operation to be carried out on local memory; then QueuePair::handle_atomic_result
/// before any other packet of that queue pair.
struct AtomicOperation {
  bool valid = false;
  bool is_compare_swap = false;
  uint32_t rkey = 0;
  uint64_t va = 0;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
};

/// Why a packet had no effect; every reason is counted.
enum class Drop : uint8_t {
  kNone,
  kBadState,       ///< The queue pair is not ready to receive.
  kBadOpcode,      ///< Not an opcode of this queue pair type.
  kDuplicate,      ///< Seen before (answered again where the rules say so).
  kOutOfSequence,  ///< Beyond the expected PSN (answered by one NAK).
  kStaleAck,       ///< Acknowledges nothing that is outstanding.
  kNoReceive,      ///< No receive work request: RNR NAK, or UD drop.
  kBadQkey,
  kBadLength,
  kRefused,  ///< Answered by a NAK that ends the connection.
  kCount,
};

/// A packet that came before its turn, of a peer's request or of a response.
enum class Keep : uint8_t { kNone, kRequest, kResponse };

/// What the driver has to do for a packet that handle_packet has taken.
struct Effects {
  Drop drop = Drop::kNone;
  /// Not kNone: the packet is wanted later. A driver that has room copies header and payload, calls
  /// QueuePair::keep and hands the copy to handle_packet when take_kept says so. One that does not
  /// has dropped it.
  Keep keep = Keep::kNone;
  Placement placement;
  AtomicOperation atomic;
  uint32_t invalidate_rkey =
      0;  ///< Not 0: this region's key becomes invalid (send with invalidate).
};

/// What a driver answers about memory. Called inside handle_packet and post calls; must not call
/// back into the queue pair.
class Memory {
 public:
  virtual ~Memory() = default;
  /// Whether the region `rkey` of this queue pair's protection domain covers [va, va + length) with
  /// all of `access`. length 0: always true.
  virtual bool remote_ok(uint32_t rkey, uint64_t va, uint64_t length, unsigned access) const = 0;
  /// Whether all elements lie in regions of their lkeys (with kLocalWrite if write).
  virtual bool local_ok(std::span<const Sge> sges, bool write) const = 0;
};

/// Asynchronous events of a queue pair, a bit mask.
enum Event : unsigned {
  kEventCommEstablished = 1,
  kEventFatal = 2,         ///< Local catastrophic error (IBV_EVENT_QP_FATAL).
  kEventAccessError = 4,   ///< Responder side, IBV_EVENT_QP_ACCESS_ERR.
  kEventRequestError = 8,  ///< Responder side, IBV_EVENT_QP_REQ_ERR.
  kEventSqDrained = 16,
  kEventLastWqeReached = 32,
};

/// Counters, one set per device; names as on NICs where those have them.
struct Counters {
  uint64_t tx_packets = 0, rx_packets = 0;
  uint64_t tx_payload_bytes = 0, rx_payload_bytes = 0;
  uint64_t resent_packets = 0;
  uint64_t acks_sent = 0, acks_received = 0;
  uint64_t packet_seq_err = 0;   ///< NAK sequence errors received.
  uint64_t out_of_sequence = 0;  ///< Packets beyond the expected PSN seen.
  uint64_t kept_packets = 0;     ///< Those of them, and of READ responses, that were kept.
  uint64_t selective_acks_sent = 0, selective_acks_received = 0;
  uint64_t repairs = 0;  ///< Rounds of sending again only what is missing.
  uint64_t duplicate_request = 0;
  uint64_t implied_nak_seq_err = 0;
  uint64_t local_ack_timeout_err = 0;  ///< Timeouts that counted as a retry.
  uint64_t adaptive_resends = 0;       ///< Resends inside one timeout unit.
  uint64_t rnr_naks_sent = 0, rnr_naks_received = 0;
  uint64_t remote_access_errors = 0, remote_invalid_requests = 0, remote_operation_errors = 0;
  uint64_t retry_exceeded = 0, rnr_retry_exceeded = 0;
  uint64_t cnps_received = 0, ce_packets = 0;
  uint64_t drops[static_cast<int>(Drop::kCount)] = {};
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_TYPES_H_

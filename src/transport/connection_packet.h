// The packets of the connection handshake, carried by UD SEND between control queue pairs.
//
// Little-endian, versioned. All but refusals fit kSmallestPathBytes, the smallest path MTU of RoCE;
// a refusal is cut to the path MTU, at most kMaxPacketBytes.
//   0  magic "RoCM"        4  version           6  type             7  reserved, zero
//   8  job cookie         16  sender {job, rank}                   24  receiver {job, rank}
//  32  sender's incarnation                     40  connection id
//  48  sender's control Q_Key                   52  bytes of the body
//  54  sender's rail, GID; receiver's rail, GID (indices in their address blobs)
//  58  reserved, zero
//  64  body: kRequest, kReply: an Offer (kOfferBytes), and in a request a part of the sender's
//  address
//      blob (request_address.h);
//      kRefuse: the reason as text; else empty
// The first 64 bytes and kRefuse are the same in all versions, so that a process can tell one of
// another version why it is refused. Parsing accepts any bytes.
#ifndef ROCE_TRANSPORT_CONNECTION_PACKET_H_
#define ROCE_TRANSPORT_CONNECTION_PACKET_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "roce/status.h"
#include "roce/transport.h"

namespace roce::transport {

inline constexpr uint16_t kHandshakeVersion = 1;
inline constexpr size_t kSmallestPathBytes = 256;
inline constexpr size_t kMaxPacketBytes = 1024;
inline constexpr size_t kPacketHeaderBytes = 64;
inline constexpr size_t kOfferBytes = 48;
inline constexpr size_t kMaxReasonBytes = 600;

enum class PacketType : uint8_t {
  kRequest = 1,   ///< "I want to connect": offer and address blob.
  kReply = 2,     ///< "My queue pair takes yours": offer.
  kReady = 3,     ///< "Mine takes yours too, send."
  kRefuse = 4,    ///< "No, because..."
  kClose = 5,     ///< "I shall send and receive no more."
  kCloseAck = 6,  ///< "Understood."
};
const char* packet_type_name(PacketType type);

/// Which rail and GID of each side a connection uses, seen from one of them.
struct PathPair {
  uint8_t local_rail = 0, local_gid = 0;
  uint8_t remote_rail = 0, remote_gid = 0;
  bool operator==(const PathPair&) const = default;
  PathPair reversed() const { return {remote_rail, remote_gid, local_rail, local_gid}; }
};

/// What one side brings to a connection.
struct Offer {
  uint32_t qpn = 0;                ///< Its queue pair.
  uint32_t psn = 0;                ///< First PSN it sends.
  uint32_t endpoint = 0;           ///< To be put into the headers of messages to it.
  uint32_t mtu_bytes = 0;          ///< Largest path MTU it takes.
  uint32_t window_bytes = 0;       ///< What the other may have unconsumed at it,
  uint16_t window_messages = 0;    ///< the same in messages.
  uint8_t traffic_class = 0;       ///< It would use.
  uint8_t roce_version = 2;        ///< GID type: 1 or 2.
  uint32_t max_message_bytes = 0;  ///< Size of its receive buffers without headers.
  uint16_t reads_as_target = 0;    ///< RDMA READs it serves at a time.
  uint16_t reads_as_origin = 0;    ///< RDMA READs it keeps outstanding.
  uint16_t udp_port = 4791;        ///< Hints about its device, see soft::PeerHints.
  uint32_t capabilities = 0;
  uint32_t receive_budget_bytes = 0;
  uint32_t max_path_mtu_bytes = 0;
};

struct ConnectionPacket {
  uint16_t version = kHandshakeVersion;
  PacketType type = PacketType::kRequest;
  uint64_t job_cookie = 0;
  ProcessName from, to;
  uint64_t incarnation = 0;    ///< Of the sending process: grows when a process is started anew.
  uint64_t connection_id = 0;  ///< Chosen by who sends the request.
  uint32_t control_qkey = 0;
  PathPair path;  ///< From the sender's point of view.
  Offer offer;
  std::vector<uint8_t> blob;
  std::string reason;
};

/// A reason is cut so that the packet has at most `max_bytes`.
std::vector<uint8_t> encode_packet(const ConnectionPacket& packet,
                                   size_t max_bytes = kMaxPacketBytes);
/// kProtocol with a sentence for anything that encode_packet does not make. A packet of another
/// version is returned with its header alone (a kRefuse whole): the caller compares versions.
Result<ConnectionPacket> decode_packet(std::span<const uint8_t> bytes);

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_CONNECTION_PACKET_H_

#include "transport/connection_packet.h"

#include <algorithm>
#include <cstring>

namespace roce::transport {
namespace {

constexpr uint32_t kMagic = 0x4D436F52;  // "RoCM"

/// Writes little-endian words one after the other.
class Writer {
 public:
  explicit Writer(std::vector<uint8_t>& out) : out_(out) {}
  template <typename T>
  void put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  template <typename Bytes>
  void put_bytes(const Bytes& bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

 private:
  std::vector<uint8_t>& out_;
};

/// Reads them back; the caller has checked the length.
class Reader {
 public:
  explicit Reader(const uint8_t* in) : in_(in) {}
  template <typename T>
  void get(T& value) {
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      sum |= uint64_t{in_[i]} << (8 * i);
    }
    value = static_cast<T>(sum);
    in_ += sizeof(T);
  }

 private:
  const uint8_t* in_;
};

template <typename Stream, typename Field>
void transfer(Stream& stream, Field& field) {
  if constexpr (std::is_same_v<Stream, Writer>) {
    stream.put(field);
  } else {
    stream.get(field);
  }
}

/// The order of the fields of an offer, for writing and reading.
template <typename Stream, typename AnyOffer>
void transfer_offer(Stream& s, AnyOffer& offer) {
  transfer(s, offer.qpn);
  transfer(s, offer.psn);
  transfer(s, offer.endpoint);
  transfer(s, offer.mtu_bytes);
  transfer(s, offer.window_bytes);
  transfer(s, offer.window_messages);
  transfer(s, offer.traffic_class);
  transfer(s, offer.roce_version);
  transfer(s, offer.max_message_bytes);
  transfer(s, offer.reads_as_target);
  transfer(s, offer.reads_as_origin);
  transfer(s, offer.udp_port);
  uint16_t reserved = 0;
  transfer(s, reserved);
  transfer(s, offer.capabilities);
  transfer(s, offer.receive_budget_bytes);
  transfer(s, offer.max_path_mtu_bytes);
}

template <typename Stream, typename AnyPacket>
void transfer_header(Stream& s, AnyPacket& packet, uint16_t& body_bytes) {
  uint8_t zero = 0;
  transfer(s, packet.version);
  transfer(s, packet.type);
  transfer(s, zero);
  transfer(s, packet.job_cookie);
  transfer(s, packet.from.job);
  transfer(s, packet.from.rank);
  transfer(s, packet.to.job);
  transfer(s, packet.to.rank);
  transfer(s, packet.incarnation);
  transfer(s, packet.connection_id);
  transfer(s, packet.control_qkey);
  transfer(s, body_bytes);
  transfer(s, packet.path.local_rail);
  transfer(s, packet.path.local_gid);
  transfer(s, packet.path.remote_rail);
  transfer(s, packet.path.remote_gid);
  uint16_t reserved = 0;
  uint32_t reserved_too = 0;
  transfer(s, reserved);
  transfer(s, reserved_too);
}

std::vector<uint8_t> encode_body(const ConnectionPacket& packet, size_t max_bytes) {
  std::vector<uint8_t> body;
  Writer writer(body);
  switch (packet.type) {
    case PacketType::kRequest:
    case PacketType::kReply:
      transfer_offer(writer, packet.offer);
      if (packet.type == PacketType::kRequest) {
        writer.put_bytes(packet.blob);
      }
      break;
    case PacketType::kRefuse:
      writer.put_bytes(packet.reason.substr(
          0, std::min(kMaxReasonBytes, max_bytes - std::min(max_bytes, kPacketHeaderBytes))));
      break;
    default:
      break;
  }
  return body;
}

/// Text of a stranger goes to terminals and logs.
std::string printable(std::span<const uint8_t> bytes) {
  std::string text(bytes.begin(), bytes.begin() + std::min(bytes.size(), kMaxReasonBytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Status malformed(const std::string& what) { return {Code::kProtocol, "handshake packet: " + what}; }

}  // namespace

const char* packet_type_name(PacketType type) {
  static constexpr const char* kNames[] = {"request", "reply", "ready",
                                           "refuse",  "close", "close acknowledgement"};
  auto index = static_cast<unsigned>(type) - 1;
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

std::vector<uint8_t> encode_packet(const ConnectionPacket& packet, size_t max_bytes) {
  std::vector<uint8_t> body = encode_body(packet, max_bytes);
  std::vector<uint8_t> bytes;
  bytes.reserve(kPacketHeaderBytes + body.size());
  Writer writer(bytes);
  writer.put(kMagic);
  auto body_bytes = static_cast<uint16_t>(body.size());
  transfer_header(writer, packet, body_bytes);
  writer.put_bytes(body);
  return bytes;
}

Result<ConnectionPacket> decode_packet(std::span<const uint8_t> bytes) {
  if (bytes.size() < kPacketHeaderBytes || bytes.size() > kMaxPacketBytes) {
    return malformed(std::to_string(bytes.size()) + " bytes, expected " +
                     std::to_string(kPacketHeaderBytes) + ".." + std::to_string(kMaxPacketBytes));
  }
  Reader reader(bytes.data());
  uint32_t magic = 0;
  reader.get(magic);
  if (magic != kMagic) {
    return malformed("wrong magic");
  }
  ConnectionPacket packet;
  uint16_t body_bytes = 0;
  transfer_header(reader, packet, body_bytes);
  std::span<const uint8_t> body = bytes.subspan(kPacketHeaderBytes);
  if (packet.type == PacketType::kRefuse && body_bytes <= body.size()) {
    packet.reason = printable(body.first(body_bytes));
    return packet;
  }
  if (packet.version != kHandshakeVersion) {
    return packet;
  }
  if (packet.type < PacketType::kRequest || packet.type > PacketType::kCloseAck) {
    return malformed("unknown type " + std::to_string(static_cast<int>(packet.type)));
  }
  bool has_offer = packet.type == PacketType::kRequest || packet.type == PacketType::kReply;
  if (body_bytes != body.size() || body.size() < (has_offer ? kOfferBytes : 0)) {
    return malformed("body of " + std::to_string(body_bytes) + " bytes in a packet of " +
                     std::to_string(bytes.size()));
  }
  if (has_offer) {
    transfer_offer(reader, packet.offer);
  }
  if (packet.type == PacketType::kRequest) {
    packet.blob.assign(body.begin() + kOfferBytes, body.end());
  }
  return packet;
}

}  // namespace roce::transport

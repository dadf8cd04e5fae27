// What two offers make together: connection_state.h, agree.
#include <algorithm>
#include <string>

#include "transport/connection_state.h"

namespace roce::transport {
namespace {

constexpr uint32_t kSmallestMtu = 256;  // Of RoCE v2, bytes.

Status differ(const char* what, uint64_t own, uint64_t peer, const std::string& remedy) {
  return {Code::kProtocol, std::string(what) + ": " + std::to_string(own) + " here, " +
                               std::to_string(peer) + " at the peer; " + remedy};
}

}  // namespace

Result<Agreement> agree(const Offer& own, const Offer& peer) {
  if (own.roce_version != peer.roce_version) {
    return differ("RoCE version", own.roce_version, peer.roce_version,
                  "choose GIDs of one version (gid_index)");
  }
  if (std::min(own.mtu_bytes, peer.mtu_bytes) < kSmallestMtu) {
    return differ("path MTU", own.mtu_bytes, peer.mtu_bytes,
                  "both must be at least " + std::to_string(kSmallestMtu) +
                      " bytes (mtu_bytes, MTU of the interface)");
  }
  if (own.max_message_bytes != peer.max_message_bytes) {
    return differ("largest message in bytes", own.max_message_bytes, peer.max_message_bytes,
                  "set the same btl_roce_max_send_size for all processes");
  }
  if (peer.window_messages == 0 || peer.window_messages > 32768) {
    return differ("window_messages", own.window_messages, peer.window_messages,
                  "it must be 1..32768");
  }
  Agreement agreement;
  agreement.mtu_bytes = std::min(own.mtu_bytes, peer.mtu_bytes);
  // The higher one, so that the answer does not depend on who asked.
  agreement.traffic_class = std::max(own.traffic_class, peer.traffic_class);
  agreement.window_messages = peer.window_messages;
  agreement.window_bytes = peer.window_bytes;
  agreement.reads_as_origin = std::min(own.reads_as_origin, peer.reads_as_target);
  agreement.reads_as_target = std::min(own.reads_as_target, peer.reads_as_origin);
  return agreement;
}

}  // namespace roce::transport

// The UD queue pair of one rail that carries handshake packets, with its completion channel and
// buffers. Used by the connection thread alone.
#ifndef ROCE_TRANSPORT_CONTROL_PORT_H_
#define ROCE_TRANSPORT_CONTROL_PORT_H_

#include <cstdint>
#include <functional>
#include <span>

#include "roce/status.h"
#include "transport/pages.h"
#include "verbs/objects.h"

namespace roce::transport {

class ControlPort {
 public:
  /// A packet as it came in.
  struct Received {
    std::span<const uint8_t> bytes;
    uint8_t sender_gid[16];    ///< From the GRH.
    uint8_t receiver_gid[16];  ///< Which of ours it was sent to.
    uint32_t sender_qpn;
  };

  /// mtu_bytes: of the port; a packet may be as long.
  Status open(const verbs::Context& context, const verbs::ProtectionDomain& pd, uint8_t port,
              uint32_t mtu_bytes);

  uint32_t qpn() const { return qp_.qpn(); }
  uint32_t qkey() const { return qkey_; }
  int fd() const { return channel_.fd(); }
  size_t max_packet_bytes() const { return max_packet_bytes_; }

  /// Sends a copy. False: no buffer is free, which counts as loss.
  bool send(ibv_ah* ah, uint32_t qpn, uint32_t qkey, std::span<const uint8_t> packet);
  /// Takes what has come in; the next packet raises fd().
  void drain(const std::function<void(const Received&)>& handle);

 private:
  uint8_t* send_buffer(uint32_t index) const;
  uint8_t* receive_buffer(uint32_t index) const;
  Status post_receive(uint32_t index);
  void handle_completion(const ibv_wc& wc, const std::function<void(const Received&)>& handle);

  Pages memory_;
  verbs::MemoryRegion region_;
  verbs::CompletionChannel channel_;
  verbs::CompletionQueue cq_;
  verbs::QueuePair qp_;
  uint32_t qkey_ = 0;
  size_t max_packet_bytes_ = 0;
  uint64_t free_send_buffers_ = 0;  ///< One bit each.
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_CONTROL_PORT_H_

// The process's sockets: one that receives for all interfaces and both address families, and a few
// that only send.
//
// Invariants of udp_*: no privilege; nothing blocks and nothing is allocated per packet; what
// arrives is counted and refused, never fatal; nothing here locks: the holder of the progress lock
// calls.
#ifndef ROCE_SOFT_UDP_PORT_H_
#define ROCE_SOFT_UDP_PORT_H_

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "roce/status.h"
#include "wire/icrc.h"

namespace roce::soft {

/// What the kernel handed up: one datagram, or several of one size joined by UDP_GRO (only the last
/// may be shorter). Valid until the next receive().
struct ReceivedBuffer {
  wire::Flow flow;  ///< As in the IP and UDP headers: source and destination addresses
                    ///< (IPv4-mapped), ports.
  const uint8_t* data = nullptr;
  uint32_t bytes = 0;          ///< At least 1.
  uint32_t segment_bytes = 0;  ///< Size of each datagram but the last; equal to bytes for a lone
                               ///< one.
  uint8_t tos = 0;             ///< TOS or traffic class; the two low bits are ECN.
  uint32_t ifindex = 0;
};

/// Where packets of a queue pair or address handle go. A route that may have packets queued must
/// be given to UdpPort::forget before it is destroyed or moved.
struct Route {
  wire::Flow flow;       ///< dst_port: the peer's receive socket; src_port is set by
                         ///< UdpPort::assign_source.
  uint8_t tos = 0;       ///< For data.
  uint32_t ifindex = 0;  ///< Interface to leave by; needed for link-local IPv6, 0: the kernel's
                         ///< route decides.
  uint8_t hop_limit = 64;
  int sender = -1;         ///< Index of the send-only socket, set by UdpPort::assign_source.
  bool no_trains = false;  ///< Set after EIO, EINVAL or EMSGSIZE on a train whose packets then left
                           ///< singly, as this route's do from there on.
};

struct UdpCounters {
  uint64_t rx_buffers = 0, rx_datagrams = 0, rx_bytes = 0, rx_calls = 0;
  uint64_t tx_trains = 0, tx_datagrams = 0, tx_bytes = 0, tx_calls = 0;
  uint64_t tx_blocked = 0;  ///< EAGAIN or ENOBUFS.
  uint64_t tx_errors = 0;   ///< Datagrams lost to send errors; last_tx_errno tells the latest.
  uint64_t tx_train_refused = 0;
  uint64_t rx_bad_icrc = 0;
  uint64_t rx_truncated = 0;   ///< Dropped: truncated, empty, or without its control messages.
  uint64_t rx_errors = 0;      ///< Errors of the receive socket; last_rx_errno tells the latest.
  uint64_t rx_icrc_by_id = 0;  ///< Accepted with an IP ID other than the expected one.
  uint64_t kernel_drops = 0;   ///< SO_MEMINFO: datagrams that the kernel dropped for want of
                               ///< receive memory.
  int last_tx_errno = 0;
  int last_rx_errno = 0;
};

class UdpPort {
 public:
  struct Options {
    int first_slot = 0;                 ///< Slots first_slot..511 are tried in turn.
    bool avoid_rdma_port = true;        ///< Skip 4791 where an interface belongs to an RDMA NIC.
    uint32_t send_sockets = 4;          ///< Per address family, 1..16.
    uint32_t receive_buffer_bytes = 0;  ///< SO_RCVBUF, 0: what rmem_max allows.
    uint32_t send_buffer_bytes = 0;     ///< SO_SNDBUF of each send-only socket, 0: what wmem_max
                                        ///< allows.
  };
  /// Binds the receive socket to [::]:4791+slot (0.0.0.0 where there is no IPv6), with PKTINFO,
  /// TOS, GRO, the receive buffer, and the send-only sockets.
  static Result<std::unique_ptr<UdpPort>> open(const Options& options);
  ~UdpPort();
  UdpPort(const UdpPort&) = delete;
  UdpPort& operator=(const UdpPort&) = delete;

  int slot() const;
  uint16_t port() const;
  bool has_ipv6() const;
  int receive_fd() const;
  uint32_t receive_buffer_bytes() const;  ///< SO_RCVBUF as the kernel reports it.
  uint32_t receive_budget_bytes() const;  ///< Half of that.

  /// One recvmsg or recvmmsg: as many buffers as lately waited together, at most 16. Empty: nothing
  /// waits (or all that waited was refused and counted).
  std::span<const ReceivedBuffer> receive();

  /// Whether datagram `index` of the buffer has a right ICRC; expects IP ID 0 or index, accepts any
  /// ID below 128 (counted), and any at all if `foreign`.
  bool icrc_ok(const ReceivedBuffer& buffer, uint32_t index, bool foreign);

  /// Picks a send-only socket for a flow (spread by hash) and fills route.sender and
  /// route.flow.src_port. An IPv6 route on a host without IPv6 gets sender -1, and its packets
  /// count as lost (EAFNOSUPPORT).
  void assign_source(Route& route, uint32_t flow_hash);

  /// Queues one packet: headers (copied), payload (gathered from user memory at the latest in
  /// flush; with copy_payload it is copied now and the ICRC computed over the copy), pad and ICRC
  /// are added. Consecutive packets to one route of fitting sizes become one UDP_SEGMENT train.
  /// False: the batch is full, flush first (or, if blocked(route), wait until its socket is
  /// writable). A datagram that no socket could send (longer than 65,000
  /// bytes, pieces that do not add up to payload_bytes) counts as lost.
  bool add(Route& route, uint8_t tos, std::span<const uint8_t> headers,
           std::span<const iovec> payload, uint32_t payload_bytes, bool copy_payload);

  /// Size in bytes that one more datagram, with route.tos, may have to ride as the (shorter) last
  /// segment of the train in the making to this route; 0 if none is open.
  uint32_t open_train_room(const Route& route) const;

  /// Sends what is queued with sendmmsg. False: the kernel's buffer is full, the rest stays queued
  /// in private memory: it refers to no payload any more (wait for writability of blocked_fd()).
  /// Other errors count as loss.
  bool flush();
  bool empty() const;
  int blocked_fd() const;  ///< Send socket that answered EAGAIN last, -1 if none.
  /// Whether this route's socket answered EAGAIN and still holds what was queued then.
  bool blocked(const Route& route) const;

  /// The route will not be touched any more; packets that are queued to it still leave.
  void forget(const Route& route);

  UdpCounters& counters();
  void update_memory_info();  ///< Reads SO_MEMINFO into kernel_drops and receive_queue_bytes.
  uint32_t receive_queue_bytes() const;  ///< Truesize waiting in the receive socket at the last
                                         ///< update.

  /// After fork, in the child: closes the sockets without any traffic.
  void close_in_child();

 private:
  UdpPort();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_UDP_PORT_H_

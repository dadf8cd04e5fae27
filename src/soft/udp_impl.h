// Inside of UdpPort: the batch of one send-only socket, the receive side, and what joins them.
#ifndef ROCE_SOFT_UDP_IMPL_H_
#define ROCE_SOFT_UDP_IMPL_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "soft/udp_port.h"
#include "wire/packet.h"

namespace roce::soft {

/// A file descriptor with an owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  void close();

 private:
  int fd_;
};

/// One packet as UdpPort::add takes it.
struct OutPacket {
  std::span<const uint8_t> headers;
  std::span<const iovec> payload;
  uint32_t payload_bytes;
  uint32_t pad_bytes;
  uint32_t bytes;  ///< Of the datagram.
};

/// Packets that wait for one send-only socket, as messages of the next sendmmsg. A message is a
/// train: datagrams of one size and at most one shorter at the end. Within a train the trailer of a
/// packet and the headers of the next stand side by side in the arena and are one iovec.
class SendQueue {
 public:
  static constexpr uint32_t kMaxTrainBytes = 65000;
  static constexpr uint32_t kMaxSegments = 64;  // UDP_MAX_SEGMENTS of older kernels
  static constexpr size_t kMaxTrains = 64;
  static constexpr uint32_t kMaxBatchBytes = 256 * 1024;
  // Below this size a copy costs less than an iovec, and what leaves is stable.
  static constexpr uint32_t kCopyBelow = 512;
  // A payload of more pieces is copied, so that 64 segments stay below UIO_MAXIOV.
  static constexpr size_t kMaxPieces = 12;
  static constexpr size_t kMaxIovecs = 2048;

  SendQueue(Descriptor fd, uint16_t port, bool ipv4);

  /// False: no room.
  bool add(Route& route, uint8_t tos, const OutPacket& packet, bool copy);
  /// False: EAGAIN.
  bool flush(UdpCounters& counters);
  bool empty() const { return count_ == 0; }
  /// True from an EAGAIN until everything that was queued then has left: add refuses.
  bool blocked() const { return blocked_; }
  uint32_t open_train_room(const Route& route) const;
  void forget(const Route& route);
  /// TOS and hop limit that need no control message.
  void set_defaults(uint8_t tos, uint8_t hop_limit);
  bool has_defaults() const { return has_defaults_; }

  int fd() const { return fd_.get(); }
  uint16_t port() const { return port_; }
  bool ipv4() const { return ipv4_; }
  void close() { fd_.close(); }

 private:
  // Packet information, TOS, hop limit, segment size.
  static constexpr size_t kControlBytes =
      CMSG_SPACE(sizeof(in6_pktinfo)) + 3 * CMSG_SPACE(sizeof(int));

  struct Train {
    union {
      sockaddr_in v4;
      sockaddr_in6 v6;
    } to;
    alignas(cmsghdr) uint8_t control[kControlBytes];
    Route* route;  // Null once forgotten.
    uint32_t bytes;
    uint32_t segment_bytes;
    uint32_t segments;
    uint32_t sent_singly;  // Segments that left alone after the kernel refused the train.
    uint32_t last_bytes;
    uint8_t tos;
    bool closed;  // Takes no further segment.
    bool refused;
  };

  bool fits(const Train& train, const Route& route, uint8_t tos, uint32_t bytes) const;
  Train& begin_train(Route& route, uint8_t tos, uint32_t segment_bytes);
  void add_control(Train& train, int level, int type, const void* value, size_t bytes);
  void append(const void* data, size_t bytes);
  void write_copied(const Route& route, const OutPacket& packet, uint16_t ip_id);
  void write_gathered(const Route& route, const OutPacket& packet, uint16_t ip_id);
  bool flush_rest(UdpCounters& counters);
  bool handle_error(int error, UdpCounters& counters);
  bool send_singly(UdpCounters& counters);
  void count_sent(size_t messages, UdpCounters& counters);
  void count_lost(int error, uint32_t datagrams, UdpCounters& counters);
  void privatize();
  void reset();

  Descriptor fd_;
  uint16_t port_;
  bool ipv4_;
  bool blocked_ = false;
  bool has_defaults_ = false;
  uint8_t default_tos_ = 0;
  uint8_t default_hop_limit_ = 64;
  size_t next_ = 0;   // First train that has not left.
  size_t count_ = 0;  // Trains in the batch.
  size_t iovecs_ = 0;
  uint32_t bytes_ = 0;  // Wire bytes in the batch.
  uint32_t datagrams_ = 0;
  uint32_t arena_used_ = 0;  // At most bytes_: the arena holds a part of the wire bytes.
  std::vector<mmsghdr> messages_;
  std::vector<Train> trains_;
  std::vector<iovec> iovec_pool_;
  std::unique_ptr<uint8_t[]> arena_;
  std::unique_ptr<uint8_t[]> spill_;  // What an EAGAIN left over.
};

/// The receive socket and its buffers.
class ReceiveSide {
 public:
  ReceiveSide(Descriptor fd, uint16_t port, bool ipv6);
  std::span<const ReceivedBuffer> receive(UdpCounters& counters);
  void update_memory_info(UdpCounters& counters);

  int fd() const { return fd_.get(); }
  uint16_t port() const { return port_; }
  bool ipv6() const { return ipv6_; }
  uint32_t queue_bytes() const { return queue_bytes_; }
  uint32_t buffer_bytes() const { return buffer_bytes_; }
  void close() { fd_.close(); }

 private:
  static constexpr size_t kBuffers = 16;
  static constexpr size_t kBufferBytes = 65536;  // No UDP datagram and no GRO buffer is larger.
  static constexpr size_t kMaxSinglesWanted = 64;
  static constexpr size_t kControlBytes = 128;
  struct alignas(64) Slot {
    alignas(cmsghdr) uint8_t control[kControlBytes];
    union {
      sockaddr_in v4;
      sockaddr_in6 v6;
    } from;
    iovec piece;
  };

  void arm(size_t index);
  bool take(size_t index, ReceivedBuffer& out) const;
  std::span<const ReceivedBuffer> receive_one(UdpCounters& counters);
  std::span<const ReceivedBuffer> nothing(int error, UdpCounters& counters);
  void choose_batch(size_t got, size_t bytes);

  Descriptor fd_;
  uint16_t port_;
  bool ipv6_;
  size_t batch_ = 1;           // Messages asked for in the next call.
  size_t singles_ = 0;         // Calls in a row that asked for one message and got it.
  size_t singles_wanted_ = 1;  // So many before two are asked for.
  uint32_t queue_bytes_ = 0;
  uint32_t buffer_bytes_ = 0;
  uint32_t last_drops_ = 0;
  mmsghdr messages_[kBuffers];
  Slot slots_[kBuffers];
  ReceivedBuffer out_[kBuffers];
  std::unique_ptr<uint8_t[]> memory_;
};

struct UdpPort::Impl {
  std::unique_ptr<ReceiveSide> receiver;
  std::vector<SendQueue> senders;  // IPv4 first, then IPv6.
  uint32_t ipv4_senders = 0;
  uint32_t pending = 0;  // Bit per sender that has something queued.
  int slot = 0;
  int blocked_fd = -1;
  UdpCounters counters;
};

/// Sockets with their options set; the status names the call and the errno.
Result<std::unique_ptr<ReceiveSide>> open_receive_side(const UdpPort::Options& options, int* slot);
Result<std::vector<SendQueue>> open_senders(const UdpPort::Options& options, int family);

}  // namespace roce::soft

#endif  // ROCE_SOFT_UDP_IMPL_H_

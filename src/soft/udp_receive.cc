// From recvmmsg to datagrams with a verified ICRC.
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "soft/udp_impl.h"

namespace roce::soft {
namespace {

constexpr uint32_t kSoftIds = 128;       // A soft device numbers a train's segments from 0.
constexpr uint32_t kForeignIds = 65536;  // Anyone else uses any.
constexpr size_t kBatchCacheBytes = 128 * 1024;

void map_ipv4(const void* address, uint8_t out[16]) {
  std::memset(out, 0, 10);
  out[10] = out[11] = 0xFF;
  std::memcpy(out + 12, address, 4);
}

// Level and type of a control message as one number.
constexpr uint64_t kind(int level, int type) {
  return static_cast<uint64_t>(static_cast<uint32_t>(level)) << 32 | static_cast<uint32_t>(type);
}

int load_int(const uint8_t* at) {
  int value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint64_t datagrams_in(const ReceivedBuffer& buffer) {
  if (buffer.bytes == buffer.segment_bytes) return 1;
  return (buffer.bytes - 1) / buffer.segment_bytes + 1;
}

}  // namespace

ReceiveSide::ReceiveSide(Descriptor fd, uint16_t port, bool ipv6)
    : fd_(std::move(fd)), port_(port), ipv6_(ipv6), memory_(new uint8_t[kBuffers * kBufferBytes]) {
  socklen_t bytes = sizeof buffer_bytes_;
  getsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &buffer_bytes_, &bytes);
  std::memset(messages_, 0, sizeof messages_);
  std::memset(static_cast<void*>(slots_), 0, sizeof slots_);
  for (size_t i = 0; i < kBuffers; ++i) {
    slots_[i].piece = {memory_.get() + i * kBufferBytes, kBufferBytes};
    msghdr& message = messages_[i].msg_hdr;
    message.msg_name = &slots_[i].from;
    message.msg_iov = &slots_[i].piece;
    message.msg_iovlen = 1;
    message.msg_control = slots_[i].control;
    arm(i);
  }
}

// The kernel overwrites these two with what it filled in.
void ReceiveSide::arm(size_t index) {
  messages_[index].msg_hdr.msg_namelen = sizeof slots_[index].from;
  messages_[index].msg_hdr.msg_controllen = kControlBytes;
}

// A recvmmsg that asks for more than waits pays one more look into an empty queue, about a tenth of
// a round. So the number asked for follows what lately waited together: one that waits alone costs
// a plain recvmsg, and each vain attempt at two makes the next one rarer. A batch also stays in the
// cache: what one call brings is read soon after.
void ReceiveSide::choose_batch(size_t got, size_t bytes) {
  if (got < batch_) {
    if (batch_ == 2) singles_wanted_ = std::min(2 * singles_wanted_, kMaxSinglesWanted);
    batch_ = got;
  } else if (batch_ > 1) {
    singles_wanted_ = 1;
    batch_ = std::min(2 * batch_, kBuffers);
  } else {
    batch_ = 2;
  }
  singles_ = 0;
  const size_t average = bytes / got + 1;
  batch_ = std::min(batch_, std::max<size_t>(kBatchCacheBytes / average, 1));
}

// False: the message is of no use.
bool ReceiveSide::take(size_t index, ReceivedBuffer& out) const {
  const msghdr& message = messages_[index].msg_hdr;
  const Slot& slot = slots_[index];
  out.bytes = out.segment_bytes = messages_[index].msg_len;
  if (out.bytes == 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return false;
  out.data = static_cast<const uint8_t*>(slot.piece.iov_base);
  out.flow.dst_port = port_;
  if (ipv6_) {
    std::memcpy(out.flow.src, &slot.from.v6.sin6_addr, 16);
    out.flow.src_port = ntohs(slot.from.v6.sin6_port);
  } else {
    map_ipv4(&slot.from.v4.sin_addr, out.flow.src);
    out.flow.src_port = ntohs(slot.from.v4.sin_port);
  }
  bool has_destination = false;
  out.tos = 0;
  const uint8_t* at = slot.control;
  const uint8_t* const end = at + message.msg_controllen;
  while (static_cast<size_t>(end - at) >= sizeof(cmsghdr)) {
    cmsghdr item;
    std::memcpy(&item, at, sizeof item);
    if (item.cmsg_len < sizeof item || item.cmsg_len > static_cast<size_t>(end - at)) return false;
    const uint8_t* value = at + CMSG_LEN(0);
    const size_t bytes = item.cmsg_len - CMSG_LEN(0);
    switch (kind(item.cmsg_level, item.cmsg_type)) {
      case kind(IPPROTO_IPV6, IPV6_PKTINFO):
        if (bytes < sizeof(in6_pktinfo)) return false;
        std::memcpy(out.flow.dst, value + offsetof(in6_pktinfo, ipi6_addr), 16);
        std::memcpy(&out.ifindex, value + offsetof(in6_pktinfo, ipi6_ifindex), sizeof out.ifindex);
        has_destination = true;
        break;
      case kind(IPPROTO_IP, IP_PKTINFO):
        if (bytes < sizeof(in_pktinfo)) return false;
        map_ipv4(value + offsetof(in_pktinfo, ipi_addr), out.flow.dst);
        std::memcpy(&out.ifindex, value + offsetof(in_pktinfo, ipi_ifindex), sizeof out.ifindex);
        has_destination = true;
        break;
      case kind(IPPROTO_IP, IP_TOS):  // One byte, unlike what sendmsg takes.
        if (bytes < 1) return false;
        out.tos = value[0];
        break;
      case kind(IPPROTO_IPV6, IPV6_TCLASS):
        if (bytes < sizeof(int)) return false;
        out.tos = static_cast<uint8_t>(load_int(value));
        break;
      case kind(IPPROTO_UDP, UDP_GRO):
        if (bytes < sizeof(int) || load_int(value) <= 0) return false;
        out.segment_bytes = std::min(static_cast<uint32_t>(load_int(value)), out.bytes);
        break;
      default:
        break;
    }
    at += std::min(CMSG_ALIGN(item.cmsg_len), static_cast<size_t>(end - at));
  }
  return has_destination;
}

std::span<const ReceivedBuffer> ReceiveSide::nothing(int error, UdpCounters& counters) {
  batch_ = 1;
  singles_ = 0;
  if (error != EAGAIN && error != EWOULDBLOCK && error != EINTR) {
    ++counters.rx_errors;
    counters.last_rx_errno = error;
  }
  return {};
}

std::span<const ReceivedBuffer> ReceiveSide::receive_one(UdpCounters& counters) {
  const ssize_t bytes = recvmsg(fd_.get(), &messages_[0].msg_hdr, 0);
  if (bytes < 0) return nothing(errno, counters);
  messages_[0].msg_len = static_cast<unsigned>(bytes);
  const bool good = take(0, out_[0]);
  arm(0);
  if (++singles_ >= singles_wanted_) choose_batch(1, static_cast<size_t>(bytes));
  if (!good) [[unlikely]] {
    ++counters.rx_truncated;
    return {};
  }
  ++counters.rx_buffers;
  counters.rx_bytes += static_cast<uint64_t>(bytes);
  counters.rx_datagrams += datagrams_in(out_[0]);
  return {out_, 1};
}

inline std::span<const ReceivedBuffer> ReceiveSide::receive(UdpCounters& counters) {
  ++counters.rx_calls;
  if (batch_ == 1) return receive_one(counters);
  const int got = recvmmsg(fd_.get(), messages_, static_cast<unsigned>(batch_), 0, nullptr);
  if (got <= 0) return nothing(errno, counters);
  size_t count = 0, bytes = 0;
  for (size_t i = 0; i < static_cast<size_t>(got); ++i) {
    ReceivedBuffer& out = out_[count];
    if (take(i, out)) {
      ++count;
      bytes += out.bytes;
      counters.rx_datagrams += datagrams_in(out);
    } else {
      ++counters.rx_truncated;
    }
    arm(i);
  }
  counters.rx_buffers += count;
  counters.rx_bytes += bytes;
  choose_batch(static_cast<size_t>(got), bytes);
  return {out_, count};
}

std::span<const ReceivedBuffer> UdpPort::receive() {
  return impl_->receiver->receive(impl_->counters);
}

void ReceiveSide::update_memory_info(UdpCounters& counters) {
  uint32_t info[SK_MEMINFO_VARS] = {};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_MEMINFO, info, &bytes) != 0) return;
  queue_bytes_ = info[SK_MEMINFO_RMEM_ALLOC];
  counters.kernel_drops += info[SK_MEMINFO_DROPS] - last_drops_;  // It wraps at 32 bits.
  last_drops_ = info[SK_MEMINFO_DROPS];
}

bool UdpPort::icrc_ok(const ReceivedBuffer& buffer, uint32_t index, bool foreign) {
  UdpCounters& counters = impl_->counters;
  const uint64_t offset = static_cast<uint64_t>(index) * buffer.segment_bytes;
  if (offset + wire::kBthBytes + wire::kIcrcBytes > buffer.bytes) {
    ++counters.rx_bad_icrc;
    return false;
  }
  const uint32_t bytes =
      std::min(buffer.segment_bytes, buffer.bytes - static_cast<uint32_t>(offset));
  if (bytes < wire::kBthBytes + wire::kIcrcBytes) {
    ++counters.rx_bad_icrc;
    return false;
  }
  const uint8_t* datagram = buffer.data + offset;
  const auto expected_id = static_cast<uint16_t>(index);
  const wire::Crc crc =
      wire::icrc_begin_bth(buffer.flow, bytes, expected_id, {datagram, bytes - wire::kIcrcBytes});
  const uint32_t difference = crc ^ wire::icrc_load(datagram + bytes - wire::kIcrcBytes);
  if (difference == 0) [[likely]]
    return true;
  if (buffer.flow.is_ipv4()) {
    // The CRC is linear: this is the exclusive or of the sender's identification and ours.
    const int32_t id_difference = wire::icrc_id_of(difference, bytes);
    const uint32_t id = static_cast<uint32_t>(id_difference) ^ expected_id;
    if (id_difference >= 0 && id < (foreign ? kForeignIds : kSoftIds)) {
      if (id != 0) ++counters.rx_icrc_by_id;
      return true;
    }
  }
  ++counters.rx_bad_icrc;
  return false;
}

}  // namespace roce::soft

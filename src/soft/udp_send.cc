// Packets into trains, trains into sendmmsg.
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "soft/udp_impl.h"

namespace roce::soft {
namespace {

constexpr size_t kMappedOffset = 12;  // Of the IPv4 address in an IPv4-mapped one.

bool is_backpressure(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS;
}

// What kernels and drivers answer when they cannot cut a train: 6.1 EIO without checksum offload,
// EINVAL before UDP_SEGMENT or for a segment above the path MTU, EMSGSIZE for the latter since 6.x.
bool refuses_train(int error) { return error == EIO || error == EINVAL || error == EMSGSIZE; }

}  // namespace

SendQueue::SendQueue(Descriptor fd, uint16_t port, bool ipv4)
    : fd_(std::move(fd)),
      port_(port),
      ipv4_(ipv4),
      messages_(kMaxTrains),
      trains_(kMaxTrains),
      iovec_pool_(kMaxIovecs),
      arena_(new uint8_t[kMaxBatchBytes]),
      spill_(new uint8_t[kMaxBatchBytes]) {}

void SendQueue::set_defaults(uint8_t tos, uint8_t hop_limit) {
  const int tos_value = tos, hop_value = hop_limit;
  const int level = ipv4_ ? IPPROTO_IP : IPPROTO_IPV6;
  has_defaults_ = true;
  if (setsockopt(fd_.get(), level, ipv4_ ? IP_TOS : IPV6_TCLASS, &tos_value, sizeof tos_value) ==
      0) {
    default_tos_ = tos;
  }
  if (setsockopt(fd_.get(), level, ipv4_ ? IP_TTL : IPV6_UNICAST_HOPS, &hop_value,
                 sizeof hop_value) == 0) {
    default_hop_limit_ = hop_limit;
  }
}

bool SendQueue::fits(const Train& train, const Route& route, uint8_t tos, uint32_t bytes) const {
  return train.route == &route && !train.closed && train.tos == tos &&
         bytes <= train.segment_bytes && train.segments < kMaxSegments &&
         train.bytes + bytes <= kMaxTrainBytes && !route.no_trains;
}

uint32_t SendQueue::open_train_room(const Route& route) const {
  if (count_ == 0 || blocked_) return 0;
  const Train& train = trains_[count_ - 1];
  if (!fits(train, route, route.tos, 0)) return 0;
  return std::min({train.segment_bytes, kMaxTrainBytes - train.bytes, kMaxBatchBytes - bytes_});
}

void SendQueue::forget(const Route& route) {
  for (size_t i = next_; i < count_; ++i) {
    if (trains_[i].route == &route) trains_[i].route = nullptr;
  }
}

void SendQueue::add_control(Train& train, int level, int type, const void* value, size_t bytes) {
  msghdr& message = messages_[&train - trains_.data()].msg_hdr;
  auto* control = reinterpret_cast<cmsghdr*>(train.control + message.msg_controllen);
  control->cmsg_level = level;
  control->cmsg_type = type;
  control->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(control), value, bytes);
  message.msg_controllen += CMSG_SPACE(bytes);
}

SendQueue::Train& SendQueue::begin_train(Route& route, uint8_t tos, uint32_t segment_bytes) {
  const wire::Flow& flow = route.flow;
  Train& train = trains_[count_];
  msghdr& message = messages_[count_].msg_hdr;
  ++count_;
  message = {};
  message.msg_name = &train.to;
  message.msg_iov = iovec_pool_.data() + iovecs_;
  message.msg_control = train.control;
  train.route = &route;
  train.bytes = train.segments = train.sent_singly = train.last_bytes = 0;
  train.segment_bytes = segment_bytes;
  train.tos = tos;
  train.closed = train.refused = false;

  const int tos_value = tos, hop_value = route.hop_limit;
  if (ipv4_) {
    train.to.v4 = {};
    train.to.v4.sin_family = AF_INET;
    train.to.v4.sin_port = htons(flow.dst_port);
    std::memcpy(&train.to.v4.sin_addr, flow.dst + kMappedOffset, 4);
    message.msg_namelen = sizeof train.to.v4;
    in_pktinfo info{};
    info.ipi_ifindex = static_cast<int>(route.ifindex);
    std::memcpy(&info.ipi_spec_dst, flow.src + kMappedOffset, 4);
    add_control(train, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    if (tos != default_tos_) add_control(train, IPPROTO_IP, IP_TOS, &tos_value, sizeof tos_value);
    if (route.hop_limit != default_hop_limit_) {
      add_control(train, IPPROTO_IP, IP_TTL, &hop_value, sizeof hop_value);
    }
  } else {
    train.to.v6 = {};
    train.to.v6.sin6_family = AF_INET6;
    train.to.v6.sin6_port = htons(flow.dst_port);
    std::memcpy(&train.to.v6.sin6_addr, flow.dst, 16);
    message.msg_namelen = sizeof train.to.v6;
    in6_pktinfo info{};
    info.ipi6_ifindex = route.ifindex;
    std::memcpy(&info.ipi6_addr, flow.src, 16);
    add_control(train, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    if (tos != default_tos_) {
      add_control(train, IPPROTO_IPV6, IPV6_TCLASS, &tos_value, sizeof tos_value);
    }
    if (route.hop_limit != default_hop_limit_) {
      add_control(train, IPPROTO_IPV6, IPV6_HOPLIMIT, &hop_value, sizeof hop_value);
    }
  }
  return train;
}

// Adds a piece to the last train; pieces that stand side by side become one.
void SendQueue::append(const void* data, size_t bytes) {
  msghdr& message = messages_[count_ - 1].msg_hdr;
  if (message.msg_iovlen != 0) {
    iovec& last = message.msg_iov[message.msg_iovlen - 1];
    if (static_cast<uint8_t*>(last.iov_base) + last.iov_len == data) {
      last.iov_len += bytes;
      return;
    }
  }
  message.msg_iov[message.msg_iovlen++] = {const_cast<void*>(data), bytes};
  ++iovecs_;
}

void SendQueue::write_copied(const Route& route, const OutPacket& packet, uint16_t ip_id) {
  uint8_t* const start = arena_.get() + arena_used_;
  uint8_t* at = start;
  std::memcpy(at, packet.headers.data(), packet.headers.size());
  at += packet.headers.size();
  for (const iovec& piece : packet.payload) {
    if (piece.iov_len != 0) std::memcpy(at, piece.iov_base, piece.iov_len);
    at += piece.iov_len;
  }
  for (uint32_t i = 0; i < packet.pad_bytes; ++i) *at++ = 0;
  const wire::Crc crc = wire::icrc_begin_bth(route.flow, packet.bytes, ip_id,
                                             {start, static_cast<size_t>(at - start)});
  wire::icrc_store(crc, at);
  arena_used_ += packet.bytes;
  append(start, packet.bytes);
}

void SendQueue::write_gathered(const Route& route, const OutPacket& packet, uint16_t ip_id) {
  uint8_t* at = arena_.get() + arena_used_;
  std::memcpy(at, packet.headers.data(), packet.headers.size());
  wire::Crc crc = wire::icrc_begin_bth(route.flow, packet.bytes, ip_id, packet.headers);
  append(at, packet.headers.size());
  at += packet.headers.size();
  for (const iovec& piece : packet.payload) {
    if (piece.iov_len == 0) continue;
    crc = wire::icrc_update(crc, piece.iov_base, piece.iov_len);
    append(piece.iov_base, piece.iov_len);
  }
  for (uint32_t i = 0; i < packet.pad_bytes; ++i) at[i] = 0;
  crc = wire::icrc_update(crc, at, packet.pad_bytes);
  wire::icrc_store(crc, at + packet.pad_bytes);
  const auto trailer = packet.pad_bytes + static_cast<uint32_t>(wire::kIcrcBytes);
  append(at, trailer);
  arena_used_ += static_cast<uint32_t>(packet.headers.size()) + trailer;
}

inline bool SendQueue::add(Route& route, uint8_t tos, const OutPacket& packet, bool copy) {
  if (blocked_ || bytes_ + packet.bytes > kMaxBatchBytes) return false;
  if (iovecs_ + packet.payload.size() + 2 > kMaxIovecs) return false;
  Train* train = count_ != 0 ? &trains_[count_ - 1] : nullptr;
  if (train == nullptr || !fits(*train, route, tos, packet.bytes)) {
    if (count_ == kMaxTrains) return false;
    train = &begin_train(route, tos, packet.bytes);
  }
  // The kernel gives segment i the IP ID i where it cuts the train; IPv6 has none.
  const auto ip_id = static_cast<uint16_t>(train->segments);
  if (copy) {
    write_copied(route, packet, ip_id);
  } else {
    write_gathered(route, packet, ip_id);
  }
  train->bytes += packet.bytes;
  train->last_bytes = packet.bytes;
  train->closed = packet.bytes < train->segment_bytes;
  bytes_ += packet.bytes;
  ++datagrams_;
  if (++train->segments == 2) {
    const auto segment = static_cast<uint16_t>(train->segment_bytes);
    add_control(*train, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
  }
  return true;
}

inline void SendQueue::reset() {
  next_ = count_ = iovecs_ = 0;
  bytes_ = datagrams_ = arena_used_ = 0;
  blocked_ = false;
}

void SendQueue::count_sent(size_t messages, UdpCounters& counters) {
  for (size_t i = 0; i < messages; ++i, ++next_) {
    counters.tx_datagrams += trains_[next_].segments;
    counters.tx_bytes += trains_[next_].bytes;
  }
  counters.tx_trains += messages;
}

void SendQueue::count_lost(int error, uint32_t datagrams, UdpCounters& counters) {
  counters.tx_errors += datagrams;
  counters.last_tx_errno = error;
}

// Everything in one call, which is the rule: the branches after a system call are cold ones, so
// there are few of them here.
inline bool SendQueue::flush(UdpCounters& counters) {
  if (next_ == 0 && !blocked_) [[likely]] {
    ++counters.tx_calls;
    const auto count = static_cast<int>(count_);
    const int sent = count == 1 ? (sendmsg(fd_.get(), &messages_[0].msg_hdr, 0) < 0 ? -1 : 1)
                                : sendmmsg(fd_.get(), messages_.data(), count_, 0);
    if (sent == count) [[likely]] {
      counters.tx_trains += count_;
      counters.tx_datagrams += datagrams_;
      counters.tx_bytes += bytes_;
      reset();
      return true;
    }
    if (sent > 0) {
      count_sent(static_cast<size_t>(sent), counters);
    } else if (!handle_error(errno, counters)) {
      return false;
    }
  }
  return flush_rest(counters);
}

bool SendQueue::flush_rest(UdpCounters& counters) {
  while (next_ < count_) {
    if (trains_[next_].refused) {
      if (!send_singly(counters)) return false;
      continue;
    }
    ++counters.tx_calls;
    const int sent =
        sendmmsg(fd_.get(), &messages_[next_], static_cast<unsigned>(count_ - next_), 0);
    if (sent > 0) {
      count_sent(static_cast<size_t>(sent), counters);
    } else if (!handle_error(errno, counters)) {
      return false;
    }
  }
  reset();
  return true;
}

// What became of trains_[next_], which was not sent. False: the buffer is full.
bool SendQueue::handle_error(int error, UdpCounters& counters) {
  if (error == EINTR) return true;
  if (is_backpressure(error)) {
    ++counters.tx_blocked;
    if (!blocked_) privatize();
    return false;
  }
  Train& train = trains_[next_];
  if (train.segments < 2 || !refuses_train(error)) {
    count_lost(error, train.segments, counters);
    ++next_;
    return true;
  }
  ++counters.tx_train_refused;
  train.refused = true;
  return true;
}

// Segments of a refused train, each as a datagram of its own. False: EAGAIN.
bool SendQueue::send_singly(UdpCounters& counters) {
  Train& train = trains_[next_];
  msghdr message = messages_[next_].msg_hdr;
  message.msg_controllen -= CMSG_SPACE(sizeof(uint16_t));  // UDP_SEGMENT is the last one.
  iovec pieces[kMaxPieces + 4];
  const iovec* from = message.msg_iov;
  size_t offset = 0;  // In *from.
  for (uint32_t i = 0; i < train.segments; ++i) {
    const uint32_t bytes = i + 1 == train.segments ? train.last_bytes : train.segment_bytes;
    message.msg_iov = pieces;
    message.msg_iovlen = 0;
    for (size_t missing = bytes; missing != 0;) {
      const size_t piece = std::min(missing, from->iov_len - offset);
      pieces[message.msg_iovlen++] = {static_cast<uint8_t*>(from->iov_base) + offset, piece};
      missing -= piece;
      offset += piece;
      if (offset == from->iov_len) {
        ++from;
        offset = 0;
      }
    }
    if (i < train.sent_singly) continue;
    // The ICRC is never split: it stands in the arena together with the pad.
    const iovec& last = pieces[message.msg_iovlen - 1];
    uint8_t* icrc = static_cast<uint8_t*>(last.iov_base) + last.iov_len - wire::kIcrcBytes;
    const uint32_t built = wire::icrc_load(icrc);
    if (ipv4_) {
      wire::icrc_store(built ^ wire::icrc_id_delta(static_cast<uint16_t>(i), bytes), icrc);
    }
    ++counters.tx_calls;
    if (sendmsg(fd_.get(), &message, 0) >= 0) {
      // Not before: an interface whose MTU is too small now, or an address that is gone, refuses
      // single packets as well, and when it is back it takes trains again.
      if (bytes == train.segment_bytes && train.route != nullptr) train.route->no_trains = true;
      ++counters.tx_trains;
      ++counters.tx_datagrams;
      counters.tx_bytes += bytes;
    } else if (const int error = errno; is_backpressure(error)) {
      wire::icrc_store(built, icrc);
      ++counters.tx_blocked;
      if (!blocked_) privatize();
      return false;
    } else {
      count_lost(error, 1, counters);
    }
    train.sent_singly = i + 1;
  }
  ++next_;
  return true;
}

// Copies what is left into memory of our own: whoever owns the payload may take it away as soon as
// flush returns.
void SendQueue::privatize() {
  blocked_ = true;
  uint8_t* to = spill_.get();
  for (size_t i = next_; i < count_; ++i) {
    msghdr& message = messages_[i].msg_hdr;
    uint8_t* const start = to;
    for (size_t k = 0; k < message.msg_iovlen; ++k) {
      std::memcpy(to, message.msg_iov[k].iov_base, message.msg_iov[k].iov_len);
      to += message.msg_iov[k].iov_len;
    }
    message.msg_iov[0] = {start, static_cast<size_t>(to - start)};
    message.msg_iovlen = 1;
  }
}

bool UdpPort::add(Route& route, uint8_t tos, std::span<const uint8_t> headers,
                  std::span<const iovec> payload, uint32_t payload_bytes, bool copy_payload) {
  Impl& impl = *impl_;
  OutPacket packet{headers, payload, payload_bytes, wire::pad_bytes(payload_bytes), 0};
  packet.bytes = static_cast<uint32_t>(headers.size()) + payload_bytes + packet.pad_bytes +
                 static_cast<uint32_t>(wire::kIcrcBytes);
  size_t gathered = 0;
  for (const iovec& piece : payload) gathered += piece.iov_len;
  const bool known = static_cast<size_t>(route.sender) < impl.senders.size();
  if (!known || packet.bytes > SendQueue::kMaxTrainBytes || gathered != payload_bytes ||
      headers.size() < wire::kBthBytes) [[unlikely]] {
    ++impl.counters.tx_errors;
    impl.counters.last_tx_errno = !known                                     ? EAFNOSUPPORT
                                  : packet.bytes > SendQueue::kMaxTrainBytes ? EMSGSIZE
                                                                             : EINVAL;
    return true;
  }
  const bool copy = copy_payload || payload_bytes <= SendQueue::kCopyBelow ||
                    payload.size() > SendQueue::kMaxPieces;
  if (!impl.senders[route.sender].add(route, tos, packet, copy)) return false;
  impl.pending |= 1u << route.sender;
  return true;
}

bool UdpPort::flush() {
  Impl& impl = *impl_;
  impl.blocked_fd = -1;
  for (uint32_t left = impl.pending; left != 0; left &= left - 1) {
    const int index = __builtin_ctz(left);
    SendQueue& queue = impl.senders[index];
    if (queue.flush(impl.counters)) {
      impl.pending &= ~(1u << index);
    } else {
      impl.blocked_fd = queue.fd();
    }
  }
  return impl.pending == 0;
}

}  // namespace roce::soft

#include "transport/control_port.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "transport/connection_packet.h"

namespace roce::transport {
namespace {

constexpr uint32_t kReceives = 256, kSends = 64;
constexpr uint32_t kGrhBytes = 40;
constexpr uint32_t kBufferBytes = 2048;  // Holds GRH and packet.
static_assert(kGrhBytes + kMaxPacketBytes <= kBufferBytes);
constexpr uint64_t kSendBit = uint64_t{1} << 32;

/// Sum of the 16-bit words of an IPv4 header in ones' complement: 0xFFFF if it is valid.
uint32_t ipv4_sum(const uint8_t* header) {
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) {
    sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  }
  return (sum & 0xFFFF) + (sum >> 16);
}

/// The first 40 bytes of a UD receive are a GRH (the IPv6 header), or 20 unspecified bytes and the
/// IPv4 header (InfiniBand specification volume 1, annex A17.4.5.1). Only a valid checksum tells
/// them apart for sure, as those 20 bytes may be anything.
void read_addresses(const uint8_t* grh, ControlPort::Received& out) {
  const uint8_t* ipv4 = grh + 20;
  if (ipv4[0] == 0x45 && ipv4_sum(ipv4) == 0xFFFF) {
    for (uint8_t* gid : {out.sender_gid, out.receiver_gid}) {
      gid[10] = gid[11] = 0xFF;
    }
    std::memcpy(out.sender_gid + 12, ipv4 + 12, 4);
    std::memcpy(out.receiver_gid + 12, ipv4 + 16, 4);
  } else {
    std::memcpy(out.sender_gid, grh + 8, 16);
    std::memcpy(out.receiver_gid, grh + 24, 16);
  }
}

}  // namespace

Status ControlPort::open(const verbs::Context& context, const verbs::ProtectionDomain& pd,
                         uint8_t port, uint32_t mtu_bytes) {
  max_packet_bytes_ = std::min<size_t>(kMaxPacketBytes, mtu_bytes);
  memory_ = Pages(size_t{kReceives + kSends} * kBufferBytes);
  if (memory_.data() == nullptr) {
    return {Code::kOutOfResources, "no memory for the handshake's buffers"};
  }
  auto region =
      verbs::MemoryRegion::create(pd, memory_.data(), memory_.bytes(), IBV_ACCESS_LOCAL_WRITE);
  if (!region) return region.status();
  region_ = std::move(region.value());
  auto channel = verbs::CompletionChannel::create(context);
  if (!channel) return channel.status();
  channel_ = std::move(channel.value());
  auto cq = verbs::CompletionQueue::create(context, kReceives + kSends, &channel_);
  if (!cq) return cq.status();
  cq_ = std::move(cq.value());

  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_UD;
  attributes.send_cq = attributes.recv_cq = cq_.get();
  attributes.cap = {kSends, kReceives, 1, 1, 0};
  auto qp = verbs::QueuePair::create(pd, attributes);
  if (!qp) return qp.status();
  qp_ = std::move(qp.value());
  std::random_device random;
  qkey_ = random() & 0x7FFFFFFF;  // the upper half is reserved for privileged queue pairs
  if (Status status = qp_.ud_to_rts(port, qkey_); !status) return status;
  for (uint32_t i = 0; i < kReceives; ++i) {
    if (Status status = post_receive(i); !status) return status;
  }
  free_send_buffers_ = ~uint64_t{0};
  return cq_.arm(false);
}

uint8_t* ControlPort::receive_buffer(uint32_t index) const {
  return memory_.data() + size_t{index} * kBufferBytes;
}
uint8_t* ControlPort::send_buffer(uint32_t index) const {
  return receive_buffer(kReceives + index);
}

Status ControlPort::post_receive(uint32_t index) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(receive_buffer(index)), kBufferBytes, region_.lkey()};
  ibv_recv_wr request{index, nullptr, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  int error = ibv_post_recv(qp_.get(), &request, &bad);
  return error == 0 ? Status::ok()
                    : Status{Code::kDevice, "post_recv: " + verbs::errno_text(error)};
}

bool ControlPort::send(ibv_ah* ah, uint32_t qpn, uint32_t qkey, std::span<const uint8_t> packet) {
  if (free_send_buffers_ == 0 || packet.size() > max_packet_bytes_) {
    return false;
  }
  auto index = static_cast<uint32_t>(std::countr_zero(free_send_buffers_));
  std::memcpy(send_buffer(index), packet.data(), packet.size());
  ibv_sge sge{reinterpret_cast<uintptr_t>(send_buffer(index)), static_cast<uint32_t>(packet.size()),
              region_.lkey()};
  ibv_send_wr request{};
  request.wr_id = kSendBit | index;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud = {ah, qpn, qkey};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp_.get(), &request, &bad) != 0) {
    return false;
  }
  free_send_buffers_ &= ~(uint64_t{1} << index);
  return true;
}

void ControlPort::drain(const std::function<void(const Received&)>& handle) {
  while (channel_.wait(std::chrono::milliseconds(0))) {
  }
  // Armed before the last poll, so that what comes in between raises an event.
  Status armed = cq_.arm(false);
  (void)armed;  // a queue that cannot be armed shows in connect timeouts
  std::array<ibv_wc, 32> completions;
  for (;;) {
    int count = cq_.poll(completions);
    if (count <= 0) {
      return;
    }
    for (int i = 0; i < count; ++i) {
      handle_completion(completions[i], handle);
    }
  }
}

void ControlPort::handle_completion(const ibv_wc& wc,
                                    const std::function<void(const Received&)>& handle) {
  auto index = static_cast<uint32_t>(wc.wr_id);
  if ((wc.wr_id & kSendBit) != 0) {
    free_send_buffers_ |= uint64_t{1} << index;
    return;
  }
  if (wc.status == IBV_WC_WR_FLUSH_ERR) {
    return;
  }
  if (wc.status == IBV_WC_SUCCESS && wc.byte_len >= kGrhBytes) {
    const uint8_t* buffer = receive_buffer(index);
    Received received{{buffer + kGrhBytes, wc.byte_len - kGrhBytes}, {}, {}, wc.src_qp};
    read_addresses(buffer, received);
    handle(received);
  }
  Status posted = post_receive(index);
  (void)posted;
}

}  // namespace roce::transport

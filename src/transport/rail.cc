#include "transport/rail.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "transport/connection_packet.h"
#include "transport/header.h"

namespace roce::transport {
namespace {

constexpr uint32_t kPage = 4096;
constexpr uint32_t kCqSlack = 64;
constexpr uint32_t kLeastReceives = 32;
/// Peers that data is fetched from at the same time; the others wait for their turn.
constexpr uint32_t kMostGetSenders = 16;
/// Bytes of gets in flight on devices without receive budget, whatever the path shows: twice what
/// 800 Gb/s carry in 80 us.
constexpr uint64_t kMostInFlight = uint64_t{16} << 20;
constexpr uint32_t kExpectedPeers = 8;

}  // namespace

Result<std::unique_ptr<Rail>> Rail::open(const Params& params, const verbs::Candidate& candidate,
                                         int index) {
  auto rail = std::make_unique<Rail>();
  rail->index = index;
  rail->port = candidate.port;
  rail->netdev = candidate.netdev;
  rail->name_ = candidate.device + ":" + std::to_string(static_cast<unsigned>(candidate.port));
  rail->gids = candidate.gids;
  rail->gids.resize(std::min<size_t>(rail->gids.size(), kMaxGidsPerRail));
  Status status = rail->open_objects(params, candidate);
  if (status) status = rail->query(params, candidate);
  if (status) status = rail->probe_inline(params);
  if (!status) {
    return status;
  }
  rail->fill_address(params, candidate);
  return rail;
}

Status Rail::open_objects(const Params& params, const verbs::Candidate& candidate) {
  auto opened = verbs::Context::open(*candidate.table, candidate.device);
  if (!opened) return opened.status();
  context = std::move(opened.value());
  auto domain = verbs::ProtectionDomain::create(context);
  if (!domain) return domain.status();
  pd = std::move(domain.value());
  auto device = context.query_device();
  if (!device) return device.status();
  max_cqe_ = device->max_cqe;
  send_queue_depth = static_cast<uint32_t>(std::min(params.send_queue_depth, device->max_qp_wr));
  receive_count_ = static_cast<uint32_t>(std::min(params.receive_buffers, device->max_srq_wr));
  auto queue = verbs::CompletionQueue::create(context, wanted_cqe(kExpectedPeers));
  if (!queue) return queue.status();
  cq = std::move(queue.value());
  return control.open(context, pd, port,
                      std::max<uint32_t>(kSmallestPathBytes, candidate.active_mtu_bytes));
}

Status Rail::query(const Params& params, const verbs::Candidate& candidate) {
  auto device = context.query_device();
  if (!device) return device.status();
  auto port_attributes = context.query_port(port);
  if (!port_attributes) return port_attributes.status();
  if (device->max_srq == 0) {
    return {Code::kNotSupported,
            name_ + " has no shared receive queues, which this version needs."};
  }
  int error = table().device_hints(context.get(), &hints);
  if (error != 0) {
    return verbs::call_failed(name_, "device_hints", error, "");
  }
  max_operation_bytes = std::min<uint64_t>(port_attributes->max_msg_sz, uint64_t{1} << 30);
  auto clamp_reads = [&](int limit) {
    return static_cast<uint16_t>(std::clamp(std::min(limit, params.max_reads), 1, 255));
  };
  reads_as_origin = clamp_reads(device->max_qp_init_rd_atom);
  reads_as_target = clamp_reads(device->max_qp_rd_atom);
  has_atomics = device->atomic_cap != IBV_ATOMIC_NONE;
  atomics_with_cpu =
      device->atomic_cap == IBV_ATOMIC_GLOB || (has_atomics && context.has_pci_atomics());

  uint32_t mtu = candidate.active_mtu_bytes;
  if ((hints.capabilities & soft::kCapSoft) != 0 && hints.max_path_mtu_bytes != 0) {
    mtu = hints.max_path_mtu_bytes;
  }
  if (params.mtu_bytes != 0) {
    mtu = std::min(mtu, static_cast<uint32_t>(params.mtu_bytes));
  }
  address.mtu_bytes = mtu;

  chunk_bytes = static_cast<uint32_t>(params.get_chunk_bytes);
  uint64_t most_in_flight = kMostInFlight;
  if (hints.receive_budget_bytes != 0) {
    const uint32_t payload = hints.receive_budget_bytes / kTruesizePerByte;
    most_in_flight = std::min<uint64_t>(most_in_flight, payload);
    chunk_bytes = std::min(chunk_bytes, std::max(kPage, payload / 2 / kPage * kPage));
  }
  gets.start(chunk_bytes, most_in_flight, kMostGetSenders);
  return Status::ok();
}

/// Devices tell their inline size by refusing queue pairs that ask for more: searches for the
/// largest that is taken, in steps of 16 bytes.
Status Rail::probe_inline(const Params& params) {
  uint32_t refused = static_cast<uint32_t>(params.max_inline_bytes) + kHeaderBytes + 1;
  uint32_t taken = 0;
  Status last;
  for (uint32_t asked = refused - 1; asked > taken && asked < refused;) {
    inline_bytes = asked;
    auto qp = create_queue_pair();
    if (qp) {
      taken = asked;
    } else {
      refused = asked;
      last = qp.status();
    }
    asked = (taken + refused) / 2 / 16 * 16;
  }
  inline_bytes = taken;
  if (inline_bytes >= kHeaderBytes) {
    return Status::ok();
  }
  return {Code::kNotSupported, name_ + " takes " + std::to_string(inline_bytes) +
                                   " bytes inline; " + std::to_string(kHeaderBytes) +
                                   " are needed. " + last.text()};
}

Result<verbs::QueuePair> Rail::create_queue_pair() const {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = attributes.recv_cq = cq.get();
  attributes.srq = receives.srq();
  attributes.cap.max_send_wr = send_queue_depth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = inline_bytes;
  if (attributes.srq == nullptr) {
    attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 1;  // the probe of open
  }
  auto qp = verbs::QueuePair::create(pd, attributes);
  if (!qp) {
    return qp;
  }
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
               (has_atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
  if (Status status = qp->rc_to_init(port, access); !status) {
    return status;
  }
  return qp;
}

/// Entries for every receive and every send that may be posted, as far as the device goes.
int Rail::wanted_cqe(uint32_t peers) const {
  uint64_t wanted = uint64_t{receive_count_} + uint64_t{peers} * send_queue_depth + kCqSlack;
  return static_cast<int>(std::min<uint64_t>(wanted, static_cast<uint64_t>(max_cqe_)));
}

/// As many as wanted; fewer where memory for registrations is short, since the program may have
/// used up most of it before the first peer is met.
Status Rail::open_receives(uint32_t bytes) {
  for (;;) {
    Status status = receives.open(pd, receive_count_, bytes);
    if (status.code() != Code::kOutOfResources || receive_count_ / 2 < kLeastReceives) {
      return status;
    }
    receive_count_ /= 2;
  }
}

Status Rail::add_peer(const Params& params, uint32_t max_message_bytes) {
  if (!receives.is_open()) {
    if (Status status = open_receives(max_message_bytes + kHeaderBytes); !status) {
      return status;
    }
  }
  if (wanted_cqe(peers_ + 1) > cq.get()->cqe) {
    if (Status status = cq.resize(wanted_cqe(2 * peers_)); !status) {
      return status;
    }
  }
  ++peers_;
  update_grant(params);
  active.store(true, std::memory_order_release);
  return Status::ok();
}

void Rail::remove_peer(const Params& params) {
  --peers_;
  update_grant(params);
}

void Rail::update_grant(const Params& params) {
  uint32_t share = std::max<uint32_t>(2, receive_count_ / std::max<uint32_t>(1, peers_));
  grant_ = static_cast<uint16_t>(std::min(share, static_cast<uint32_t>(params.window_messages)));
}

void Rail::fill_address(const Params& params, const verbs::Candidate& candidate) {
  for (const verbs::Gid& gid : gids) {
    GidAddress out;
    out.gid = gid.bytes;
    out.type = static_cast<uint8_t>(gid.type);
    out.prefix_length = gid.prefix_length;
    out.loopback = verbs::gid_kind(gid.bytes) == verbs::GidKind::kLoopback;
    address.gids.push_back(out);
  }
  address.traffic_class = static_cast<uint8_t>(params.traffic_class);
  address.control_qpn = control.qpn();
  address.control_qkey = control.qkey();
  address.udp_port = hints.udp_port;
  address.device_kind = table().is_soft ? 1 : 0;
  address.capabilities = hints.capabilities;
  address.receive_budget_bytes = hints.receive_budget_bytes;
  address.speed_mbps = candidate.speed_mbps;
}

}  // namespace roce::transport

// Handshake packets as they come in: whose they are, and whether they are this process's.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>

#include "transport/connection_thread.h"
#include "transport/endpoint.h"
#include "transport/error_text.h"
#include "transport/request_address.h"

namespace roce::transport {
namespace {

/// Refusals to strangers whose address is being resolved; more are not answered.
constexpr int kMaxRefusalsUnderWay = 16;

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[400];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

}  // namespace

void ConnectionThread::handle_received(Rail& rail, const ControlPort::Received& received) {
  auto packet = decode_packet(received.bytes);
  if (!packet) {
    core_.counters.add(Counter::bad_handshakes);
    core_.log(3, packet.status().text());
    return;
  }
  if (packet->type != PacketType::kRefuse) {
    if (Status status = check_packet(*packet); !status) {
      refuse(rail, received, *packet, status.text());
      return;
    }
  }
  Endpoint* endpoint = core_.peers.find(packet->from);
  if (packet->type == PacketType::kRequest) {
    auto address = check_request(rail, *packet);
    if (!address) {
      refuse(rail, received, *packet, address.status().text());
      return;
    }
    bool made = false;
    endpoint = core_.peers.find_or_make(
        packet->from,
        [&](uint32_t index) { return std::make_unique<Endpoint>(core_, packet->from, index); },
        &made);
    if (endpoint == nullptr) {
      refuse(rail, received, *packet, "no room for another peer");
      return;
    }
    // The request is newer than what came from the runtime, which tells more.
    if (made || !same_end(endpoint->address(), *address, packet->path.reversed())) {
      endpoint->set_address(*address, true);
    }
  }
  if (endpoint == nullptr || packet->to != core_.local.name) {
    return;  // late, of a peer that has been removed
  }
  Connection& connection = connection_of(endpoint);
  connection.state.handle_packet(*packet, monotonic_ns());
  run_actions(connection);
}

Status ConnectionThread::check_packet(const ConnectionPacket& packet) const {
  const LocalProcess& local = core_.local;
  if (packet.version != kHandshakeVersion) {
    return {Code::kProtocol,
            format("version of the handshake: %u at %s, %u at %s; use one version of mpi-roce in "
                   "the whole job",
                   packet.version, process_text(packet.from, "").c_str(), kHandshakeVersion,
                   process_text(local.name, core_.address.host_name).c_str())};
  }
  if (packet.job_cookie != local.job_cookie) {
    return {
        Code::kProtocol,
        format("job cookie: 0x%" PRIx64 " at %s, 0x%" PRIx64 " at %s; the two are not of one job",
               packet.job_cookie, process_text(packet.from, "").c_str(), local.job_cookie,
               process_text(local.name, core_.address.host_name).c_str())};
  }
  if (packet.to != local.name) {
    return {Code::kProtocol,
            format("receiver: meant for %s, but this is %s", process_text(packet.to, "").c_str(),
                   process_text(local.name, core_.address.host_name).c_str())};
  }
  return Status::ok();
}

/// What a request adds: the sender's blob, and indices into it and into this process's rails.
Result<Address> ConnectionThread::check_request(const Rail& rail,
                                                const ConnectionPacket& packet) const {
  auto address = decode_from_request(packet.blob, packet.path);
  if (!address) {
    return address.status();
  }
  const PathPair& path = packet.path;
  if (address->job_cookie != packet.job_cookie ||
      path.remote_rail != static_cast<uint8_t>(rail.index) || path.remote_gid >= rail.gids.size()) {
    return Status(Code::kProtocol,
                  format("request names rail %u GID %u of its sender and rail %u GID %u here, "
                         "which do not exist or are not those it came by",
                         path.local_rail, path.local_gid, path.remote_rail, path.remote_gid));
  }
  return address;
}

/// Tells the sender why, by the addresses the packet came with: nothing else about it is known.
void ConnectionThread::refuse(Rail& rail, const ControlPort::Received& received,
                              const ConnectionPacket& packet, const std::string& reason) {
  core_.counters.add(Counter::bad_handshakes);
  core_.log(1, "refused a handshake packet (" + std::string(packet_type_name(packet.type)) +
                   ") from " + process_text(packet.from, "") + ": " + reason);
  if (packet.type != PacketType::kRequest || refusals_under_way_ >= kMaxRefusalsUnderWay) {
    return;
  }
  core_.counters.add(Counter::connect_refusals);
  ConnectionPacket refusal;
  refusal.type = PacketType::kRefuse;
  refusal.job_cookie = core_.local.job_cookie;
  refusal.from = core_.local.name;
  refusal.to = packet.from;
  refusal.incarnation = core_.local.incarnation;
  refusal.connection_id = packet.connection_id;
  refusal.path = packet.path.reversed();
  refusal.reason = reason;
  uint32_t index = rail.gids.front().index;
  for (const verbs::Gid& gid : rail.gids) {
    if (std::equal(gid.bytes.begin(), gid.bytes.end(), received.receiver_gid)) index = gid.index;
  }
  ibv_ah_attr attributes =
      verbs::global_address(rail.port, static_cast<uint8_t>(index), received.sender_gid,
                            static_cast<uint8_t>(core_.params.traffic_class),
                            static_cast<uint8_t>(core_.params.hop_limit));
  ++refusals_under_way_;
  helpers_.submit(
      [this, &rail, attributes, refusal, qpn = received.sender_qpn, qkey = packet.control_qkey] {
        auto made = std::make_shared<Result<verbs::AddressHandle>>(
            verbs::AddressHandle::create(rail.pd, attributes));
        post([this, &rail, made, refusal, qpn, qkey] {
          --refusals_under_way_;
          if (*made) {
            rail.control.send(made->value().get(), qpn, qkey,
                              encode_packet(refusal, rail.control.max_packet_bytes()));
            retire(std::move(made->value()));
          }
        });
      });
}

}  // namespace roce::transport

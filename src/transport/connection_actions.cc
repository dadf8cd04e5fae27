// What the connection thread does when a handshake asks for it.
#include <algorithm>
#include <bit>
#include <random>
#include <utility>

#include "transport/connection_thread.h"
#include "transport/endpoint.h"
#include "transport/link.h"
#include "transport/request_address.h"

namespace roce::transport {
namespace {

using Action = ConnectionState::Action;

/// While a job works on the queue pair or the address handle these must wait for it.
bool waits_for_job(Action::Type type) {
  return type == Action::Type::kPrepare || type == Action::Type::kEstablish ||
         type == Action::Type::kReset || type == Action::Type::kClosed;
}

/// The code of the largest verbs path MTU within `bytes`.
ibv_mtu path_mtu(uint32_t bytes) {
  uint32_t floor = std::bit_floor(std::min<uint32_t>(bytes, 4096));
  return static_cast<ibv_mtu>(IBV_MTU_256 + std::countr_zero(floor) - std::countr_zero(256u));
}

}  // namespace

void ConnectionThread::run_actions(Connection& connection) {
  while (auto action = connection.state.poll_action()) {
    connection.actions.push_back(std::move(*action));
  }
  while (!connection.actions.empty() &&
         !(connection.job_running && waits_for_job(connection.actions.front().type))) {
    Action action = std::move(connection.actions.front());
    connection.actions.pop_front();
    carry_out(connection, action);
    while (auto next = connection.state.poll_action()) {
      connection.actions.push_back(std::move(*next));
    }
  }
  if (connection.tear_down_wanted && !connection.job_running) {
    connection.tear_down_wanted = false;
    drop_queue_pair(connection);
    connection.endpoint->link().settle(Endpoint::State::kIdle, true);
  }
  uint64_t resent = connection.state.packets_resent();
  core_.counters.add(Counter::connect_requests_resent, resent - connection.resent_before);
  connection.resent_before = resent;
  timers_.erase({connection.timer, &connection});
  connection.timer = connection.state.poll_timer();
  if (connection.timer != kNever) {
    timers_.insert({connection.timer, &connection});
  }
}

void ConnectionThread::carry_out(Connection& connection, const Action& action) {
  Endpoint* endpoint = connection.endpoint;
  switch (action.type) {
    case Action::Type::kPrepare:
      prepare(connection, action.path);
      break;
    case Action::Type::kEstablish:
      establish(connection);
      break;
    case Action::Type::kSend:
      send(connection, action.packet);
      break;
    case Action::Type::kConnected:
      endpoint->link().open_for_traffic(connection.state.peer_offer(),
                                        connection.state.agreement());
      core_.counters.raise(Counter::peer_bytes_most, sizeof connection + endpoint->bytes());
      break;
    case Action::Type::kPeerClosed:
      endpoint->link().peer_closed();
      if (endpoint->link().has_queued()) {
        connect(endpoint);
      } else {
        keep_until_drained(connection);
      }
      break;
    case Action::Type::kReset:
      reset(connection);
      break;
    case Action::Type::kFailed:
      fail(connection, action.code, action.text);
      break;
    case Action::Type::kClosed:
      finish_close(connection);
      break;
  }
}

void ConnectionThread::prepare(Connection& connection, const PathPair& path) {
  connection.endpoint->link().begin_connecting();
  drop_queue_pair(connection);
  Result<Offer> offer = Status(Code::kProtocol, "the peer's address lacks the rail or GID in use");
  Address peer = connection.endpoint->address();
  if (path.remote_rail < peer.rails.size() &&
      path.remote_gid < peer.rails[path.remote_rail].gids.size()) {
    connection.peer_rail = peer.rails[path.remote_rail];
    connection.peer_gid = connection.peer_rail.gids[path.remote_gid];
    offer = make_queue_pair(connection, path);
  }
  if (!offer) {
    connection.state.handle_prepared(offer, monotonic_ns());
    return;
  }
  Rail& rail = core_.rails[path.local_rail];
  ibv_ah_attr attributes = verbs::global_address(
      rail.port, static_cast<uint8_t>(rail.gids[path.local_gid].index),
      connection.peer_gid.gid.data(), static_cast<uint8_t>(core_.params.traffic_class),
      static_cast<uint8_t>(core_.params.hop_limit),
      static_cast<uint8_t>(core_.params.service_level));
  connection.job_running = true;
  helpers_.submit([this, &connection, &rail, attributes, offer = offer.value()] {
    auto made = std::make_shared<Result<verbs::AddressHandle>>(
        verbs::AddressHandle::create(rail.pd, attributes));
    post([this, &connection, made, offer] {
      connection.job_running = false;
      if (*made) {
        retire(std::exchange(connection.ah, std::move(made->value())));
        connection.state.handle_prepared(offer, monotonic_ns());
      } else {
        connection.state.handle_prepared(made->status(), monotonic_ns());
      }
      run_actions(connection);
    });
  });
}

Result<Offer> ConnectionThread::make_queue_pair(Connection& connection, const PathPair& path) {
  Rail& rail = core_.rails[path.local_rail];
  auto max_message = static_cast<uint32_t>(core_.options.max_message_bytes);
  const bool first = !rail.receives.is_open();
  if (Status status = rail.add_peer(core_.params, max_message); !status) {
    return status;
  }
  const auto wanted = static_cast<uint32_t>(core_.params.receive_buffers);
  if (first && rail.receives.count() < wanted) {
    core_.log(1, rail.name() + " has " + std::to_string(rail.receives.count()) +
                     " receive buffers, not " + std::to_string(wanted) +
                     ": memory that may be registered, or its shared receive queue, holds no more");
  }
  connection.rail = &rail;
  auto qp = rail.create_queue_pair();
  if (!qp) {
    return qp.status();
  }
  connection.qp = std::move(qp.value());
  std::random_device random;
  Offer offer;
  offer.qpn = connection.qp.qpn();
  offer.psn = random() & 0xFFFFFF;
  offer.endpoint = connection.endpoint->index();
  offer.mtu_bytes = rail.address.mtu_bytes;
  offer.window_messages = rail.grant();
  offer.window_bytes = static_cast<uint32_t>(core_.params.window_bytes);
  if (rail.hints.receive_budget_bytes != 0) {
    // In payload this is half of the budget: others send too.
    offer.window_bytes = std::min(offer.window_bytes, rail.hints.receive_budget_bytes / 4);
  }
  offer.traffic_class = static_cast<uint8_t>(core_.params.traffic_class);
  offer.roce_version = static_cast<uint8_t>(rail.gids[path.local_gid].type);
  offer.max_message_bytes = max_message;
  offer.reads_as_target = rail.reads_as_target;
  offer.reads_as_origin = rail.reads_as_origin;
  offer.udp_port = rail.hints.udp_port;
  offer.capabilities = rail.hints.capabilities;
  offer.receive_budget_bytes = rail.hints.receive_budget_bytes;
  offer.max_path_mtu_bytes = rail.hints.max_path_mtu_bytes;
  return offer;
}

void ConnectionThread::establish(Connection& connection) {
  const ConnectionState& state = connection.state;
  const Params& params = core_.params;
  const PathPair& path = state.path();
  Rail& rail = *connection.rail;
  const Offer& peer = state.peer_offer();
  const Agreement& agreement = state.agreement();
  // Receives may come in from now on.
  connection.endpoint->link().attach(connection.qp.get(), &rail, path, state.own_offer());

  verbs::PeerHints hints;
  hints.udp_port = peer.udp_port;
  hints.capabilities = peer.capabilities;
  hints.receive_budget_bytes = peer.receive_budget_bytes;
  hints.max_path_mtu_bytes = agreement.mtu_bytes;
  verbs::RcPath rc;
  rc.path_mtu = path_mtu(agreement.mtu_bytes);
  rc.dest_qpn = peer.qpn;
  rc.rq_psn = peer.psn;
  rc.sq_psn = state.own_offer().psn;
  rc.max_dest_rd_atomic = static_cast<uint8_t>(agreement.reads_as_target);
  rc.max_rd_atomic = static_cast<uint8_t>(agreement.reads_as_origin);
  rc.min_rnr_timer = static_cast<uint8_t>(params.rnr_timer);
  rc.timeout = static_cast<uint8_t>(params.ack_timeout);
  rc.retry_count = static_cast<uint8_t>(params.retry_count);
  rc.address = verbs::global_address(
      rail.port, static_cast<uint8_t>(rail.gids[path.local_gid].index),
      connection.peer_gid.gid.data(), agreement.traffic_class,
      static_cast<uint8_t>(params.hop_limit), static_cast<uint8_t>(params.service_level));
  connection.job_running = true;
  helpers_.submit([this, &connection, &rail, hints, rc] {
    Status status;
    int error = rail.table().set_peer_hints(connection.qp.get(), &hints);
    if (error != 0) status = verbs::call_failed(rail.name(), "set_peer_hints", error, "");
    if (status) status = connection.qp.rc_to_rtr(rc);
    if (status) status = connection.qp.rc_to_rts(rc);
    post([this, &connection, status] {
      connection.job_running = false;
      connection.state.handle_established(status, monotonic_ns());
      run_actions(connection);
    });
  });
}

void ConnectionThread::send(Connection& connection, ConnectionPacket packet) {
  if (!connection.ah) {
    return;
  }
  Rail& rail = core_.rails[packet.path.local_rail];
  packet.control_qkey = rail.control.qkey();
  int copies = core_.hooks.copies_sent ? core_.hooks.copies_sent(packet) : 1;
  if (packet.type == PacketType::kRequest) {
    packet.blob = encode_for_request(core_.address, packet.path);
  }
  std::vector<uint8_t> bytes = encode_packet(packet, rail.control.max_packet_bytes());
  for (; copies > 0; --copies) {
    rail.control.send(connection.ah.get(), connection.peer_rail.control_qpn,
                      connection.peer_rail.control_qkey, bytes);
  }
}

void ConnectionThread::fail(Connection& connection, Code code, const std::string& reason) {
  Endpoint* endpoint = connection.endpoint;
  PathPair path = connection.state.path();
  Address address = endpoint->address();
  if (code == Code::kProtocol) {
    core_.counters.add(Counter::connect_refusals);
  }
  Offer own = connection.state.own_offer(), peer = connection.state.peer_offer();
  std::string text =
      describe_connect_failure({core_, core_.rails[path.local_rail], path, own, peer,
                                connection.state.agreement(), address, endpoint->name(), nullptr},
                               code, reason);
  endpoint->link().fail(text);
  connection.tear_down_wanted = true;
}

/// Forgets the queue pair. What was queued stays, and connects anew if nobody else does.
void ConnectionThread::reset(Connection& connection) {
  drop_queue_pair(connection);
  bool idle = connection.state.state() == ConnectionState::State::kIdle;
  bool reconnect = idle && connection.endpoint->link().has_queued();
  connection.endpoint->link().settle(
      idle && !reconnect ? Endpoint::State::kIdle : Endpoint::State::kConnecting, false);
  if (reconnect) {
    connect(connection.endpoint);
  }
}

void ConnectionThread::drop_queue_pair(Connection& connection) {
  if (Link* link = connection.endpoint->link_if_any()) link->detach();
  connection.qp = {};
  if (connection.rail != nullptr) {
    connection.rail->remove_peer(core_.params);
    connection.rail = nullptr;
  }
}

void ConnectionThread::finish_close(Connection& connection) {
  drop_queue_pair(connection);
  retire(std::move(connection.ah));
  connection.endpoint->remove();
  if (connection.done != nullptr) {
    connection.done->store(true, std::memory_order_release);
    connection.done = nullptr;
  }
}

}  // namespace roce::transport

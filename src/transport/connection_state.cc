#include "transport/connection_state.h"

#include <algorithm>
#include <cstdio>

namespace roce::transport {

using State = ConnectionState::State;

void ConnectionState::connect(const PathPair& path, uint64_t connection_id, TimeNs now) {
  if (state_ == State::kClosed && !closed_here_) {
    emit(Action::Type::kReset);
  } else if (state_ != State::kIdle) {
    return;
  }
  connection_id_ = connection_id;
  begin(path, true, now);
}

void ConnectionState::begin(const PathPair& path, bool active, TimeNs now) {
  active_ = active;
  state_ = State::kPreparing;
  started_ = now;
  resend_ns_ = 0;
  packets_sent_ = 0;
  deadline_ = timer_ = now + local_->connect_timeout_ns;
  prepare(path);
}

void ConnectionState::prepare(const PathPair& path) {
  path_ = path;
  prepared_ = false;
  if (preparing_) {
    return;  // its result shows that it is out of date
  }
  preparing_ = true;
  preparing_path_ = path;
  emit(Action::Type::kPrepare);
}

void ConnectionState::handle_prepared(const Result<Offer>& offer, TimeNs now) {
  preparing_ = false;
  if (state_ != State::kPreparing) {
    return;
  }
  if (!(preparing_path_ == path_)) {
    prepare(path_);
    return;
  }
  if (!offer) {
    fail(offer.status().code(), offer.status().text());
    return;
  }
  prepared_ = true;
  own_ = offer.value();
  if (is_self()) {
    establish(own_);
  } else if (active_) {
    state_ = State::kRequested;
    send_and_arm(PacketType::kRequest, now);
  } else {
    establish(peer_offer_);
  }
}

void ConnectionState::establish(const Offer& peer_offer) {
  peer_offer_ = peer_offer;
  Result<Agreement> agreement = agree(own_, peer_offer);
  if (!agreement) {
    fail(Code::kProtocol, agreement.status().text());
    return;
  }
  agreement_ = agreement.value();
  state_ = State::kEstablishing;
  timer_ = deadline_;
  emit(Action::Type::kEstablish);
}

void ConnectionState::handle_established(const Status& status, TimeNs now) {
  if (state_ != State::kEstablishing) {
    return;
  }
  if (!status) {
    fail(status.code(), status.text());
  } else if (is_self()) {
    connected();
  } else if (active_) {
    send(PacketType::kReady);
    connected();
  } else {
    state_ = State::kReplied;
    resend_ns_ = 0;
    send_and_arm(PacketType::kReply, now);
  }
}

void ConnectionState::connected() {
  state_ = State::kConnected;
  timer_ = deadline_ = kNever;
  emit(Action::Type::kConnected);
}

void ConnectionState::handle_data() {
  if (state_ == State::kReplied) {
    connected();
  }
}

void ConnectionState::handle_packet(const ConnectionPacket& packet, TimeNs now) {
  if (packet.incarnation < peer_incarnation_) {
    return;  // from a process that has had the peer's name before
  }
  if (packet.incarnation > peer_incarnation_ && peer_incarnation_ != 0) {
    if (state_ == State::kConnected || state_ == State::kReplied) {
      fail(Code::kUnreachable, "the peer was started anew");
      return;
    }
    last_peer_id_ = 0;
  }
  peer_incarnation_ = packet.incarnation;
  if (packet.type == PacketType::kRequest) {
    handle_request(packet, now);
    return;
  }
  if (packet.connection_id != connection_id_) {
    return;
  }
  switch (packet.type) {
    case PacketType::kReply:
      if (state_ == State::kRequested) {
        establish(packet.offer);
      } else if (state_ == State::kConnected && active_) {
        send(PacketType::kReady);  // the first one was lost
      }
      break;
    case PacketType::kReady:
      handle_data();
      break;
    case PacketType::kRefuse:
      // Once connected only an out of date refusal can come in.
      if (state_ == State::kRequested || state_ == State::kReplied) {
        prepared_ = false;  // no refusal in answer to a refusal
        fail(Code::kProtocol, "the peer refuses: " + packet.reason);
      }
      break;
    case PacketType::kClose:
      if (state_ == State::kConnected || state_ == State::kReplied) {
        state_ = State::kClosed;
        timer_ = kNever;
        emit(Action::Type::kPeerClosed);
      }
      if (state_ == State::kClosed || state_ == State::kClosing) {
        send(PacketType::kCloseAck);
      }
      break;
    case PacketType::kCloseAck:
      if (state_ == State::kClosing) {
        state_ = State::kClosed;
        timer_ = kNever;
        emit(Action::Type::kClosed);
      }
      break;
    default:
      break;
  }
}

void ConnectionState::handle_request(const ConnectionPacket& packet, TimeNs now) {
  bool repeated = !active_ && packet.connection_id == connection_id_;
  if (packet.connection_id < last_peer_id_) {
    return;
  }
  last_peer_id_ = packet.connection_id;
  switch (state_) {
    case State::kIdle:
      accept(packet, now);
      break;
    case State::kPreparing:
    case State::kRequested:
      if (active_ && yields_to_peer()) {
        accept(packet, now);
      }
      break;
    case State::kReplied:
    case State::kConnected:
      if (repeated) {
        send(PacketType::kReply);
      } else if (!active_) {
        emit(Action::Type::kReset);  // it has dropped the connection, and its close was lost
        accept(packet, now);
      }
      break;
    case State::kClosed:
      if (!repeated && !closed_here_) {
        emit(Action::Type::kReset);
        accept(packet, now);
      }
      break;
    case State::kFailed:
      connection_id_ = packet.connection_id;
      send(PacketType::kRefuse);
      break;
    case State::kEstablishing:
    case State::kClosing:
      break;
  }
}

void ConnectionState::accept(const ConnectionPacket& packet, TimeNs now) {
  connection_id_ = packet.connection_id;
  peer_offer_ = packet.offer;
  PathPair path = packet.path.reversed();
  bool reuse = prepared_ && path == path_ && state_ == State::kRequested;
  if (!reuse) {
    begin(path, false, now);
    return;
  }
  active_ = false;
  deadline_ = now + local_->connect_timeout_ns;
  establish(packet.offer);
}

void ConnectionState::close(TimeNs now) {
  closed_here_ = true;
  switch (is_self() ? State::kClosed : state_) {
    case State::kEstablishing:
    case State::kReplied:
    case State::kConnected:
      state_ = State::kClosing;
      close_attempts_ = 0;
      handle_timer(now);
      break;
    case State::kRequested:
      send(PacketType::kClose);
      [[fallthrough]];
    default:
      state_ = State::kClosed;
      timer_ = kNever;
      emit(Action::Type::kClosed);
      break;
  }
}

void ConnectionState::handle_timer(TimeNs now) {
  if (state_ == State::kClosing) {
    if (close_attempts_ == kCloseAttempts) {
      state_ = State::kClosed;
      timer_ = kNever;
      emit(Action::Type::kClosed);
      return;
    }
    ++close_attempts_;
    send(PacketType::kClose);
    timer_ = now + kFirstResendNs;
    return;
  }
  if (now < timer_) {
    return;
  }
  if (now >= deadline_) {
    expire(now);
  } else if (state_ == State::kRequested || state_ == State::kReplied) {
    ++packets_resent_;
    send_and_arm(active_ ? PacketType::kRequest : PacketType::kReply, now);
  }
}

void ConnectionState::expire(TimeNs now) {
  double seconds = static_cast<double>(now - started_) * 1e-9;
  char text[160];
  if (!active_) {
    // Whoever asked has gone or given up. Not this side's failure: it has not wanted anything yet.
    state_ = State::kIdle;
    timer_ = deadline_ = kNever;
    prepared_ = false;
    emit(Action::Type::kReset);
    return;
  }
  if (state_ == State::kRequested) {
    std::snprintf(text, sizeof text, "no answer to %llu connection requests in %.1f s",
                  static_cast<unsigned long long>(packets_sent_), seconds);
  } else {
    std::snprintf(text, sizeof text, "the device has not resolved the peer's address in %.1f s",
                  seconds);
  }
  fail(Code::kTimedOut, text);
}

void ConnectionState::fail(Code code, const std::string& text) {
  give_up(text);
  actions_.push_back({Action::Type::kFailed, path_, {}, code, text});
}

void ConnectionState::give_up(const std::string& reason) {
  reason_ = reason;
  state_ = State::kFailed;
  timer_ = deadline_ = kNever;
  if (connection_id_ != 0) {
    send(PacketType::kRefuse);
  }
}

void ConnectionState::send(PacketType type) {
  if (!prepared_) {
    return;
  }
  Action action{Action::Type::kSend, path_, {}, Code::kOk, {}};
  ConnectionPacket& packet = action.packet;
  packet.type = type;
  packet.job_cookie = local_->job_cookie;
  packet.from = local_->name;
  packet.to = peer_;
  packet.incarnation = local_->incarnation;
  packet.connection_id = connection_id_;
  packet.path = path_;
  if (type == PacketType::kRequest || type == PacketType::kReply) {
    packet.offer = own_;
  }
  if (type == PacketType::kRefuse) {
    packet.reason = reason_;
  }
  actions_.push_back(std::move(action));
}

void ConnectionState::send_and_arm(PacketType type, TimeNs now) {
  ++packets_sent_;
  send(type);
  resend_ns_ = resend_ns_ == 0 ? kFirstResendNs : std::min(2 * resend_ns_, kMaxResendNs);
  timer_ = std::min(now + resend_ns_, deadline_);
}

std::optional<ConnectionState::Action> ConnectionState::poll_action() {
  if (actions_.empty()) {
    return std::nullopt;
  }
  Action action = std::move(actions_.front());
  actions_.pop_front();
  return action;
}

}  // namespace roce::transport

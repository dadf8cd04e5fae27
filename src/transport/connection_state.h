// The handshake of one connection as a state machine without verbs, threads and clocks: packets,
// results and time go in, actions and packets come out.
//
//   active:  kIdle -connect-> kPreparing -prepared-> kRequested -kReply-> kEstablishing
//            -established, kReady sent-> kConnected
//   passive: kIdle -kRequest-> kPreparing -prepared-> kEstablishing -established, kReply sent->
//            kReplied -kReady-> kConnected
//
// Requests and replies are sent again at 20 ms, doubling to 500 ms, until the connect timeout;
// every packet may be lost, duplicated or late. If both sides ask at once, the request of the lower
// process name stands: its sender ignores the other's, the other becomes passive.
//
// Methods: commands (connect, close), results of actions (handle_prepared, handle_established),
// events (handle_packet, handle_timer, handle_data), outputs (poll_action until empty after each
// of the former, poll_timer), getters.
#ifndef ROCE_TRANSPORT_CONNECTION_STATE_H_
#define ROCE_TRANSPORT_CONNECTION_STATE_H_

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "roce/status.h"
#include "transport/connection_packet.h"

namespace roce::transport {

/// Nanoseconds of a monotonic clock.
using TimeNs = uint64_t;
inline constexpr TimeNs kNever = UINT64_MAX;
inline constexpr TimeNs kFirstResendNs = 20'000'000, kMaxResendNs = 500'000'000;
/// A close is sent at most this often; a peer that is gone holds nobody up longer than 100 ms.
inline constexpr int kCloseAttempts = 4;

/// What holds for all connections of a process.
struct LocalProcess {
  ProcessName name;
  uint64_t job_cookie = 0;
  uint64_t incarnation = 0;
  TimeNs connect_timeout_ns = 10'000'000'000;
};

/// What the two use.
struct Agreement {
  uint32_t mtu_bytes = 0;
  uint8_t traffic_class = 0;
  uint32_t window_messages = 0, window_bytes = 0;  ///< What this side may have unconsumed.
  uint16_t reads_as_origin = 0, reads_as_target = 0;
};
/// kProtocol with both values if the two cannot work together.
Result<Agreement> agree(const Offer& own, const Offer& peer);

class ConnectionState {
 public:
  enum class State {
    kIdle,
    kPreparing,
    kRequested,
    kEstablishing,
    kReplied,
    kConnected,
    kClosing,
    kClosed,
    kFailed
  };

  struct Action {
    enum class Type {
      /// Make a queue pair in INIT and a way to send packets along `path`; answer with
      /// handle_prepared. Replaces what an earlier kPrepare made.
      kPrepare,
      /// Take the queue pair to RTS with the peer's offer and the agreement; answer with
      /// handle_established.
      kEstablish,
      kSend,        ///< `packet`, along the path prepared last; requests without blob. May be lost.
      kConnected,   ///< Data may flow.
      kPeerClosed,  ///< The peer will send and receive no more.
      kReset,       ///< Forget the queue pair and what was posted to it; connect anew if needed.
      kFailed,      ///< For good; `text` tells why.
      kClosed,      ///< The close that was asked for is done.
    };
    Type type;
    PathPair path;
    ConnectionPacket packet;
    Code code = Code::kOk;  ///< kFailed: kTimedOut, kProtocol (refused), or what a call answered.
    std::string text;
  };

  ConnectionState(const LocalProcess* local, ProcessName peer) : local_(local), peer_(peer) {}

  /// Starts a connection along `path`; without effect if one exists or is under way.
  void connect(const PathPair& path, uint64_t connection_id, TimeNs now);
  /// Says goodbye; kClosed follows.
  void close(TimeNs now);

  /// The last kPrepare has been carried out: what this side offers, or why it could not.
  void handle_prepared(const Result<Offer>& offer, TimeNs now);
  void handle_established(const Status& status, TimeNs now);

  /// A packet from the peer whose cookie, version and receiver are right (the caller sees to it).
  void handle_packet(const ConnectionPacket& packet, TimeNs now);
  void handle_timer(TimeNs now);
  /// A message came over the queue pair: the peer is ready although its kReady was lost.
  void handle_data();
  /// The connection failed outside the handshake; kFailed does not follow.
  void give_up(const std::string& reason);

  std::optional<Action> poll_action();
  /// When handle_timer wants to be called, kNever if not.
  TimeNs poll_timer() const { return timer_; }

  State state() const { return state_; }
  bool is_active() const { return active_; }
  const PathPair& path() const { return path_; }
  const Offer& own_offer() const { return own_; }
  const Offer& peer_offer() const { return peer_offer_; }
  const Agreement& agreement() const { return agreement_; }
  uint64_t packets_resent() const { return packets_resent_; }

 private:
  void begin(const PathPair& path, bool active, TimeNs now);
  void prepare(const PathPair& path);
  void establish(const Offer& peer_offer);
  void handle_request(const ConnectionPacket& packet, TimeNs now);
  void accept(const ConnectionPacket& packet, TimeNs now);
  void connected();
  void fail(Code code, const std::string& text);
  void expire(TimeNs now);
  void send(PacketType type);
  void send_and_arm(PacketType type, TimeNs now);
  void emit(Action::Type type) { actions_.push_back({type, path_, {}, Code::kOk, {}}); }
  bool yields_to_peer() const { return peer_ < local_->name; }
  /// A queue pair connected to itself needs no handshake.
  bool is_self() const { return peer_ == local_->name; }

  const LocalProcess* local_;
  ProcessName peer_;
  State state_ = State::kIdle;
  bool active_ = false;     ///< This side's request stands.
  bool prepared_ = false;   ///< Packets can be sent along path_.
  bool preparing_ = false;  ///< A result of kPrepare is outstanding.
  PathPair path_, preparing_path_;
  uint64_t connection_id_ = 0;
  uint64_t last_peer_id_ = 0;  ///< Highest connection id the peer has chosen; lower ones are late.
  uint64_t peer_incarnation_ = 0;
  Offer own_, peer_offer_;
  Agreement agreement_;
  std::string reason_;  ///< Why it failed, for a peer that asks again.
  TimeNs timer_ = kNever, deadline_ = kNever, started_ = 0, resend_ns_ = 0;
  bool closed_here_ = false;  ///< close() was called: there is no way back.
  int close_attempts_ = 0;
  uint64_t packets_sent_ = 0, packets_resent_ = 0;
  std::list<Action> actions_;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_CONNECTION_STATE_H_

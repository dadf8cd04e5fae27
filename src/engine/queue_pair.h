// One queue pair as a state machine without I/O.
//
// Four families of methods, and the order in which a driver calls them:
// - commands: post_send, post_recv, set_attributes, set_limits, set_state; from the program;
// - events: handle_packet, handle_atomic_result, handle_gather_fault, handle_timer; from network,
//   memory and clock;
// - outputs: poll_packet, poll_ack, poll_completion, poll_timer, take_events; drained by the driver
//   after commands and events;
// - getters: everything const.
// For every received packet: verify its ICRC; handle_packet; carry out Effects (keep, placement,
// atomic and handle_atomic_result, invalidation); then drain poll_completion (a completion must not
// be seen before the bytes are in place); then the same for each kept packet that take_kept names.
// After a batch of packets: poll_packet until false or until the driver's burst limit, then
// poll_ack. poll_timer afterwards gives the time of the next handle_timer. Scatter lists in
// OutPacket and Placement are valid until the next command, or until poll_completion reports their
// request. A queue pair is not thread-safe: its driver serialises all calls.
#ifndef ROCE_ENGINE_QUEUE_PAIR_H_
#define ROCE_ENGINE_QUEUE_PAIR_H_

#include <cstdint>
#include <memory>

#include "engine/receive_queue.h"
#include "engine/types.h"

namespace roce::engine {

class Datagram;
class Requester;
class Responder;
class SendRing;
struct Core;

struct QpConfig {
  QpType type = QpType::kRc;
  uint32_t qpn = 0;
  uint32_t send_depth = 1;
  uint32_t max_send_sge = 1;
  bool signal_all = false;  ///< Every send request makes a completion.
};

/// Values set by modify; units and ranges as in ibv_qp_attr.
struct QpAttributes {
  uint32_t path_mtu_bytes = 1024;  ///< RC segment size; between soft devices that agreed it may
                                   ///< exceed 4096. UD: largest message.
  uint32_t dest_qpn = 0;
  uint32_t sq_psn = 0, rq_psn = 0;
  uint32_t qkey = 0;    ///< UD.
  unsigned access = 0;  ///< Remote access that the responder allows (qp_access_flags).
  uint8_t max_rd_atomic = 1, max_dest_rd_atomic = 1;  ///< At most kMaxRdAtomic.
  uint8_t min_rnr_timer = 12;
  uint8_t timeout = 14;
  uint8_t retry_cnt = 7, rnr_retry = 7;
  bool lazy_ack = false;   ///< Both ends agreed: the responder acknowledges within 400 us, sooner
                           ///< than the shortest resend time, messages that do not ask for it, and
                           ///< the requester does not ask where no completion is made.
  bool selective = false;  ///< Both ends agreed: packets that come early are kept, and only what is
                           ///< missing is sent again (wire::Opcode::kRcSelectiveAck).
};

/// Limits that the driver derives from the path (receive budgets); may change at any time.
struct PathLimits {
  uint32_t max_inflight_bytes =
      64 * 1024;  ///< Unacknowledged SEND and WRITE payload, at least one packet is always allowed.
                  ///< The engine halves its own window on loss and grows it back to this bound.
  uint32_t packet_bytes_at_least =
      0;  ///< So many packets in flight count as having this payload each, if they have less.
  uint32_t read_segment_bytes =
      0;  ///< A READ work request goes out as several READ requests of at most this length (rounded
          ///< down to the path MTU, at least one); 0: not split.
  uint32_t max_read_bytes = UINT32_MAX;  ///< READ response bytes outstanding over all READ requests
                                         ///< (at least one request is always allowed).
};

class QueuePair {
 public:
  /// receive: own or shared receive queue, outlives the queue pair; shared: `is_srq` (not flushed
  /// on error). memory, counters: outlive it too.
  QueuePair(const QpConfig& config, ReceiveQueue& receive, bool is_srq, const Memory& memory,
            Counters& counters);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // ---- commands ----
  /// 0, or an errno value: ENOMEM queue full, EINVAL malformed (opcode not of this type, too many
  /// elements, length above 2^31, UD: above the path MTU, atomics: not 8), EINVAL also in RESET,
  /// INIT and RTR. ERR and SQE: accepted and flushed.
  int post_send(const SendRequest& request, TimeNs now);
  /// Only for an own receive queue. In ERR: accepted and flushed.
  int post_recv(const RecvRequest& request);
  /// Comes before RTR; lazy_ack and selective may be switched on at any time. 0, or ENOMEM, and
  /// nothing has changed: makes the places for READ and atomic requests.
  int set_attributes(const QpAttributes& attributes);
  void set_limits(const PathLimits& limits);
  /// The driver has checked that verbs allow the transition. kReset drops all state (queued
  /// receives too, unless shared), kErr flushes.
  void set_state(QpState state, TimeNs now);

  // ---- events ----
  void handle_packet(const wire::Header& header, uint32_t payload_length,
                     bool congestion_experienced, TimeNs now, Effects& effects);
  void handle_atomic_result(uint64_t original);
  /// The driver has kept the packet with this PSN, see Effects::keep.
  void keep(Keep kind, uint32_t psn);
  /// The turn of a kept packet has come: the driver handles and frees it. False: none.
  bool take_kept(Keep& kind, uint32_t& psn);
  /// The payload of a packet that poll_packet gave out cannot be read (key gone, out of range):
  /// send queue: local protection error and ERR; READ response: NAK remote access error instead.
  void handle_gather_fault(const OutPacket& packet, TimeNs now);
  void handle_timer(TimeNs now);

  // ---- outputs ----
  /// Next packet other than a plain ACK: requests, resends, READ and atomic responses, NAKs. False:
  /// nothing may leave now.
  bool poll_packet(TimeNs now, OutPacket& out);
  /// The pending coalesced ACK. ride: a packet to the peer leaves now anyway, so take it whatever
  /// its deferral; otherwise only when it is due. Held only while earlier READ or atomic responses
  /// wait (order of PSNs).
  bool poll_ack(TimeNs now, bool ride, OutPacket& out);
  bool poll_completion(Completion& out);
  /// Time of the next handle_timer or due ACK; kNever if none.
  TimeNs poll_timer() const;
  unsigned take_events();  ///< Event bits since the last call.

  // ---- getters ----
  QpState state() const;
  uint32_t qpn() const;
  const QpAttributes& attributes() const;
  uint32_t send_queue_used() const;
  uint32_t inflight_bytes() const;
  uint32_t next_psn() const;      ///< sq_psn as ibv_query_qp shows it.
  uint32_t expected_psn() const;  ///< rq_psn.
  TimeNs smoothed_rtt() const;    ///< 0 before the first sample.
  /// What an error text needs: since when the oldest unacknowledged request waits (kNever: none),
  /// retries used, last PSN acknowledged; and how often it was sent again.
  struct Trouble {
    TimeNs oldest_unacked_since = kNever;
    uint32_t retries = 0;
    uint32_t resends = 0;  ///< After timeouts, since the last progress; counted up to 16.
    uint32_t last_acked_psn = 0;
  };
  Trouble trouble() const;
  size_t bytes() const;  ///< Memory that it holds, without its receive queue.

 private:
  bool flushing() const;
  SendRing& send_ring();

  std::unique_ptr<Core> core_;
  std::unique_ptr<Requester> requester_;  ///< RC only.
  std::unique_ptr<Responder> responder_;  ///< RC only.
  std::unique_ptr<Datagram> datagram_;    ///< UD only.
  const bool is_rc_;
  bool responses_first_ = true;  ///< Requests and responses take turns.
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_QUEUE_PAIR_H_

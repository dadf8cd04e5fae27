// The sending half of a reliable connection: posting, window, packets, acknowledgements, recovery.
//
// Split by event: requester.cc posts and makes packets, requester_ack.cc takes what the responder
// answers, requester_repair.cc what is told to be missing, requester_timer.cc takes the clock.
// Sequence numbers are 64 bits wide inside (PSN = the lower 24), so that nothing here wraps.
// Invariants:
// - una_ <= nxt_ <= max_: [una_, nxt_) is in flight, [nxt_, max_) was in flight before the last
//   go-back and is sent again, nothing at or beyond max_ was ever given out. Where the peer keeps
//   what comes early, packets of [nxt_, max_) that are there already, or that nobody misses, are
//   passed over instead (skip_one): they count as in flight;
// - una_ lies in request ring_.done() (or before the first that was never started), nxt_ in cur_;
// - the resend timer runs exactly while an answer is owed (asked_ > una_); the budget of the
// attribute
//   `timeout` runs on from the first such moment until progress, over all resends.
// Rules: InfiniBand specification volume 1, 9.7 (PSN, ACK, NAK, timers), 9.9.2 (requester errors).
#ifndef ROCE_ENGINE_REQUESTER_H_
#define ROCE_ENGINE_REQUESTER_H_

#include <cstdint>

#include "engine/core.h"
#include "engine/index_ring.h"
#include "engine/psn_map.h"
#include "engine/send_ring.h"

namespace roce::engine {

class Requester {
 public:
  explicit Requester(Core& core);

  // Commands.
  int post(const SendRequest& request);
  /// Before attributes that allow so many READ and atomic requests. False: out of memory.
  bool reserve(uint32_t requests) {
    return outstanding_.ends.reserve(requests, outstanding_.tail, outstanding_.head);
  }
  void start(uint32_t psn);  ///< Entry into RTS.
  void reset();
  void limits_changed(const PathLimits& before);
  void drain();  ///< Entry into SQD: finishes what was begun, then raises kEventSqDrained.

  // Events. The header's opcode is an ACK, an atomic acknowledge or a READ response.
  void handle_response(const wire::Header& header, uint32_t payload_length, TimeNs now,
                       Effects& effects);
  void keep(uint32_t psn) { kept_.set(seq_of(psn)); }
  bool take_kept(uint32_t& psn);
  void handle_gather_fault(uint32_t psn);
  void handle_timer(TimeNs now);

  // Outputs.
  bool poll_packet(TimeNs now, OutPacket& out);
  TimeNs poll_timer() const;
  SendRing& ring() { return ring_; }
  const SendRing& ring() const { return ring_; }

  // Getters.
  uint32_t inflight_bytes() const { return inflight_bytes_; }
  uint32_t next_psn() const { return static_cast<uint32_t>(max_) & wire::kPsnMask; }
  TimeNs smoothed_rtt() const { return srtt_ns_; }
  QueuePair::Trouble trouble() const;
  size_t bytes() const { return sizeof *this + ring_.bytes() + outstanding_.ends.bytes(); }

 private:
  enum class Loss : uint8_t { kSequenceNak, kImpliedNak, kTimeout, kRnr };

  /// The READ and atomic requests that wait for responses, oldest first.
  struct Outstanding {
    IndexRing<uint64_t> ends;
    uint32_t head = 0, tail = 0;
    uint32_t count() const { return head - tail; }
    void push(uint64_t end) { ends[head++] = end; }
    void pop_until(uint64_t seq) {
      while (tail != head && ends[tail] <= seq) ++tail;
    }
    void clear() { tail = head; }
  };

  // requester.cc
  bool may_send(TimeNs now) const;
  void begin_request(WorkRequest& request);
  bool poll_message_packet(WorkRequest& request, TimeNs now, OutPacket& out);
  bool poll_read_request(WorkRequest& request, TimeNs now, OutPacket& out);
  bool poll_atomic_request(WorkRequest& request, TimeNs now, OutPacket& out);
  bool may_start_answered(uint64_t bytes) const;
  void finish_packet(const WorkRequest& request, uint32_t psns, bool asks, TimeNs now,
                     OutPacket& out);
  void seek(uint64_t seq);
  void check_drained();

  // requester_ack.cc
  uint64_t seq_of(uint32_t psn) const;
  bool acknowledge(uint64_t end);
  void progress(uint64_t before, TimeNs now);
  void handle_ack(const wire::Header& header, TimeNs now, Effects& effects);
  void handle_nak(const wire::Header& header, uint64_t seq, TimeNs now, Effects& effects);
  void handle_sequence_nak(TimeNs now);
  void handle_rnr(uint8_t code, TimeNs now);
  void handle_data(const wire::Header& header, uint32_t payload_length, TimeNs now,
                   Effects& effects);
  void implied_nak(uint64_t end, TimeNs now);
  void take_read_response(uint64_t seq, uint32_t payload_length, TimeNs now, Effects& effects);
  void take_atomic_response(TimeNs now, Effects& effects);
  void answered_one(TimeNs now);
  void fail(WcStatus status);

  // requester_repair.cc
  void handle_selective_ack(const wire::Header& header, TimeNs now, Effects& effects);
  void keep_or_drop(uint64_t seq, TimeNs now, Effects& effects);
  void repair(uint64_t end, TimeNs now);
  void peer_passed(uint64_t seq);
  uint32_t missing(uint64_t from, uint64_t to) const;
  bool is_kept(uint64_t seq) const;
  bool peer_has(uint64_t seq) const;
  bool wanted_again(uint64_t seq) const { return seq >= resend_from_ && seq < resend_to_; }
  bool skip_one(TimeNs now);
  uint32_t skip_answered(const WorkRequest& request) const;
  uint32_t read_run(const WorkRequest& request) const;
  bool is_read_boundary(const WorkRequest& request, uint64_t seq) const;
  void advance_una(uint64_t seq);

  // requester_timer.cc
  TimeNs resend_timeout() const;
  void arm_timer(TimeNs now);
  void restart_timer(TimeNs now);
  void stop_timer();
  void end_timing(TimeNs now);
  void take_rtt_sample(TimeNs sample);
  void go_back(Loss loss, TimeNs now);
  void rewind();
  void grow_window(uint64_t acked_bytes);

  /// What is in flight and `payload` bytes in one more packet, as it counts against the window.
  uint64_t in_flight_with(uint32_t payload) const {
    return std::max<uint64_t>(uint64_t{inflight_bytes_} + payload,
                              uint64_t{inflight_packets_ + 1} * core_.limits.packet_bytes_at_least);
  }
  bool answer_owed() const { return asked_ > una_; }
  /// nxt_ walks over what was in flight before, with knowledge of what is missing.
  bool repairing() const { return core_.attributes.selective && nxt_ < max_; }
  bool started(uint64_t index) const { return index < started_; }

  Core& core_;
  SendRing ring_;

  // Sequence.
  uint64_t una_ = 0, nxt_ = 0, max_ = 0;
  uint64_t cur_ = 0;             ///< Request that nxt_ lies in.
  uint64_t started_ = 0;         ///< Requests below have their sequence numbers.
  uint64_t offset_ = 0;          ///< Bytes of request cur_ before nxt_.
  uint64_t fault_ = kNoRequest;  ///< Its payload cannot be read: fails when its turn comes.
  bool draining_ = false;

  // Window.
  uint32_t inflight_bytes_ = 0;  ///< SEND and WRITE payload in [una_, nxt_).
  uint32_t inflight_packets_ = 0;
  uint32_t window_bytes_ = 0;
  uint64_t recover_ = 0;  ///< Losses below belong to the round trip that halved the window already.
  uint64_t read_bytes_ = 0;  ///< Response bytes that outstanding READ requests still owe.
  Outstanding outstanding_;

  // Selective repair.
  PsnMap kept_;                ///< Responses of (una_, una_ + 512) that the driver keeps.
  PsnMap peer_has_;            ///< Requests of (una_, una_ + 512) that the peer keeps.
  uint64_t peer_expects_ = 0;  ///< All requests below have been executed.
  uint64_t resend_from_ = 0, resend_to_ = 0;  ///< Where the walk to max_ sends what is missing.
  uint64_t repaired_to_ = 0;                  ///< All missing below was sent again
  TimeNs repaired_at_ = 0;                    ///< at this time or later.

  // Requests for acknowledgement.
  uint64_t asked_ = 0;  ///< End of the newest packet that must be answered.
  uint32_t since_asked_ = 0;
  bool ask_next_ = false;  ///< After a go-back the first packet asks.
  bool probing_ = false;   ///< After a timeout one packet at a time until something is heard.

  // Timers.
  TimeNs due_since_ = kNever;        ///< Since when the oldest unacknowledged packet waits.
  TimeNs unit_deadline_ = kNever;    ///< End of the current unit of the attribute `timeout`.
  TimeNs resend_deadline_ = kNever;  ///< Adaptive resend inside the unit.
  TimeNs rnr_until_ = kNever;
  TimeNs went_back_at_ = kNever;  ///< Last go-back without progress since.
  uint32_t backoff_ = 0;          ///< Timeouts since the last progress.
  uint32_t patience_ = 0;         ///< Timeouts since a round trip was measured.
  uint32_t retries_ = 0;
  uint32_t sequence_naks_ = 0;
  uint32_t rnr_naks_ = 0;

  // Round trip time.
  uint64_t timed_end_ = 0;  ///< The packet that is being timed ends the sample when una_ reaches
                            ///< this; 0: none.
  TimeNs timed_at_ = 0;
  TimeNs srtt_ns_ = 0, rttvar_ns_ = 0, min_rtt_ns_ = kNever;
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_REQUESTER_H_

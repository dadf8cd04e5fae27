// The receiving half of a reliable connection: requests in order, placements, ACK and NAK, replay.
//
// Split by event: responder.cc takes requests, responder_ack.cc answers with ACK and NAK,
// responder_gap.cc looks at what comes before its turn, responder_read.cc keeps READ and atomic
// requests, answers them and replays them. Invariants:
// - a request is executed exactly when its PSN is the expected one, so each is executed once;
// - READ and atomic requests stand in the order of their PSNs in requests_, and their responses
//   leave in that order; an ACK or NAK never overtakes the response to an earlier request;
// - the oldest entries of requests_ are history, kept only for replay.
// Rules: InfiniBand specification volume 1, 9.7.4 (checks), 9.7.5 (responses), 9.9.3 (errors).
#ifndef ROCE_ENGINE_RESPONDER_H_
#define ROCE_ENGINE_RESPONDER_H_

#include <cstdint>

#include "engine/core.h"
#include "engine/index_ring.h"
#include "engine/psn_map.h"

namespace roce::engine {

class Responder {
 public:
  explicit Responder(Core& core) : core_(core) {}

  // Commands.
  /// Before attributes that allow so many READ and atomic requests. False: out of memory.
  bool reserve(uint32_t requests) { return requests_.reserve(requests, oldest_, newest_); }
  void start(uint32_t psn);  ///< Entry into RTR.
  void reset();

  // Events. The header's opcode is a request of a reliable connection.
  void handle_request(const wire::Header& header, uint32_t payload_length, TimeNs now,
                      Effects& effects);
  /// In state ERR: the peer may have lost the NAK that says why.
  void handle_request_after_error(const wire::Header& header);
  void handle_atomic_result(uint64_t original);
  void keep(uint32_t psn);
  bool take_kept(uint32_t& psn);
  void handle_gather_fault(const OutPacket& packet);
  /// A request of the own send queue leaves for the first time (see deferral in poll_ack).
  void data_leaves(TimeNs now);

  // Outputs.
  bool has_output() const {
    return pending_ != 0 || nak_ != Nak::kNone || repairs_head_ != repairs_tail_;
  }
  bool poll_packet(OutPacket& out);
  bool poll_ack(TimeNs now, bool ride, OutPacket& out);
  /// The receive request of an unfinished message, flushed by an error. False: none.
  bool poll_flushed(Completion& out);
  TimeNs poll_timer() const;

  uint32_t expected_psn() const { return expected_; }
  size_t bytes() const { return sizeof *this + requests_.bytes(); }

 private:
  enum class Message : uint8_t { kNone, kSend, kWrite };
  enum class Nak : uint8_t {
    kNone,
    kSequence,   ///< For the PSN that is expected when it leaves.
    kSelective,  ///< Same, with what has come beyond.
    kRnr,        ///< Same.
    kRefused,    ///< A READ that was answered before cannot be read any more: for nak_psn_.
    kFatal,      ///< Ends the connection: for nak_psn_.
  };
  /// What SEND and WRITE opcodes are made of.
  struct Shape {
    Message message;
    bool first, last, imm, invalidate;
  };
  /// A READ or atomic request, PSNs [first_psn, first_psn + count).
  struct Request {
    uint64_t va = 0;
    uint64_t result = 0;  ///< Atomic: the value before.
    uint32_t first_psn = 0;
    uint32_t count = 0;
    uint32_t rkey = 0;
    uint32_t length = 0;
    uint32_t msn = 0;
    // Responses [next, end) wait; [begin, end) is the run that is being answered.
    uint32_t begin = 0, next = 0, end = 0;
    bool is_atomic = false;
    bool answered = false;  ///< All responses were given out once.
    bool replay = false;

    bool waits() const { return next != end; }
  };

  /// Responses of a READ request that a peer misses, [next, end) of its PSNs.
  struct Repair {
    uint32_t index = 0;
    uint32_t begin = 0, next = 0, end = 0;
  };
  static constexpr uint32_t kMaxRepairs = 16;

  // responder.cc
  void execute(const wire::Header& header, uint32_t payload_length, TimeNs now, Effects& effects);
  void execute_send(const Shape& shape, const wire::Header& header, uint32_t payload_length,
                    TimeNs now, Effects& effects);
  void execute_write(const Shape& shape, const wire::Header& header, uint32_t payload_length,
                     TimeNs now, Effects& effects);
  bool legal_length(const Shape& shape, uint32_t payload_length) const;
  bool take_receive(Effects& effects);
  Completion& complete_receive(WcStatus status);
  void complete_message(const Shape& shape, const wire::Header& header);
  void accept(const wire::Header& header, bool ends_message, TimeNs now);
  void refuse(uint8_t syndrome, Effects& effects);

  // responder_ack.cc
  void owe_ack(TimeNs now);
  void owe_lazy_ack(TimeNs now);
  void handle_duplicate(const wire::Header& header, TimeNs now, Effects& effects);
  void answer_not_ready(Effects& effects);
  void set_fatal(uint8_t syndrome, uint32_t psn);
  bool poll_nak(OutPacket& out);
  bool ack_waits_for_response() const;

  // responder_gap.cc
  void handle_gap(const wire::Header& header, Effects& effects);
  void keep_or_drop(const wire::Header& header, Effects& effects);
  void advance_expected(uint32_t psns);
  uint32_t psns_of(const wire::Header& header) const;
  void tell_gap();
  void write_selective(wire::Header& header) const;

  // responder_read.cc
  void execute_read(const wire::Header& header, Effects& effects);
  void execute_atomic(const wire::Header& header, Effects& effects);
  Request* add_request(const wire::Header& header);
  void replay_read(const wire::Header& header);
  void replay_atomic(const wire::Header& header);
  Request* find(uint32_t psn, uint32_t& index);
  void set_waiting(uint32_t index, uint32_t begin, uint32_t end);
  void cancel_responses();
  void repair_read(uint32_t index, uint32_t begin, uint32_t end);
  bool poll_response(OutPacket& out);
  bool poll_repair(OutPacket& out);
  void write_response(const Request& entry, uint32_t at, bool first, bool last, OutPacket& out);
  Request& request(uint32_t index) { return requests_[index]; }
  const Request& request(uint32_t index) const { return requests_[index]; }

  Core& core_;
  uint32_t expected_ = 0;
  uint32_t msn_ = 0;
  bool heard_ = false;

  // The message that is being received.
  Message message_ = Message::kNone;
  bool has_receive_ = false;
  ReceiveQueue::Taken receive_;
  uint64_t received_bytes_ = 0;
  uint64_t write_va_ = 0;
  uint64_t write_length_ = 0;
  uint32_t write_rkey_ = 0;

  // ACK.
  uint32_t ack_psn_ = 0;  ///< Newest SEND or WRITE packet executed.
  bool ack_pending_ = false;
  bool ack_deferred_ = false;
  bool ack_lazy_ = false;      ///< Nobody asked for the pending one.
  TimeNs ack_rides_from_ = 0;  ///< Before, a lazy one does not even ride.
  TimeNs ack_due_ = kNever;
  bool exchange_open_ = false;  ///< A packet asked for an ACK and no data has left since.
  TimeNs exchange_since_ = 0;
  uint32_t quick_answers_ = 0;  ///< Exchanges in a row that were answered by data in time.

  // NAK.
  Nak nak_ = Nak::kNone;
  uint8_t nak_syndrome_ = 0;
  uint32_t nak_psn_ = 0;
  bool gap_ = false;              ///< The expected packet was missing and that has been said.
  bool gap_has_trigger_ = false;  ///< Otherwise an RNR NAK has said all there is to say.
  uint32_t gap_trigger_ = 0;      ///< The packet that showed the gap.
  uint32_t gap_highest_ = 0;      ///< Newest packet seen beyond it.
  PsnMap kept_;                   ///< PSNs beyond it whose packets the driver keeps.
  uint32_t keeping_psns_ = 0;     ///< Of the packet that the driver may keep now.
  bool fatal_ = false;

  // READ and atomic requests: [oldest_, newest_), numbered modulo 2^32.
  IndexRing<Request> requests_;
  uint32_t oldest_ = 0, newest_ = 0;
  uint32_t emit_ = 0;     ///< None before it waits for responses.
  uint32_t pending_ = 0;  ///< Requests that wait for responses.
  Repair repairs_[kMaxRepairs];
  uint32_t repairs_head_ = 0, repairs_tail_ = 0;
  bool awaits_result_ = false;  ///< The newest request is an atomic without its result.
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_RESPONDER_H_

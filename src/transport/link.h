// What moves data to and from one peer: its queue pair, windows, and what waits for them. Made at
// the first use of the peer's Endpoint, and its for good.
//
// Data path: send.cc (messages and credits), rma.cc (puts, gets, atomics), completion.cc (what
// comes back from the device). Set-up and tear-down by the connection thread: link.cc.
//
// Everything below "guarded by lock_" is; the rest is constant after construction or atomic. Work
// requests complete in the order of posting, so each is a number, its record lies in a ring at that
// number, and one signalled completion settles all records before it.
#ifndef ROCE_TRANSPORT_LINK_H_
#define ROCE_TRANSPORT_LINK_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "flow/get_scheduler.h"
#include "flow/window.h"
#include "roce/transport.h"
#include "transport/connection_state.h"
#include "transport/core.h"
#include "transport/endpoint.h"
#include "transport/error_text.h"
#include "transport/header.h"
#include "transport/spinlock.h"

namespace roce::transport {

/// First-in first-out list through the `next` field of its elements.
template <typename T>
class Fifo {
 public:
  bool empty() const { return first_ == nullptr; }
  T* front() const { return first_; }
  void push(T* element) {
    element->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = element;
    last_ = element;
  }
  T* pop() {
    T* element = first_;
    first_ = element->next;
    element->next = nullptr;
    return element;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

class Link {
 public:
  using State = Endpoint::State;

  Link(Core& core, Endpoint& endpoint) : core_(core), endpoint_(endpoint) {}

  uint32_t qpn() const { return qpn_.load(std::memory_order_acquire); }

  // ---- commands, any thread ----

  bool send(Fragment* fragment);
  /// The operation's fields are filled in; its registration may be null (see Transport::put).
  void start(Operation* operation);
  /// Nothing posted and nothing queued. Has the device tell about what it was not asked to tell.
  bool is_idle();

  // ---- events from progress, by the poller ----

  /// A header of the peer came in on queue pair `qpn`. False: it is not this peer's or not valid.
  bool handle_header(const MessageHeader& header, uint32_t qpn);
  /// A send-side completion.
  void handle_completion(const ibv_wc& wc, EventBatch& out);
  /// The device reported an error of a receive.
  void handle_receive_error(const ibv_wc& wc);
  /// Rail-wide room has become free.
  void resume();
  /// The callback of a message has returned.
  void message_consumed(uint32_t bytes);

  // ---- the connection thread's ----

  /// A connection is about to be made; false if one exists.
  bool begin_connecting();
  /// The queue pair that receives from now on.
  void attach(ibv_qp* qp, Rail* rail, const PathPair& path, const Offer& own);
  /// Data may flow: sends what has been waiting.
  void open_for_traffic(const Offer& peer, const Agreement& agreement);
  void peer_closed();
  /// Takes the queue pair away; no work request is posted to it after this returns.
  ibv_qp* detach();
  /// After the queue pair has been destroyed: settles what was posted (as sent, if the peer has
  /// said goodbye), and with `queued` also what waits. `next` is the new state.
  void settle(State next, bool queued);
  /// An asynchronous event of the device says that the queue pair has failed.
  void fail_by_event(const std::string& what);
  /// Given up, with the text for the error callback. False: it was already.
  bool fail(const std::string& text);
  bool has_queued();
  /// Memory that it holds.
  size_t bytes();
  /// Connected, and something waits for credits or completions.
  bool is_stalled();
  std::string failure_text();

  void fold_counters(Counters& counters);

 private:
  struct Record {
    enum class Kind : uint8_t { kNone, kFragment, kPut, kGet };  ///< kGet: of gets_.
    Kind kind = Kind::kNone;
    uint32_t bytes = 0;
    void* object = nullptr;
  };

  // send.cc; all with lock_ held
  bool may_post(uint32_t bytes) const {
    return sq_head_ - sq_tail_ < sq_usable_ && window_.may_send(bytes + kHeaderBytes);
  }
  bool send_slow(Fragment* fragment);
  bool post_message(Fragment* fragment, bool may_inline_silently);
  void post_credit(bool signal);
  void flush();
  void flush_messages();
  MessageHeader make_header(MessageKind kind, uint8_t tag, uint32_t length);
  bool post(ibv_send_wr& request, const Record& record, bool signal);
  void post_failed(int error);
  // rma.cc; all with lock_ held
  void post_operations();
  bool may_post_chunk(const Operation* operation, uint32_t bytes);
  void post_chunk(Operation* operation, uint32_t bytes);
  bool post_one_of(Fifo<Operation>& operations);
  void stand_in(Operation* operation);
  // completion.cc; with lock_ held
  void finish_record(const Record& record, Code status, EventBatch* out);
  void finish_chunk(Operation* operation, uint32_t bytes, Code status, EventBatch* out);
  void finish_operation(Operation* operation, EventBatch* out);
  ConnectionFacts facts() const;
  void emit(Event event, EventBatch* out);
  void defer(const Event& event) { core_.events.defer({event, 0, {}}); }
  void report_error(const ibv_wc& wc, const Record* record);
  void fail_locked(const std::string& text);

  Core& core_;
  Endpoint& endpoint_;
  std::atomic<uint32_t> qpn_{0};  ///< 0: none attached.

  SpinLock lock_;
  // Guarded by lock_, first what every message needs.
  ibv_qp* qp_ = nullptr;
  Rail* rail_ = nullptr;
  uint64_t wr_id_base_ = 0;  ///< Generation and index; the number of the work request is added.
  uint32_t peer_index_ = 0;  ///< For our headers.
  uint32_t inline_bytes_ = 0;
  uint32_t sq_head_ = 0,
           sq_tail_ = 0;  ///< Numbers of the next request, and of the oldest open one.
  uint32_t sq_depth_ = 0;
  uint32_t sq_usable_ = 0;  ///< Depth without what is kept for credits.
  uint32_t unsignaled_ = 0, signal_interval_ = 1;
  std::vector<Record> records_;  ///< Power of two.
  flow::SendWindow window_;
  flow::ReceiveCredit credit_;
  Fifo<Fragment> messages_;
  Fifo<Operation> puts_;
  Fifo<Operation> gets_;       ///< And atomics: what the peer answers.
  flow::Getter getter_{this};  ///< In the scheduler of rail_, which guards it.
  uint32_t reads_outstanding_ = 0, max_reads_ = 1;
  uint32_t put_chunk_bytes_ = 0;
  uint32_t generation_ = 0;
  bool peer_said_goodbye_ = false;
  PathPair path_;
  Offer own_, peer_;
  Agreement agreement_;
  std::string failure_;
  uint64_t tx_messages_ = 0, tx_bytes_ = 0, rx_messages_ = 0, rx_bytes_ = 0;
  uint64_t puts_done_ = 0, put_bytes_ = 0, gets_done_ = 0, get_bytes_ = 0, atomics_done_ = 0;
  uint64_t credits_sent_ = 0, window_stalls_ = 0, queue_stalls_ = 0;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_LINK_H_

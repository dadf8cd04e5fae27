// Set-up and tear-down of the data path to one peer, by the connection thread.
#include "transport/link.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "transport/connection_thread.h"

namespace roce::transport {
namespace {

constexpr uint32_t kLeastPutChunk = 4096;
constexpr uint32_t kCreditRequests = 8;  // Kept free in a send queue for credits.
constexpr int kIndexShift = 32, kGenerationShift = 52;
constexpr uint32_t kGenerations = 2048;
static_assert(PeerTable::kChunk * PeerTable::kChunks <= 1u << (kGenerationShift - kIndexShift));

}  // namespace

bool Link::begin_connecting() {
  std::lock_guard guard(lock_);
  State state = endpoint_.state_.load(std::memory_order_relaxed);
  if (state == State::kIdle || state == State::kClosed) {
    endpoint_.state_.store(State::kConnecting, std::memory_order_release);
  }
  return state != State::kFailed && state != State::kRemoved;
}

void Link::attach(ibv_qp* qp, Rail* rail, const PathPair& path, const Offer& own) {
  std::lock_guard guard(lock_);
  generation_ = (generation_ + 1) % kGenerations;
  wr_id_base_ = uint64_t{generation_} << kGenerationShift | uint64_t{endpoint_.index()}
                                                                << kIndexShift;
  qp_ = qp;
  rail_ = rail;
  path_ = path;
  own_ = own;
  inline_bytes_ = rail->inline_bytes;
  sq_depth_ = rail->send_queue_depth;
  sq_usable_ = sq_depth_ - std::min(kCreditRequests, sq_depth_ / 2);
  signal_interval_ = std::max<uint32_t>(1, sq_depth_ / 4);
  sq_head_ = sq_tail_ = unsignaled_ = 0;
  records_.assign(std::bit_ceil(sq_depth_), {});
  reads_outstanding_ = 0;
  peer_said_goodbye_ = false;
  credit_.start(own.window_messages, own.window_bytes, own.max_message_bytes + kHeaderBytes);
  qpn_.store(qp->qp_num, std::memory_order_release);
}

void Link::open_for_traffic(const Offer& peer, const Agreement& agreement) {
  std::lock_guard guard(lock_);
  if (endpoint_.state_.load(std::memory_order_relaxed) != State::kConnecting || qp_ == nullptr) {
    return;
  }
  peer_ = peer;
  agreement_ = agreement;
  peer_index_ = peer.endpoint;
  window_.start(agreement.window_messages, agreement.window_bytes);
  max_reads_ = agreement.reads_as_origin;
  // Two fit the window, so that the path is not idle while one is acknowledged.
  put_chunk_bytes_ = std::min(
      rail_->chunk_bytes,
      std::max(kLeastPutChunk, agreement.window_bytes / 2 / kLeastPutChunk * kLeastPutChunk));
  endpoint_.state_.store(State::kReady, std::memory_order_release);
  core_.counters.add(Counter::connects);
  flush();
}

void Link::peer_closed() {
  std::lock_guard guard(lock_);
  peer_said_goodbye_ = true;
  State state = endpoint_.state_.load(std::memory_order_relaxed);
  if (state == State::kReady || state == State::kConnecting) {
    endpoint_.state_.store(State::kClosed, std::memory_order_release);
  }
}

ibv_qp* Link::detach() {
  std::lock_guard guard(lock_);
  if (endpoint_.state_.load(std::memory_order_relaxed) == State::kReady) {
    endpoint_.state_.store(State::kConnecting,
                           std::memory_order_release);  // what is sent now waits
  }
  qpn_.store(0, std::memory_order_release);
  return std::exchange(qp_, nullptr);
}

void Link::settle(State next, bool queued) {
  std::lock_guard guard(lock_);
  for (; sq_tail_ != sq_head_; ++sq_tail_) {
    finish_record(records_[sq_tail_ & (records_.size() - 1)], Code::kUnreachable, nullptr);
  }
  unsignaled_ = 0;
  records_ = {};
  if (queued) {
    while (!messages_.empty()) {
      defer({.type = Event::Type::kFragment,
             .status = Code::kUnreachable,
             .object = messages_.pop()});
    }
    for (Fifo<Operation>* operations : {&puts_, &gets_}) {
      while (!operations->empty()) {
        Operation* operation = operations->pop();
        operation->failed = true;
        finish_operation(operation, nullptr);
      }
    }
  }
  State state = endpoint_.state_.load(std::memory_order_relaxed);
  if (state != State::kFailed && state != State::kRemoved) {
    endpoint_.state_.store(next, std::memory_order_release);
  }
}

bool Link::fail(const std::string& text) {
  std::lock_guard guard(lock_);
  State state = endpoint_.state_.load(std::memory_order_relaxed);
  if (state == State::kFailed || state == State::kRemoved) {
    return false;
  }
  fail_locked(text);
  return true;
}

void Link::fail_locked(const std::string& text) {
  endpoint_.state_.store(State::kFailed, std::memory_order_release);
  failure_ = text;
  core_.counters.add(Counter::peers_failed);
  defer({.type = Event::Type::kFailed, .endpoint = &endpoint_});
}

size_t Link::bytes() {
  std::lock_guard guard(lock_);
  return sizeof *this + records_.capacity() * sizeof(Record) + window_.bytes();
}

bool Link::has_queued() {
  std::lock_guard guard(lock_);
  return !messages_.empty() || !puts_.empty() || !gets_.empty();
}

bool Link::is_stalled() { return endpoint_.state() == State::kReady && has_queued(); }

std::string Link::failure_text() {
  std::lock_guard guard(lock_);
  return failure_;
}

void Link::fold_counters(Counters& counters) {
  std::lock_guard guard(lock_);
  auto move = [&counters](uint64_t& value, Counter counter) {
    counters.add(counter, std::exchange(value, 0));
  };
  move(tx_messages_, Counter::tx_send_messages);
  move(tx_bytes_, Counter::tx_send_bytes);
  move(rx_messages_, Counter::rx_send_messages);
  move(rx_bytes_, Counter::rx_send_bytes);
  move(puts_done_, Counter::tx_put_messages);
  move(put_bytes_, Counter::tx_put_bytes);
  move(gets_done_, Counter::rx_get_messages);
  move(get_bytes_, Counter::rx_get_bytes);
  move(atomics_done_, Counter::atomic_operations);
  move(credits_sent_, Counter::credit_messages);
  move(window_stalls_, Counter::window_stalls);
  move(queue_stalls_, Counter::queue_stalls);
}

}  // namespace roce::transport

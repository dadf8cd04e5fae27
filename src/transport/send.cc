// Messages and credits of one peer: posting, queueing, flushing.
#include <algorithm>
#include <mutex>

#include "transport/connection_thread.h"
#include "transport/link.h"

namespace roce::transport {

bool Link::send(Fragment* fragment) {
  fragment->endpoint = &endpoint_;
  lock_.lock();
  if (endpoint_.state_.load(std::memory_order_relaxed) == State::kReady && messages_.empty() &&
      may_post(fragment->length)) [[likely]] {
    bool done = post_message(fragment, true);
    lock_.unlock();
    return done;
  }
  bool connect = send_slow(fragment);
  lock_.unlock();
  if (connect) {
    core_.connections->connect(&endpoint_);
  }
  return false;
}

/// Queues. True: a connection must be made.
bool Link::send_slow(Fragment* fragment) {
  switch (endpoint_.state_.load(std::memory_order_relaxed)) {
    case State::kFailed:
    case State::kRemoved:
      defer({.type = Event::Type::kFragment, .status = Code::kUnreachable, .object = fragment});
      return false;
    case State::kReady:
      ++(sq_head_ - sq_tail_ < sq_usable_ ? window_stalls_ : queue_stalls_);
      messages_.push(fragment);
      core_.connections->watch();
      return false;
    case State::kConnecting:
      messages_.push(fragment);
      return false;
    case State::kIdle:
    case State::kClosed:
      messages_.push(fragment);
      endpoint_.state_.store(State::kConnecting, std::memory_order_release);
      return true;
  }
  return false;
}

MessageHeader Link::make_header(MessageKind kind, uint8_t tag, uint32_t length) {
  // Never above the offer: the peer would not take it, and credits would come too late for it.
  uint16_t grant = std::min(rail_->grant(), own_.window_messages);
  if (grant != credit_.window()) [[unlikely]] {
    credit_.set_window(grant);
  }
  return {.kind = kind,
          .tag = tag,
          .length = length,
          .endpoint = peer_index_,
          .consumed = credit_.report(),
          .window = grant};
}

/// True: the bytes have been taken and no completion will tell of the fragment.
bool Link::post_message(Fragment* fragment, bool may_inline_silently) {
  uint8_t* start = fragment->data - kHeaderBytes;
  uint32_t bytes = fragment->length + kHeaderBytes;
  store_header(start, make_header(MessageKind::kMessage, fragment->tag, fragment->length));
  window_.sent(bytes);
  ++tx_messages_;
  tx_bytes_ += fragment->length;

  ibv_sge sge{reinterpret_cast<uintptr_t>(start), bytes, 0};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  bool inlined = bytes <= inline_bytes_;
  if (inlined) {
    request.send_flags = IBV_SEND_INLINE;
  } else {
    const Registration& slab = FragmentPool::registration(fragment);
    sge.lkey = static_cast<ibv_mr*>(slab.regions[rail_->index])->lkey;
  }
  if (inlined && may_inline_silently) [[likely]] {
    // On a post error the fragment is lost with the peer, which is what "taken" allows.
    post(request, {}, false);
    return true;
  }
  post(request, {Record::Kind::kFragment, bytes, fragment}, true);
  return false;
}

/// Posts with the next number. Unsignalled requests are settled by the next signalled one, of which
/// there is at least one in every quarter of the send queue.
bool Link::post(ibv_send_wr& request, const Record& record, bool signal) {
  request.wr_id = wr_id_base_ | sq_head_;
  if (signal || ++unsignaled_ >= signal_interval_) {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignaled_ = 0;
  }
  records_[sq_head_ & (records_.size() - 1)] = record;
  ++sq_head_;
  ibv_send_wr* bad = nullptr;
  int error = ibv_post_send(qp_, &request, &bad);
  if (error == 0) [[likely]] {
    return true;
  }
  post_failed(error);
  return false;
}

void Link::post_credit(bool signal) {
  uint8_t bytes[kHeaderBytes];
  store_header(bytes, make_header(MessageKind::kCredit, 0, 0));
  ibv_sge sge{reinterpret_cast<uintptr_t>(bytes), kHeaderBytes, 0};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_INLINE;
  post(request, {}, signal);
  ++credits_sent_;
}

void Link::flush_messages() {
  while (!messages_.empty() && may_post(messages_.front()->length)) {
    post_message(messages_.pop(), false);
    if (endpoint_.state_.load(std::memory_order_relaxed) != State::kReady) {
      return;
    }
  }
}

/// Posts what window and send queue now allow: messages first, since what they say (headers of the
/// runtime) starts transfers; then operations; then a credit that no message has carried.
void Link::flush() {
  if (endpoint_.state_.load(std::memory_order_relaxed) != State::kReady) {
    return;
  }
  flush_messages();
  post_operations();
  // Credits may use the whole send queue.
  if (endpoint_.state_.load(std::memory_order_relaxed) == State::kReady && credit_.due() &&
      sq_head_ - sq_tail_ < sq_depth_) {
    post_credit(false);
  }
}

bool Link::is_idle() {
  std::lock_guard guard(lock_);
  if (!messages_.empty() || !puts_.empty() || !gets_.empty()) {
    return false;
  }
  if (endpoint_.state_.load(std::memory_order_relaxed) == State::kReady && unsignaled_ > 0 &&
      sq_head_ - sq_tail_ < sq_depth_) {
    post_credit(true);  // its completion settles the messages that asked for none
  }
  return sq_head_ == sq_tail_;
}

void Link::resume() {
  std::lock_guard guard(lock_);
  flush();
}

void Link::message_consumed(uint32_t bytes) {
  lock_.lock();
  credit_.message_consumed(bytes + kHeaderBytes);
  if (credit_.due()) [[unlikely]] {
    flush();
  }
  lock_.unlock();
}

}  // namespace roce::transport

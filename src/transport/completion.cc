// What comes back from the device for one peer.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "transport/connection_thread.h"
#include "transport/error_text.h"
#include "transport/link.h"

namespace roce::transport {
namespace {

constexpr uint64_t kBaseMask = ~uint64_t{0xFFFFFFFF};

const char* verbs_name(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::kPut:
      return "RDMA WRITE (put)";
    case Operation::Kind::kGet:
      return "RDMA READ (get)";
    case Operation::Kind::kFetchAdd:
      return "FETCH_ADD (atomic)";
    case Operation::Kind::kCompareSwap:
      return "COMPARE_SWAP (atomic)";
  }
  return "transfer";
}

}  // namespace

bool Link::handle_header(const MessageHeader& header, uint32_t qpn) {
  lock_.lock();
  bool valid = qpn == qpn_.load(std::memory_order_relaxed);
  if (endpoint_.state_.load(std::memory_order_relaxed) == State::kReady) [[likely]] {
    valid = valid && window_.consumed(header.consumed, header.window);
    if (!messages_.empty() || !puts_.empty() || !gets_.empty()) {
      flush();
    }
  } else if (endpoint_.state_.load(std::memory_order_relaxed) == State::kConnecting) {
    core_.connections->data_received(&endpoint_);
  }
  if (valid && header.kind == MessageKind::kMessage) {
    ++rx_messages_;
    rx_bytes_ += header.length;
  }
  lock_.unlock();
  return valid;
}

void Link::handle_completion(const ibv_wc& wc, EventBatch& out) {
  std::lock_guard guard(lock_);
  auto number = static_cast<uint32_t>(wc.wr_id);
  if ((wc.wr_id & kBaseMask) != wr_id_base_ || number - sq_tail_ >= sq_head_ - sq_tail_) {
    return;  // of a queue pair that has been settled already
  }
  if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
    // The queue pair is in the error state; the connection thread destroys it and settles.
    report_error(wc, &records_[number & (records_.size() - 1)]);
    return;
  }
  for (; sq_tail_ != number + 1; ++sq_tail_) {
    const Record& record = records_[sq_tail_ & (records_.size() - 1)];
    if (record.kind != Record::Kind::kNone) {
      finish_record(record, Code::kOk, &out);
    }
  }
  flush();
}

void Link::handle_receive_error(const ibv_wc& wc) {
  std::lock_guard guard(lock_);
  if (qp_ != nullptr && wc.qp_num == qp_->qp_num) report_error(wc, nullptr);
}

/// A batch holds what one poll of successes yields; everything else is deferred.
void Link::emit(Event event, EventBatch* out) {
  if (out != nullptr && out->count < EventBatch::kCapacity) {
    out->push(event);
  } else {
    defer(event);
  }
}

void Link::finish_record(const Record& record, Code status, EventBatch* out) {
  switch (record.kind) {
    case Record::Kind::kNone:
      break;
    case Record::Kind::kFragment:
      // What was posted before the goodbye of a peer has reached it, or was not wanted.
      emit({.type = Event::Type::kFragment,
            .status = peer_said_goodbye_ ? Code::kOk : status,
            .object = record.object},
           out);
      break;
    case Record::Kind::kPut:
      window_.put_acknowledged(record.bytes);
      finish_chunk(static_cast<Operation*>(record.object), record.bytes, status, out);
      break;
    case Record::Kind::kGet:
      --reads_outstanding_;
      rail_->gets.give_back(getter_, record.bytes, status == Code::kOk);
      finish_chunk(static_cast<Operation*>(record.object), record.bytes, status, out);
      break;
  }
}

void Link::finish_chunk(Operation* operation, uint32_t bytes, Code status, EventBatch* out) {
  --operation->pending_chunks;
  operation->failed |= status != Code::kOk;
  if (status == Code::kOk) {
    put_bytes_ += operation->kind == Operation::Kind::kPut ? bytes : 0;
    get_bytes_ += operation->kind == Operation::Kind::kGet ? bytes : 0;
  }
  if (operation->pending_chunks != 0 || operation->posted_bytes < operation->bytes) {
    return;  // what is not posted yet waits in the queue
  }
  finish_operation(operation, out);
}

void Link::finish_operation(Operation* operation, EventBatch* out) {
  using Kind = Operation::Kind;
  const bool is_put = operation->kind == Kind::kPut, is_get = operation->kind == Kind::kGet;
  if (operation->copy != nullptr) {
    if (!is_put && !operation->failed) {
      std::memcpy(reinterpret_cast<void*>(operation->local_addr), operation->copy->data,
                  operation->bytes);
    }
    core_.fragments->release(operation->copy);
    operation->copy = nullptr;
  }
  if (!operation->failed) {
    ++(is_put ? puts_done_ : is_get ? gets_done_ : atomics_done_);
  }
  emit({.type = Event::Type::kOperation,
        .status = operation->failed ? Code::kUnreachable : Code::kOk,
        .object = operation},
       out);
}

ConnectionFacts Link::facts() const {
  return {core_, *rail_, path_, own_, peer_, agreement_, endpoint_.address(), endpoint_.name(),
          qp_};
}

void Link::report_error(const ibv_wc& wc, const Record* record) {
  State state = endpoint_.state_.load(std::memory_order_relaxed);
  if (state == State::kClosed || peer_said_goodbye_) {
    core_.connections->tear_down(&endpoint_);
    return;
  }
  if (state != State::kReady && state != State::kConnecting) {
    return;  // told already
  }
  FailedWork work;
  const bool transfer = record != nullptr &&
                        (record->kind == Record::Kind::kPut || record->kind == Record::Kind::kGet);
  work.what = record == nullptr ? "receiving a message"
              : transfer        ? verbs_name(static_cast<Operation*>(record->object)->kind)
                                : "sending a message";
  work.bytes = record == nullptr ? wc.byte_len : record->bytes;
  work.status = wc.status;
  work.vendor_error = wc.vendor_err;
  fail_locked(describe_failure(facts(), work));
  core_.connections->tear_down(&endpoint_);
}

void Link::fail_by_event(const std::string& what) {
  std::lock_guard guard(lock_);
  State state = endpoint_.state_.load(std::memory_order_relaxed);
  if (rail_ == nullptr || (state != State::kReady && state != State::kConnecting)) {
    return;
  }
  FailedWork work;
  work.what = "its queue pair: " + what;
  work.by_event = true;
  fail_locked(describe_failure(facts(), work));
  core_.connections->tear_down(&endpoint_);
}

void Link::post_failed(int error) {
  FailedWork work;
  work.what = "posting a work request";
  work.error = error;
  fail_locked(describe_failure(facts(), work));
  core_.connections->tear_down(&endpoint_);
}

}  // namespace roce::transport

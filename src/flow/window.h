// Flow control of one peer, both directions; no verbs, no locks.
//
// The receiver grants a number of messages and of bytes. A message counts from its posting until
// the peer has consumed it, which every header of the peer tells cumulatively; bytes of puts count
// until they are acknowledged. Invariants:
// - with nothing unconsumed one message is always allowed, whatever its size; the same for puts;
// - whenever a sender is stalled by the window, the receiver owes it a credit once it has consumed
//   what it got: see ReceiveCredit::due.
#ifndef ROCE_FLOW_WINDOW_H_
#define ROCE_FLOW_WINDOW_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace roce::flow {

class SendWindow {
 public:
  /// What the peer grants. `messages` (1..32768) is also the most it may grant later.
  void start(uint32_t messages, uint32_t bytes) {
    sizes_.assign(std::bit_ceil(messages), 0);
    most_messages_ = limit_messages_ = static_cast<uint16_t>(messages);
    limit_bytes_ = bytes;
    sent_ = consumed_ = 0;
    used_bytes_ = put_bytes_ = 0;
  }

  bool may_send(uint32_t bytes) const {
    uint16_t unconsumed = sent_ - consumed_;
    return unconsumed < limit_messages_ &&
           (unconsumed == 0 || uint64_t{used_bytes_} + bytes <= limit_bytes_);
  }
  void sent(uint32_t bytes) {
    sizes_[sent_ & (sizes_.size() - 1)] = bytes;
    ++sent_;
    used_bytes_ += bytes;
  }
  /// A header of the peer came in. False: it claims messages that were never sent.
  bool consumed(uint16_t total, uint16_t window) {
    auto newly = static_cast<uint16_t>(total - consumed_);
    if (newly > static_cast<uint16_t>(sent_ - consumed_)) {
      return false;
    }
    for (; newly > 0; --newly) {
      used_bytes_ -= sizes_[consumed_ & (sizes_.size() - 1)];
      ++consumed_;
    }
    limit_messages_ = std::clamp<uint16_t>(window, 1, most_messages_);
    return true;
  }

  bool may_put(uint32_t bytes) const {
    return put_bytes_ == 0 || uint64_t{used_bytes_} + bytes <= limit_bytes_;
  }
  void put_posted(uint32_t bytes) {
    used_bytes_ += bytes;
    put_bytes_ += bytes;
  }
  void put_acknowledged(uint32_t bytes) {
    used_bytes_ -= bytes;
    put_bytes_ -= bytes;
  }

  uint32_t unconsumed_messages() const { return static_cast<uint16_t>(sent_ - consumed_); }
  uint32_t used_bytes() const { return used_bytes_; }
  /// Memory beside the object.
  size_t bytes() const { return sizes_.capacity() * sizeof(uint32_t); }

 private:
  std::vector<uint32_t> sizes_;  ///< Bytes of each unconsumed message, by its number.
  uint16_t sent_ = 0, consumed_ = 0;
  uint16_t limit_messages_ = 1, most_messages_ = 1;
  uint32_t limit_bytes_ = 0;
  uint32_t used_bytes_ = 0, put_bytes_ = 0;
};

class ReceiveCredit {
 public:
  /// What was granted to the peer, and the largest message it may send.
  void start(uint32_t messages, uint32_t bytes, uint32_t largest_message_bytes) {
    consumed_ = reported_ = 0;
    unreported_bytes_ = 0;
    window_ = static_cast<uint16_t>(messages);
    due_messages_ = half(window_);
    // A sender that wants to send n more bytes is stalled with more than bytes - n unconsumed.
    uint32_t room = bytes > largest_message_bytes ? bytes - largest_message_bytes : 1;
    due_bytes_ = std::max<uint32_t>(1, std::min(bytes / 2, room));
  }

  void message_consumed(uint32_t bytes) {
    ++consumed_;
    unreported_bytes_ += bytes;
  }
  /// Whether the peer may be waiting for a credit that no message has carried so far.
  bool due() const {
    return static_cast<uint16_t>(consumed_ - reported_) >= due_messages_ ||
           unreported_bytes_ >= due_bytes_;
  }
  /// The totals for the next header that leaves.
  uint16_t report() {
    reported_ = consumed_;
    unreported_bytes_ = 0;
    due_messages_ = half(window_);
    return consumed_;
  }
  /// Changes the grant; never above the first one. The peer knows a larger one only after the next
  /// report, until when it may be stalled by the old one.
  void set_window(uint32_t messages) {
    window_ = static_cast<uint16_t>(messages);
    due_messages_ = std::min(due_messages_, half(window_));
  }
  uint16_t window() const { return window_; }

 private:
  static uint16_t half(uint16_t messages) { return std::max<uint16_t>(1, messages / 2); }

  uint16_t consumed_ = 0, reported_ = 0;
  uint16_t window_ = 1, due_messages_ = 1;
  uint32_t unreported_bytes_ = 0, due_bytes_ = 1;
};

}  // namespace roce::flow

#endif  // ROCE_FLOW_WINDOW_H_

// Requests that are posted one after the other leave together, where the program is about to poll.
//
// A system call costs more than a small message. A program that posts many of them and then polls
// can have them sent sixteen at a time, if it is known that it will poll: this is learned. A run of
// posts that a poll followed at once is a good sign, and after enough of them the gate opens: posts
// to a queue pair with several requests under way then wait for the poll, or for the sixteenth. A
// run that no poll followed has made its messages late (until the service thread looked): the gate
// closes, and twice as many good signs are needed to open it again. A lone message, an answer and
// the first ones of a run never wait.
#ifndef ROCE_SOFT_POST_BATCHING_H_
#define ROCE_SOFT_POST_BATCHING_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "engine/types.h"

namespace roce::soft {

class PostBatching {
 public:
  static constexpr uint32_t kTogether = 16;
  /// Requests of a queue pair under way that make it a stream.
  static constexpr uint32_t kStream = 4;
  static constexpr engine::TimeNs kSoonNs = 10'000;
  static constexpr engine::TimeNs kLateNs = 100'000;
  static constexpr uint32_t kSignsAtFirst = 16;
  static constexpr uint32_t kSignsAtMost = 1 << 10;

  /// By a thread that has posted, without the lock: whether the request may wait.
  bool may_wait(uint32_t under_way) {
    if (!open_.load(std::memory_order_relaxed) || under_way < kStream) return false;
    return waiting_.fetch_add(1, std::memory_order_relaxed) % kTogether != kTogether - 1;
  }

  // By the holder of the progress lock.
  /// A post was sent at once.
  void posted(engine::TimeNs now) {
    ++run_;
    sent_at_ = now;
  }
  /// The program polls, and what waits is sent.
  void polled(engine::TimeNs now) {
    const bool late = now - sent_at_ > kLateNs;
    if (waiting_.load(std::memory_order_relaxed) != 0) {
      waiting_.store(0, std::memory_order_relaxed);
      if (late) close();
      run_ = 0;
      sent_at_ = now;
    } else if (run_ != 0) {
      if (run_ > 1) learn(now - sent_at_ <= kSoonNs, late);
      run_ = 0;
    } else if (open_.load(std::memory_order_relaxed)) {
      sent_at_ = now;
    }
  }
  /// The service thread has to look, since nobody polls.
  void not_polled() {
    if (waiting_.exchange(0, std::memory_order_relaxed) != 0) close();
  }

 private:
  void learn(bool good, bool late) {
    if (good && ++signs_ >= wanted_) open_.store(true, std::memory_order_relaxed);
    if (late) signs_ = 0;
  }
  void close() {
    open_.store(false, std::memory_order_relaxed);
    signs_ = 0;
    wanted_ = std::min(2 * wanted_, kSignsAtMost);
  }

  std::atomic<bool> open_{false};
  std::atomic<uint32_t> waiting_{0};  ///< Posted since the last poll.
  uint32_t run_ = 0;                  ///< Posts sent since the last poll.
  uint32_t signs_ = 0;
  uint32_t wanted_ = kSignsAtFirst;
  engine::TimeNs sent_at_ = 0;
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_POST_BATCHING_H_

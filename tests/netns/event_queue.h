// A completion queue that a process sleeps on, and what else its queue pairs share.
#ifndef ROCE_TESTS_NETNS_EVENT_QUEUE_H_
#define ROCE_TESTS_NETNS_EVENT_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <random>
#include <vector>

#include "meeting.h"

namespace roce::test {

/// What a sender sends: message n is a part of one random text, so that nothing need be written for
/// a message, and messages that follow each other in one slot differ.
class Text {
 public:
  static constexpr uint32_t kStarts = 61, kStep = 64;
  Text(uint32_t seed, uint32_t bytes) : words_((bytes + kStarts * kStep) / 8) {
    std::mt19937_64 random(seed);
    for (uint64_t& word : words_) word = random();
  }
  static uint32_t start(uint32_t message) { return message % kStarts * kStep; }
  const uint8_t* message(uint32_t number) const { return data() + start(number); }
  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(words_.data()); }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(words_.data()); }
  size_t bytes() const { return words_.size() * 8; }

 private:
  std::vector<uint64_t> words_;
};

/// Protection domain, completion channel and queue of one port.
class EventQueue {
 public:
  EventQueue(const Port& port, int entries);
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  ibv_qp* create_qp(uint32_t sends, uint32_t receives);
  ibv_mr* add_region(void* data, size_t bytes);
  int fd() const { return channel_->fd; }

  /// Hands what has completed to take(wc); if nothing has, sleeps until something does.
  template <typename Take>
  void wait(Take take) {
    if (drain(take)) return;
    arm();
    if (drain(take)) return;
    sleep();
    drain(take);
  }
  /// At most 256 completions, since more may come as fast as they are taken; false: there was none.
  template <typename Take>
  bool drain(Take take) {
    ibv_wc wc[16];
    for (int round = 0; round < 16; ++round) {
      const int got = ibv_poll_cq(cq_, 16, wc);
      if (got < 0) die("poll_cq failed");
      if (got == 0) return round != 0;
      for (int i = 0; i < got; ++i) take(wc[i]);
    }
    return true;
  }
  void arm();
  /// Takes one event of the channel; blocks if there is none.
  void sleep();

 private:
  ibv_pd* pd_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
};

void post_receive(ibv_qp* qp, uint64_t id, ibv_sge sge);
/// A SEND without data, with a number as immediate value.
void post_number(ibv_qp* qp, uint32_t number);

}  // namespace roce::test

#endif  // ROCE_TESTS_NETNS_EVENT_QUEUE_H_

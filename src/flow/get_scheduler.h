// Decides who may fetch next: the receiver's side of the rendezvous, for one rail.
//
// Data that is fetched (RDMA READ) comes when the receiver asks for it, so the receiver can see to
// it that what all peers together have in flight towards it fits its memory and does not pile up in
// the network. Peers take turns of one chunk each, so that all get the same share, whoever asked
// first and however many operations each has. No clock, no locks, no verbs: whoever drives it
// guards it.
//
// Invariants:
// - at most `bound` bytes are in flight, but a single chunk may always be, whatever its size;
// - at most `senders` peers have bytes in flight;
// - nobody takes room before those that wait for it already.
#ifndef ROCE_FLOW_GET_SCHEDULER_H_
#define ROCE_FLOW_GET_SCHEDULER_H_

#include <cstdint>

namespace roce::flow {

/// A peer from which data is fetched; its owner keeps it alive while it waits or has bytes in
/// flight.
struct Getter {
  explicit Getter(void* owner_in) : owner(owner_in) {}
  void* const owner;
  uint64_t in_flight_bytes = 0;
  bool waiting = false;
  uint32_t wanted_bytes = 0;  ///< What it waits to take.
  Getter* next = nullptr;
};

class GetScheduler {
 public:
  /// Most bytes in flight, and most peers that have some; 0: no limit. Before the first take.
  void start(uint64_t bound_bytes, uint32_t senders) {
    bound_bytes_ = bound_bytes;
    most_senders_ = senders;
  }
  bool is_bounded() const { return bound_bytes_ != 0 || most_senders_ != 0; }

  /// Whether the peer may ask for a chunk now. False: it waits, and next() will name it.
  bool take(Getter& peer, uint32_t bytes) {
    if (peer.waiting) return false;
    const bool its_turn = turn_ == &peer;
    turn_ = its_turn ? nullptr : turn_;
    if (fits(peer, bytes) && (its_turn || (first_ == nullptr && turn_ == nullptr))) {
      senders_ += peer.in_flight_bytes == 0 ? 1 : 0;
      peer.in_flight_bytes += bytes;
      used_bytes_ += bytes;
      return true;
    }
    wait(peer, bytes, its_turn);
    return false;
  }

  /// A chunk has come, or never will.
  void give_back(Getter& peer, uint32_t bytes) {
    used_bytes_ -= bytes;
    peer.in_flight_bytes -= bytes;
    senders_ -= peer.in_flight_bytes == 0 ? 1 : 0;
  }

  /// The peer that has waited longest, if it now finds room; null if not. Until end_turn() the room
  /// is kept for it.
  Getter* next() {
    if (first_ == nullptr || turn_ != nullptr || !fits(*first_, first_->wanted_bytes)) {
      return nullptr;
    }
    turn_ = first_;
    first_ = first_->next;
    turn_->next = nullptr;
    turn_->waiting = false;
    return turn_;
  }
  /// What next() named has taken what it wanted.
  void end_turn() { turn_ = nullptr; }

 private:
  bool fits(const Getter& peer, uint32_t bytes) const {
    if (used_bytes_ == 0) return true;
    if (bound_bytes_ != 0 && used_bytes_ + bytes > bound_bytes_) return false;
    return peer.in_flight_bytes != 0 || most_senders_ == 0 || senders_ < most_senders_;
  }
  void wait(Getter& peer, uint32_t bytes, bool in_front) {
    peer.waiting = true;
    peer.wanted_bytes = bytes;
    if (first_ == nullptr) {
      first_ = last_ = &peer;
    } else if (in_front) {
      peer.next = first_;
      first_ = &peer;
    } else {
      last_->next = &peer;
      last_ = &peer;
    }
  }

  uint64_t bound_bytes_ = 0, used_bytes_ = 0;
  uint32_t most_senders_ = 0, senders_ = 0;
  Getter* first_ = nullptr;
  Getter* last_ = nullptr;
  Getter* turn_ = nullptr;
};

}  // namespace roce::flow

#endif  // ROCE_FLOW_GET_SCHEDULER_H_

// Decides who may fetch next: the receiver's side of the rendezvous, for one rail.
//
// Data that is fetched (RDMA READ) comes when the receiver asks for it, so the receiver can see to
// it that what all peers together have in flight towards it fits its memory and does not pile up in
// the network. Peers take turns of one chunk each, so that all get the same share, whoever asked
// first and however many operations each has. The bound follows what the path shows
// (bdp_estimate.h). No clock, no locks, no verbs: whoever drives it guards it.
//
// Invariants:
// - no chunk makes the bytes in flight more than the bound, but one alone may always be;
// - at most `senders` peers have bytes in flight;
// - nobody takes room before those that wait for it already.
#ifndef ROCE_FLOW_GET_SCHEDULER_H_
#define ROCE_FLOW_GET_SCHEDULER_H_

#include <cstdint>

#include "flow/bdp_estimate.h"

namespace roce::flow {

/// A peer from which data is fetched; its owner keeps it alive while it waits or has bytes in
/// flight.
struct Getter {
  explicit Getter(void* owner_in) : owner(owner_in) {}
  void* const owner;
  uint64_t in_flight_bytes = 0;
  bool waiting = false;
  uint32_t wanted_bytes = 0;     ///< What it waits to take.
  uint32_t asked = 0, come = 0;  ///< Chunks, which come in the order of their requests.
  uint32_t timed = 0;            ///< One of them is measured: come when it has come; 0: none.
  TimeNs timed_at = 0;
  Getter* next = nullptr;
};

class GetScheduler {
 public:
  /// Size of a full chunk, most bytes in flight, and most peers that have some (0: no limit).
  /// Before the first take.
  void start(uint32_t chunk_bytes, uint64_t most_bytes, uint32_t senders) {
    chunk_bytes_ = chunk_bytes;
    path_.start(chunk_bytes, most_bytes);
    most_senders_ = senders;
  }
  bool somebody_waits() const { return first_ != nullptr; }
  uint64_t bound_bytes() const { return path_.bound_bytes(); }

  /// Whether the peer may ask for a chunk now. False: it waits, and next() will name it.
  bool take(Getter& peer, uint32_t bytes, TimeNs now) {
    if (peer.waiting) return false;
    const bool its_turn = turn_ == &peer;
    turn_ = its_turn ? nullptr : turn_;
    if (fits(peer, bytes) && (its_turn || (first_ == nullptr && turn_ == nullptr))) {
      if (used_bytes_ == 0) path_.begin(now);
      senders_ += peer.in_flight_bytes == 0 ? 1 : 0;
      peer.in_flight_bytes += bytes;
      used_bytes_ += bytes;
      ++peer.asked;
      if (peer.timed == 0 && bytes == chunk_bytes_) {
        peer.timed = peer.asked;
        peer.timed_at = now;
      }
      return true;
    }
    wait(peer, bytes, its_turn);
    return false;
  }

  /// A chunk has come. message_bytes: all that messages have ever brought on the same path.
  void come(Getter& peer, uint32_t bytes, uint64_t message_bytes, TimeNs now) {
    const bool timed = peer.come + 1 == peer.timed;
    abandon(peer, bytes);
    if (timed) path_.took(peer.timed_at, now);
    path_.delivered(bytes, message_bytes - message_bytes_, limited_, now);
    message_bytes_ = message_bytes;
    limited_ = first_ != nullptr;
  }
  /// A chunk will not come.
  void abandon(Getter& peer, uint32_t bytes) {
    used_bytes_ -= bytes;
    peer.in_flight_bytes -= bytes;
    senders_ -= peer.in_flight_bytes == 0 ? 1 : 0;
    if (++peer.come == peer.timed) peer.timed = 0;
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
    if (used_bytes_ + bytes > path_.bound_bytes()) return false;
    return peer.in_flight_bytes != 0 || most_senders_ == 0 || senders_ < most_senders_;
  }
  void wait(Getter& peer, uint32_t bytes, bool in_front) {
    limited_ = true;
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

  BdpEstimate path_;
  uint32_t chunk_bytes_ = 0;
  bool limited_ = false;  ///< Somebody waits or has waited since the last chunk came.
  uint64_t message_bytes_ = 0;
  uint64_t used_bytes_ = 0;
  uint32_t most_senders_ = 0, senders_ = 0;
  Getter* first_ = nullptr;
  Getter* last_ = nullptr;
  Getter* turn_ = nullptr;
};

}  // namespace roce::flow

#endif  // ROCE_FLOW_GET_SCHEDULER_H_

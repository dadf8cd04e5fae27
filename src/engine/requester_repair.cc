// Sending again only what is missing, where the peer keeps what comes early.
//
// A round goes back to the oldest unacknowledged packet and walks to the newest: what is missing
// leaves again, what the peer (or, of responses, the driver) has is passed over, and so is what
// nobody has missed yet.
#include <algorithm>

#include "engine/requester.h"

namespace roce::engine {

void Requester::handle_selective_ack(const wire::Header& header, TimeNs now, Effects& effects) {
  ++core_.counters.selective_acks_received;
  const uint64_t seq = seq_of(header.psn);
  if (seq < una_ || seq >= max_) {
    core_.drop(effects, Drop::kStaleAck);
    return;
  }
  ++core_.counters.packet_seq_err;
  const uint64_t before = una_;
  acknowledge(seq);
  progress(before, now);
  if (core_.state == QpState::kErr) return;
  peer_passed(seq);
  for (uint32_t i = 0; i < wire::kSackPsns; ++i) {
    if ((header.sack_map[i / 64] >> (i % 64) & 1) == 0) continue;
    const uint64_t there = seq + 1 + i;
    if (there <= una_ || there - una_ >= PsnMap::kPsns || there >= max_) continue;
    peer_has_.set(there);
    if (there + 1 == timed_end_) end_timing(now);
  }
  repair(std::max(seq, seq_of(header.sack_end)), now);
}

/// The peer executes requests in order.
void Requester::peer_passed(uint64_t seq) { peer_expects_ = std::max(peer_expects_, seq); }

/// A response whose turn has not come.
void Requester::keep_or_drop(uint64_t seq, TimeNs now, Effects& effects) {
  if (seq + 1 == timed_end_) end_timing(now);
  if (!core_.attributes.selective || seq - una_ >= PsnMap::kPsns) {
    core_.drop(effects, Drop::kOutOfSequence);
  } else if (kept_.test(seq)) {
    core_.drop(effects, Drop::kDuplicate);
  } else {
    effects.keep = Keep::kResponse;
  }
}

bool Requester::take_kept(uint32_t& psn) {
  if (!kept_.any() || !kept_.test(una_)) return false;
  kept_.clear(una_);
  psn = static_cast<uint32_t>(una_) & wire::kPsnMask;
  return true;
}

bool Requester::is_kept(uint64_t seq) const {
  return seq - una_ < PsnMap::kPsns && kept_.test(seq);
}

bool Requester::peer_has(uint64_t seq) const {
  return seq < peer_expects_ || (seq - una_ < PsnMap::kPsns && peer_has_.test(seq));
}

uint32_t Requester::missing(uint64_t from, uint64_t to) const {
  uint32_t out = 0;
  for (; from < to; ++from) {
    const bool there = from < peer_expects_ ? is_kept(from) : peer_has(from);
    out += there ? 0 : 1;
  }
  return out;
}

/// All below `end` that is not there is missing. What was sent again is given a round trip to
/// arrive before it is taken as lost once more.
void Requester::repair(uint64_t end, TimeNs now) {
  end = std::min(end, max_);
  if (rnr_until_ != kNever || end <= una_) return;
  if (nxt_ < max_) {
    resend_to_ = std::max(resend_to_, end);
    repaired_to_ = std::max(repaired_to_, end);
    return;
  }
  const bool fresh = una_ >= repaired_to_ || now - repaired_at_ >= srtt_ns_ * 3 / 4;
  const uint64_t from = fresh ? una_ : repaired_to_;
  peer_has_.clear(una_);
  const uint32_t lost = missing(from, std::max(from, end));
  if (lost == 0) return;
  // A few lost packets are the weather; a large part of a window is a queue that has overflowed.
  if (lost > 2 && lost > inflight_packets_ / 4 && una_ >= recover_) {
    recover_ = max_;
    window_bytes_ = std::max(window_bytes_ / 2, core_.mtu());
  }
  ++core_.counters.repairs;
  if (fresh) repaired_at_ = now;
  rewind();
  resend_from_ = from;
  resend_to_ = repaired_to_ = end;
  if (answer_owed()) {
    resend_deadline_ = kNever;
    arm_timer(now);
  }
}

/// nxt_ passes a packet that is not sent again, or several that one READ request stands for. False:
/// what is at nxt_ is wanted.
bool Requester::skip_one(TimeNs now) {
  const WorkRequest& request = ring_.at(cur_);
  if (request.is_answered()) {
    const uint32_t psns = skip_answered(request);
    if (psns == 0) return false;
    const uint64_t bytes = std::min(request.length - offset_, uint64_t{psns} * core_.mtu());
    offset_ += bytes;
    read_bytes_ += request.is_read() ? bytes : 0;
    nxt_ += psns;
    if (is_read_boundary(request, nxt_)) outstanding_.push(nxt_);
  } else {
    if (wanted_again(nxt_) && !peer_has(nxt_)) return false;
    const auto payload =
        static_cast<uint32_t>(std::min<uint64_t>(request.length - offset_, core_.mtu()));
    offset_ += payload;
    inflight_bytes_ += payload;
    ++inflight_packets_;
    ++nxt_;
  }
  if (nxt_ == request.end_seq()) {
    ++cur_;
    offset_ = 0;
  }
  // Its answer is still awaited.
  asked_ = std::max(asked_, nxt_);
  arm_timer(now);
  return true;
}

/// How many PSNs of a READ or atomic request from nxt_ on, up to the end of one request on the
/// wire, are not to be asked for again; 0: the first one is.
uint32_t Requester::skip_answered(const WorkRequest& request) const {
  const bool waits_at_peer = nxt_ >= peer_expects_ && peer_has(nxt_);
  uint32_t psns = 0;
  do {
    if (!waits_at_peer && wanted_again(nxt_ + psns) && !is_kept(nxt_ + psns)) break;
    ++psns;
  } while (!is_read_boundary(request, nxt_ + psns));
  return psns;
}

/// PSNs that one READ request from nxt_ on asks for: requests end on the same boundaries whenever
/// they are sent, and before what is there already.
uint32_t Requester::read_run(const WorkRequest& request) const {
  const auto done = static_cast<uint32_t>(nxt_ - request.first_seq);
  const uint32_t most = std::min(
      request.packets - done, request.read_segment_packets - done % request.read_segment_packets);
  if (!repairing()) return most;
  uint32_t psns = 1;
  while (psns < most && !is_kept(nxt_ + psns)) ++psns;
  return psns;
}

bool Requester::is_read_boundary(const WorkRequest& request, uint64_t seq) const {
  return seq == request.end_seq() ||
         (request.is_read() && (seq - request.first_seq) % request.read_segment_packets == 0);
}

void Requester::advance_una(uint64_t seq) {
  const uint64_t end = std::min(seq, una_ + PsnMap::kPsns);
  kept_.clear(una_, end);
  peer_has_.clear(una_, end);
  una_ = seq;
}

}  // namespace roce::engine

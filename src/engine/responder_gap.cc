// Packets that come before their turn: dropped and asked for again, or kept and told about.
#include "engine/responder.h"

namespace roce::engine {

void Responder::handle_gap(const wire::Header& header, Effects& effects) {
  ++core_.counters.out_of_sequence;
  if (core_.attributes.selective) {
    keep_or_drop(header, effects);
    tell_gap();
    return;
  }
  core_.drop(effects, Drop::kOutOfSequence);
  if (!gap_) {
    gap_ = gap_has_trigger_ = true;
    gap_highest_ = header.psn;
  } else if (!gap_has_trigger_ || wire::psn_diff(header.psn, gap_trigger_) > 0) {
    if (wire::psn_diff(header.psn, gap_highest_) > 0) gap_highest_ = header.psn;
    return;
  }
  // First sight of this gap, or the packet that showed it came again: the requester has gone back
  // and lost the expected packet once more.
  gap_trigger_ = header.psn;
  if (nak_ == Nak::kNone) nak_ = Nak::kSequence;
}

void Responder::keep_or_drop(const wire::Header& header, Effects& effects) {
  const auto distance = static_cast<uint32_t>(wire::psn_diff(header.psn, expected_));
  const bool in_window = distance < PsnMap::kPsns;
  const uint32_t psns = psns_of(header);
  if (in_window && kept_.test(header.psn)) {
    ++core_.counters.duplicate_request;
    core_.drop(effects, Drop::kDuplicate);
  } else if (in_window) {
    effects.keep = Keep::kRequest;
    keeping_psns_ = psns;
  } else {
    core_.drop(effects, Drop::kOutOfSequence);
  }
  const uint32_t last = wire::psn_add(header.psn, psns - 1);
  if (!gap_) {
    gap_ = gap_has_trigger_ = true;
    gap_highest_ = last;
  } else if (wire::psn_diff(last, gap_highest_) > 0) {
    gap_highest_ = last;
  }
}

/// PSNs that a request takes.
uint32_t Responder::psns_of(const wire::Header& header) const {
  if (header.opcode != wire::Opcode::kRcReadRequest || header.dma_length > kMaxMessageBytes) {
    return 1;
  }
  return packets_of(header.dma_length, core_.mtu());
}

void Responder::keep(uint32_t psn) {
  const uint32_t in_window = PsnMap::kPsns - static_cast<uint32_t>(wire::psn_diff(psn, expected_));
  for (uint32_t i = 0; i < std::min(keeping_psns_, in_window); ++i) kept_.set(psn + i);
}

/// Where the peer understands it, an answer says what is missing.
void Responder::tell_gap() {
  if (!core_.attributes.selective || !gap_ || !gap_has_trigger_) return;
  if (nak_ == Nak::kNone) nak_ = Nak::kSelective;
}

void Responder::write_selective(wire::Header& header) const {
  header.opcode = wire::Opcode::kRcSelectiveAck;
  header.syndrome = wire::kAethNakSequence;
  header.sack_end = wire::psn_add(gap_highest_, 1);
  kept_.copy(expected_ + 1, header.sack_map);
}

bool Responder::take_kept(uint32_t& psn) {
  if (!kept_.any() || !kept_.test(expected_)) return false;
  psn = expected_;
  kept_.clear(expected_);
  return true;
}

/// The expected packet has come.
void Responder::advance_expected(uint32_t psns) {
  kept_.clear(expected_, uint64_t{expected_} + std::min(psns, PsnMap::kPsns));
  expected_ = wire::psn_add(expected_, psns);
  const bool passed = wire::psn_diff(expected_, gap_highest_) > 0;
  gap_ = gap_has_trigger_ = core_.attributes.selective && gap_ && !passed;
  // A NAK that has not left yet still tells the truth if packets beyond have come.
  const bool about_gap = nak_ == Nak::kSequence || nak_ == Nak::kSelective;
  if (nak_ == Nak::kRnr || (about_gap && passed)) nak_ = Nak::kNone;
}

}  // namespace roce::engine

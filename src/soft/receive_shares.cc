#include "soft/receive_shares.h"

#include <algorithm>
#include <bit>

#include "soft/process.h"

namespace roce::soft {
namespace {

/// Longer than a sleeping sender on a busy host pauses between two packets.
constexpr engine::TimeNs kCountedNs = 20'000'000;
/// How often a share that was told is told again, in case it got lost, and may grow: so that GRANTs
/// stay few however many peers send.
constexpr engine::TimeNs kSweepNs = 10'000'000;
constexpr size_t kPeersPerSweep = 16;

void tell(Process& process, Qp& qp, uint32_t divisor, engine::TimeNs now) {
  qp.share.divisor = divisor;
  grant(process, qp, now);
}

}  // namespace

void ReceiveShares::note(Process& process, Qp& qp, engine::TimeNs now) {
  qp.share.data_at = now;
  if (!qp.share.counted) count(process, qp, now);
  if (now >= next_sweep_) sweep(process, now);
}

void ReceiveShares::count(Process& process, Qp& qp, engine::TimeNs now) {
  qp.share.counted = true;
  counted_.push_back(&qp);
  const auto wanted = std::bit_ceil(static_cast<uint32_t>(counted_.size()));
  // It shrinks at once for all.
  if (wanted > divisor_) {
    divisor_ = wanted;
    for (Qp* each : counted_) tell(process, *each, divisor_, now);
  } else if (qp.share.divisor != divisor_) {
    tell(process, qp, divisor_, now);
  }
}

void ReceiveShares::sweep(Process& process, engine::TimeNs now) {
  next_sweep_ = now + kSweepNs * (1 + counted_.size() / kPeersPerSweep);
  std::erase_if(counted_, [&](Qp* qp) {
    qp->share.counted = now - qp->share.data_at < kCountedNs;
    return !qp->share.counted;
  });
  divisor_ = std::max(std::bit_ceil(static_cast<uint32_t>(counted_.size())), ReceiveShare::kFewest);
  for (Qp* qp : counted_) {
    if (divisor_ != ReceiveShare::kFewest || qp->share.divisor != divisor_) {
      tell(process, *qp, divisor_, now);
    }
  }
}

void ReceiveShares::forget(Qp& qp) {
  if (qp.share.counted) std::erase(counted_, &qp);
  qp.share = ReceiveShare{};
}

}  // namespace roce::soft

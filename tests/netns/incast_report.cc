#include "incast_report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace roce::test {
namespace {

constexpr double kLookEvery = 0.002;
constexpr double kSettledAfter = 0.1;
constexpr uint64_t kOneDropIn = 1000;

}  // namespace

IncastReport::Sample IncastReport::sample() {
  return {soft::counter("udp_kernel_drops"), soft::counter("udp_rx_buffers"),
          soft::counter("udp_rx_datagrams"), soft::counter("ce_packets")};
}

void IncastReport::begin() {
  start_ = std::chrono::steady_clock::now();
  first_ = settled_ = last_ = sample();
}

void IncastReport::look() {
  const double time = now();
  if (messages_ != seen_) {
    if (time - last_progress_ > longest_gap_) {
      longest_gap_ = time - last_progress_;
      gap_end_ = time;
    }
    last_progress_ = time;
    seen_ = messages_;
  }
  if (time < next_look_) return;
  next_look_ = time + kLookEvery;
  last_ = sample();
  if (first_drop_ < 0 && last_.drops != first_.drops) first_drop_ = time;
  if (first_mark_ < 0 && last_.marks != first_.marks) first_mark_ = time;
  if (settled_at_ < 0 && time >= kSettledAfter) {
    settled_at_ = time;
    settled_ = last_;
  }
}

void IncastReport::end() {
  next_look_ = 0;
  look();
  seconds_ = now();
}

void IncastReport::add(const SenderCounts& counts) {
  for (size_t i = 0; i < counts.size(); ++i) sums_[i] += counts[i];
}

void IncastReport::print(size_t senders) {
  static constexpr const char* kKinds[] = {"SEND", "WRITE", "READ"};
  static constexpr const char* kKnowledge[] = {"", ", plain", ", foreign"};
  std::printf(
      "%s of %u B, %zu sender%s%s: %.1f MiB/s, %.0f messages/s, longest gap %.0f ms until %.0f "
      "ms\n",
      kKinds[load_.kind], load_.bytes, senders, senders == 1 ? "" : "s",
      kKnowledge[static_cast<uint32_t>(load_.knowledge)],
      static_cast<double>(bytes_) / seconds_ / 1048576, static_cast<double>(messages_) / seconds_,
      longest_gap_ * 1e3, gap_end_ * 1e3);
  const uint64_t drops = last_.drops - settled_.drops;
  const uint64_t arrived = last_.buffers - settled_.buffers;
  std::printf("  kernel drops: %" PRIu64 " of %" PRIu64 " (%" PRIu64
              " datagrams) after %.0f ms, %" PRIu64 " before; first at %.0f ms\n",
              drops, arrived + drops, last_.datagrams - settled_.datagrams, settled_at_ * 1e3,
              settled_.drops - first_.drops, first_drop_ * 1e3);
  std::printf("  marks: %" PRIu64 ", first at %.0f ms\n  senders:", last_.marks - first_.marks,
              first_mark_ * 1e3);
  for (size_t i = 0; i < sums_.size(); ++i)
    std::printf(" %s %" PRIu64, kSenderCounters[i], sums_[i]);
  std::printf("\n  the one:");
  for (const char* name : {"resent_packets", "repairs", "adaptive_resends", "rnr_naks_sent"})
    std::printf(" %s %" PRIu64, name, soft::counter(name));
  std::printf("\n");
  std::fflush(stdout);
  if (drops * kOneDropIn > arrived + drops)
    die("the kernel dropped %" PRIu64 " of %" PRIu64, drops, arrived + drops);
}

}  // namespace roce::test

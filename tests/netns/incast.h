// Many processes, each asleep until a completion wakes it, load the receive buffer of one.
#ifndef ROCE_TESTS_NETNS_INCAST_H_
#define ROCE_TESTS_NETNS_INCAST_H_

#include <array>
#include <cstdint>
#include <string>

#include "meeting.h"

namespace roce::test {

struct Load {
  /// kRead: the one reads from all the others, whose responses load it.
  enum Kind : uint32_t { kSend, kWrite, kRead } kind = kSend;
  uint32_t bytes = 0;  ///< Of a message.
  uint32_t milliseconds = 0;
  Knowledge knowledge = Knowledge::kTold;

  uint32_t depth() const { return bytes > 65536 ? 4 : 64; }  ///< Messages under way per sender.
  /// One more, so that a receive is there for the last word.
  uint32_t slots() const { return depth() + 1; }
  /// Messages that are announced (WRITE) and credited (SEND, WRITE) together.
  uint32_t batch() const { return depth() / 4; }
};

/// What both ends tell each other. The one fills load and seed as well.
struct IncastName {
  QpName qp;
  uint64_t address;  ///< Slots of the one, text of a sender.
  uint32_t rkey;
  uint32_t seed;  ///< Of the text of this sender.
  Load load;
};

/// Immediate value of the last message in either direction.
inline constexpr uint32_t kLast = 0xFFFFFFFF;

/// Counters of a sender that the one prints the sum of.
inline constexpr std::array kSenderCounters = {
    "udp_tx_datagrams",      "resent_packets",    "repairs",      "adaptive_resends",
    "local_ack_timeout_err", "rnr_naks_received", "cnps_received"};
using SenderCounts = std::array<uint64_t, kSenderCounters.size()>;

void run_one(const std::string& own, uint32_t senders, const Load& load);
void run_sender(const std::string& own, const std::string& one);

}  // namespace roce::test

#endif  // ROCE_TESTS_NETNS_INCAST_H_

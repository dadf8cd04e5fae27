#include "flow/window.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace roce::flow {
namespace {

TEST(SendWindow, MessagesAreLimited) {
  SendWindow window;
  window.start(2, 1000);
  window.sent(10);
  EXPECT_TRUE(window.may_send(10));
  window.sent(10);
  EXPECT_FALSE(window.may_send(10));
  EXPECT_TRUE(window.consumed(1, 2));
  EXPECT_TRUE(window.may_send(10));
}

TEST(SendWindow, BytesAreLimitedButOneMessageIsAlwaysAllowed) {
  SendWindow window;
  window.start(8, 1000);
  EXPECT_TRUE(window.may_send(5000));
  window.sent(5000);
  EXPECT_FALSE(window.may_send(1));
  EXPECT_TRUE(window.consumed(1, 8));
  window.sent(600);
  EXPECT_TRUE(window.may_send(400));
  EXPECT_FALSE(window.may_send(401));
}

TEST(SendWindow, PutsCountAndOneIsAlwaysAllowed) {
  SendWindow window;
  window.start(8, 1000);
  window.sent(900);
  EXPECT_TRUE(window.may_put(5000));
  window.put_posted(5000);
  EXPECT_FALSE(window.may_put(1));
  EXPECT_FALSE(window.may_send(1));
  window.put_acknowledged(5000);
  EXPECT_TRUE(window.may_send(100));
}

TEST(SendWindow, CreditForWhatWasNeverSentIsRefused) {
  SendWindow window;
  window.start(4, 1000);
  window.sent(1);
  EXPECT_FALSE(window.consumed(2, 4));
  EXPECT_EQ(window.unconsumed_messages(), 1U);
}

TEST(SendWindow, TheLimitFollowsThePeerWithinTheFirstGrant) {
  SendWindow window;
  window.start(4, 100000);
  EXPECT_TRUE(window.consumed(0, 1));
  window.sent(1);
  EXPECT_FALSE(window.may_send(1));
  EXPECT_TRUE(window.consumed(1, 1000));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(window.may_send(1));
    window.sent(1);
  }
  EXPECT_FALSE(window.may_send(1));
}

/// A sender with random messages and a receiver that reports only when due, with grants that
/// change: whatever happens, the sender never waits for a credit that is not coming.
TEST(Window, NeverDeadlocksAndCountsWrapAround) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const uint32_t messages = 1 + random() % 40, bytes = 1 + random() % 100000,
                   largest = 65536 + 16;
    SendWindow window;
    ReceiveCredit credit;
    window.start(messages, bytes);
    credit.start(messages, bytes, largest);
    std::deque<uint32_t> unconsumed;
    for (int sent = 0; sent < 70000;) {
      // At least a header.
      uint32_t size = 16 + (random() % 8 == 0 ? random() % (largest - 16) : random() % 100);
      while (!window.may_send(size)) {
        ASSERT_FALSE(unconsumed.empty() && !credit.due()) << "stalled for ever after " << sent;
        if (!unconsumed.empty()) {
          credit.message_consumed(unconsumed.front());
          unconsumed.pop_front();
        }
        if (credit.due()) {
          uint16_t total = credit.report();
          ASSERT_TRUE(window.consumed(total, credit.window()));
        }
      }
      window.sent(size);
      unconsumed.push_back(size);
      ++sent;
      if (random() % 1000 == 0) credit.set_window(1 + random() % messages);
    }
  }
}

}  // namespace
}  // namespace roce::flow

#include "transport/window.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "transport/header.h"

namespace roce::transport {
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

TEST(Header, IsSixteenLittleEndianBytes) {
  uint8_t bytes[16];
  store_header(bytes, {.kind = MessageKind::kMessage,
                       .tag = 0x22,
                       .length = 0x01020304,
                       .endpoint = 0x0A0B0C0D,
                       .consumed = 0x1112,
                       .window = 0x2122});
  const uint8_t expected[16] = {0xB1, 1,    0x22, 0,    4,    3,    2,    1,
                                0x0D, 0x0C, 0x0B, 0x0A, 0x12, 0x11, 0x22, 0x21};
  EXPECT_EQ(std::memcmp(bytes, expected, 16), 0);
}

TEST(Header, LengthMustBeThatOfTheMessage) {
  uint8_t bytes[32] = {};
  MessageHeader header;
  store_header(bytes, {.kind = MessageKind::kMessage, .length = 16});
  EXPECT_TRUE(load_header(bytes, 32, &header));
  EXPECT_FALSE(load_header(bytes, 31, &header));
  EXPECT_FALSE(load_header(bytes, 15, &header));
  bytes[0] = 0xB2;
  EXPECT_FALSE(load_header(bytes, 32, &header));
  bytes[0] = 0xB1;
  bytes[1] = 3;
  EXPECT_FALSE(load_header(bytes, 32, &header));
}

}  // namespace
}  // namespace roce::transport

#include "engine/receive_queue.h"

#include <gtest/gtest.h>

namespace roce::engine::test {
namespace {

bool post(ReceiveQueue& queue, uint64_t wr_id, std::initializer_list<uint32_t> lengths = {64}) {
  std::vector<Sge> sges;
  for (const uint32_t length : lengths) sges.push_back({wr_id * 0x1000, length, 1});
  RecvRequest request;
  request.wr_id = wr_id;
  request.sges = sges;
  return queue.post(request);
}

TEST(ReceiveQueue, GivesOutInOrderOfPosting) {
  ReceiveQueue queue(4, 2);
  EXPECT_TRUE(post(queue, 1, {10, 20}));
  EXPECT_TRUE(post(queue, 2));
  EXPECT_EQ(queue.posted(), 2u);
  EXPECT_EQ(queue.next_capacity_bytes(), 30u);
  ReceiveQueue::Taken taken;
  ASSERT_TRUE(queue.take(taken));
  EXPECT_EQ(taken.wr_id, 1u);
  EXPECT_EQ(taken.capacity_bytes, 30u);
  ASSERT_EQ(taken.sges.size(), 2u);
  EXPECT_EQ(taken.sges[1].length, 20u);
  ASSERT_TRUE(queue.take(taken));
  EXPECT_EQ(taken.wr_id, 2u);
  EXPECT_FALSE(queue.take(taken));
}

TEST(ReceiveQueue, TakenRequestsKeepTheirPlacesUntilReleased) {
  ReceiveQueue queue(2, 1);
  post(queue, 1);
  post(queue, 2);
  EXPECT_FALSE(post(queue, 3));
  ReceiveQueue::Taken first, second;
  queue.take(first);
  queue.take(second);
  EXPECT_FALSE(post(queue, 3));
  queue.release(second.entry);  // Any order.
  EXPECT_TRUE(post(queue, 3));
  EXPECT_EQ(first.sges[0].addr, 0x1000u);
  queue.release(first.entry);
  EXPECT_TRUE(post(queue, 4));
  queue.take(first);
  EXPECT_EQ(first.wr_id, 3u);
}

TEST(ReceiveQueue, RefusesTooManyElements) {
  ReceiveQueue queue(2, 1);
  EXPECT_FALSE(post(queue, 1, {1, 2}));
  EXPECT_TRUE(post(queue, 1, {}));
}

TEST(ReceiveQueue, DepthZeroHoldsNothing) {
  ReceiveQueue queue(0, 0);
  EXPECT_FALSE(post(queue, 1, {}));
  ReceiveQueue::Taken taken;
  EXPECT_FALSE(queue.take(taken));
}

TEST(ReceiveQueue, LimitEventComesOnceWhenFewerThanLimitWait) {
  ReceiveQueue queue(4, 1);
  for (uint64_t i = 0; i < 3; ++i) post(queue, i);
  queue.arm_limit(2);
  ReceiveQueue::Taken taken;
  queue.take(taken);
  EXPECT_FALSE(queue.take_limit_event()) << "two wait, the limit is two";
  queue.take(taken);
  EXPECT_TRUE(queue.take_limit_event());
  EXPECT_EQ(queue.limit(), 0u);
  queue.take(taken);
  EXPECT_FALSE(queue.take_limit_event());
}

TEST(ReceiveQueue, LimitAboveWhatWaitsComesAtOnce) {
  ReceiveQueue queue(4, 1);
  queue.arm_limit(1);
  EXPECT_TRUE(queue.take_limit_event());
  EXPECT_FALSE(queue.take_limit_event());
}

}  // namespace
}  // namespace roce::engine::test

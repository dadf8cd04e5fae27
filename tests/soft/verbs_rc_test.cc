// Reliable connections between queue pairs of one process: every operation, its bytes and its
// errors.
#include <atomic>
#include <numeric>
#include <thread>

#include "rig.h"

namespace roce::soft::test {
namespace {

TEST(SoftRc, SendArrivesWithItsBytes) {
  Pair pair;
  std::memcpy(pair.a.data, "hello over RoCE", 16);
  ASSERT_EQ(pair.b.receive(7, 0, 64), 0);
  ASSERT_EQ(pair.a.send(3, IBV_WR_SEND, 0, 16), 0);
  const ibv_wc received = pair.b.wait();
  ASSERT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 16u);
  EXPECT_EQ(received.qp_num, pair.b.qp->qp_num);
  EXPECT_STREQ(reinterpret_cast<char*>(pair.b.data), "hello over RoCE");
  const ibv_wc sent = pair.a.wait();
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.wr_id, 3u);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
}

TEST(SoftRc, PingPongKeepsOrder) {
  Pair pair;
  for (uint64_t i = 0; i < 2000; ++i) {
    Rig& from = i % 2 == 0 ? pair.a : pair.b;
    Rig& to = i % 2 == 0 ? pair.b : pair.a;
    ASSERT_EQ(to.receive(i, 8, 8), 0);
    std::memcpy(from.data, &i, 8);
    ASSERT_EQ(from.send(i, IBV_WR_SEND, 0, 8, IBV_SEND_INLINE), 0);
    const ibv_wc received = to.wait();
    ASSERT_EQ(received.status, IBV_WC_SUCCESS) << i;
    ASSERT_EQ(received.wr_id, i);
    uint64_t got = 0;
    std::memcpy(&got, to.data + 8, 8);
    ASSERT_EQ(got, i);
    ASSERT_EQ(from.wait().wr_id, i);
  }
}

}  // namespace
}  // namespace roce::soft::test

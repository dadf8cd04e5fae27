// What verbs promise about requests and their completions: their order, fences, completion queues
// resized while in use, messages cut to the path MTU.
#include "rig.h"

namespace roce::soft::test {
namespace {

void fill(uint8_t* to, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed);
}

// ---- order ----

TEST(Completions, ASendCompletesBeforeTheAnswerToIt) {
  Pair pair;
  // After some quick exchanges the ACK of a message rides behind the answer to it.
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(pair.a.receive(i, 8, 8), 0);
    ASSERT_EQ(pair.b.receive(i, 8, 8), 0);
    ASSERT_EQ(pair.a.send(i, IBV_WR_SEND, 0, 8), 0);
    ASSERT_EQ(pair.b.wait().opcode, IBV_WC_RECV);
    ASSERT_EQ(pair.b.send(i, IBV_WR_SEND, 0, 8), 0);
    ASSERT_EQ(pair.a.wait().opcode, IBV_WC_SEND) << i;
    ASSERT_EQ(pair.a.wait().opcode, IBV_WC_RECV) << i;
    ASSERT_EQ(pair.b.wait().opcode, IBV_WC_SEND) << i;
  }
}

// ---- fence ----

TEST(Fence, ASendCarriesWhatTheReadBeforeItFetched) {
  constexpr uint32_t kBytes = 20'000;
  Pair pair;
  for (unsigned round = 0; round < 20; ++round) {
    std::memset(pair.a.data, 0xEE, kBytes);
    fill(pair.b.data, kBytes, round);
    ASSERT_EQ(pair.b.receive(round, kBytes, kBytes), 0);
    ASSERT_EQ(pair.a.read(pair.b, 1, 0, kBytes), 0);
    ASSERT_EQ(pair.a.send(2, IBV_WR_SEND, 0, kBytes, IBV_SEND_FENCE), 0);
    ASSERT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
    ASSERT_EQ(std::memcmp(pair.b.data + kBytes, pair.b.data, kBytes), 0) << round;
    ASSERT_EQ(pair.a.wait().wr_id, 1u);
    ASSERT_EQ(pair.a.wait().wr_id, 2u);
  }
}

TEST(Fence, AWriteCarriesWhatTheAtomicBeforeItReturned) {
  Pair pair;
  uint64_t word = 77;
  std::memcpy(pair.b.data + 64, &word, 8);
  ASSERT_EQ(pair.a.send(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0,
                        reinterpret_cast<uintptr_t>(pair.b.data + 64), pair.b.mr->rkey, 1),
            0);
  ASSERT_EQ(pair.a.write(pair.b, 2, 0, 8, IBV_SEND_FENCE), 0);
  ASSERT_EQ(pair.a.wait().wr_id, 1u);
  ASSERT_EQ(pair.a.wait().wr_id, 2u);
  std::memcpy(&word, pair.b.data, 8);
  EXPECT_EQ(word, 77u);
}

TEST(Fence, AReadBehindDoesNotHoldUpTheRepetition) {
  Pair pair;
  pair.b.data[100] = 5;
  ASSERT_EQ(pair.a.send(1, IBV_WR_SEND, 0, 8, IBV_SEND_FENCE), 0);
  ASSERT_EQ(pair.a.read(pair.b, 2, 0, 8, 100), 0);
  EXPECT_EQ(pair.a.wait(0.02).status, IBV_WC_GENERAL_ERR);  // The peer has no receive request.
  ASSERT_EQ(pair.b.receive(3, 0, 8), 0);
  EXPECT_EQ(pair.b.wait().wr_id, 3u);
  EXPECT_EQ(pair.a.wait().wr_id, 1u);
  EXPECT_EQ(pair.a.wait().wr_id, 2u);
  EXPECT_EQ(pair.a.data[0], 5);
}

// ---- completion queues ----

/// READs `first` to `last` - 1, done but not polled: the fetched word shows the last one's end.
void complete_without_polling(Pair& pair, uint64_t first, uint64_t last) {
  pair.b.data[0] = static_cast<uint8_t>(last);
  for (uint64_t i = first; i < last; ++i) ASSERT_EQ(pair.a.read(pair.b, i, i, 1), 0);
  const auto start = std::chrono::steady_clock::now();
  const volatile uint8_t& arrived = pair.a.data[last - 1];
  while (arrived != static_cast<uint8_t>(last) && seconds_since(start) < 10) progress();
  ASSERT_EQ(arrived, static_cast<uint8_t>(last));
}

void expect_completions(Rig& rig, uint64_t first, uint64_t last) {
  ibv_wc wc{};
  for (uint64_t i = first; i < last; ++i) {
    ASSERT_EQ(ibv_poll_cq(rig.cq, 1, &wc), 1) << i;
    ASSERT_EQ(wc.wr_id, i);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(ibv_poll_cq(rig.cq, 1, &wc), 0);
}

TEST(ResizeCq, AWrappedRingKeepsItsCompletionsAtEverySize) {
  Pair pair;
  ASSERT_EQ(resize_cq(pair.a.cq, 16), 0);
  complete_without_polling(pair, 0, 11);
  expect_completions(pair.a, 0, 11);
  complete_without_polling(pair, 11, 21);  // Places 11 to 15 and 0 to 4.
  EXPECT_EQ(resize_cq(pair.a.cq, 8), EINVAL);
  EXPECT_EQ(resize_cq(pair.a.cq, 0), EINVAL);
  EXPECT_EQ(pair.a.cq->cqe, 16);
  ASSERT_EQ(resize_cq(pair.a.cq, 32), 0);
  EXPECT_EQ(pair.a.cq->cqe, 32);
  complete_without_polling(pair, 21, 43);  // Full to the last place.
  expect_completions(pair.a, 11, 43);
  complete_without_polling(pair, 43, 59);
  ASSERT_EQ(resize_cq(pair.a.cq, 16), 0);  // Just as many as are inside.
  expect_completions(pair.a, 43, 59);
  EXPECT_EQ(pair.a.next_event(0), std::nullopt) << "no overrun";
}

TEST(ResizeCq, ARefusalLosesNothing) {
  Pair pair;
  ASSERT_EQ(resize_cq(pair.a.cq, 16), 0);
  complete_without_polling(pair, 0, 12);
  expect_completions(pair.a, 0, 12);
  complete_without_polling(pair, 12, 21);
  EXPECT_EQ(resize_cq(pair.a.cq, 8), EINVAL);
  complete_without_polling(pair, 21, 28);  // The places are those of before.
  expect_completions(pair.a, 12, 28);
}

// ---- path MTU ----

class PathMtu : public testing::TestWithParam<ibv_mtu> {};

TEST_P(PathMtu, MessagesAreCutToItAndArriveRight) {
  constexpr uint32_t kBytes = 3000;
  const uint32_t packets = (kBytes + (128u << GetParam()) - 1) / (128u << GetParam());
  QpOptions options;
  options.mtu = GetParam();
  Pair pair(options);
  EXPECT_EQ(pair.a.query().path_mtu, GetParam());
  fill(pair.a.data, kBytes, 1);
  uint32_t psn = pair.a.query().sq_psn;
  const auto expect_packets = [&](const char* what) {
    EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS) << what;
    EXPECT_EQ((pair.a.query().sq_psn - psn) & 0xFFFFFF, packets) << what;
    EXPECT_EQ(pair.b.query().rq_psn, pair.a.query().sq_psn) << what;
    psn = pair.a.query().sq_psn;
  };
  ASSERT_EQ(pair.b.receive(1, 0, kBytes + 1), 0);
  ASSERT_EQ(pair.a.send(1, IBV_WR_SEND, 0, kBytes), 0);
  expect_packets("SEND");
  EXPECT_EQ(pair.b.wait().byte_len, kBytes);
  EXPECT_EQ(std::memcmp(pair.b.data, pair.a.data, kBytes), 0);
  EXPECT_EQ(pair.b.data[kBytes], 0);

  fill(pair.a.data, kBytes, 2);
  ASSERT_EQ(pair.a.write(pair.b, 2, 0, kBytes), 0);
  expect_packets("WRITE");
  EXPECT_EQ(std::memcmp(pair.b.data, pair.a.data, kBytes), 0);
  EXPECT_EQ(pair.b.data[kBytes], 0);

  fill(pair.b.data + 7, kBytes, 3);
  ASSERT_EQ(pair.a.read(pair.b, 3, 5000, kBytes, 7), 0);
  expect_packets("READ");
  EXPECT_EQ(std::memcmp(pair.a.data + 5000, pair.b.data + 7, kBytes), 0);
  EXPECT_EQ(pair.a.data[5000 + kBytes], 0);
}

INSTANTIATE_TEST_SUITE_P(All, PathMtu,
                         testing::Values(IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048,
                                         IBV_MTU_4096),
                         [](const auto& info) { return std::to_string(128u << info.param); });

}  // namespace
}  // namespace roce::soft::test

// COMPARE & SWAP and FETCH & ADD on both sides.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

TEST(AtomicRequester, OperandsStandInTheRequest) {
  Solo solo;
  SendRequest request = Solo::request(WrOpcode::kCompareSwap, 1);
  request.compare_add = 5;
  request.swap = 6;
  solo.post(request, 8);
  request.opcode = WrOpcode::kFetchAdd;
  solo.post(request, 8);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcCompareSwap);
  EXPECT_EQ(out[0].header.compare, 5u);
  EXPECT_EQ(out[0].header.swap_add, 6u);
  EXPECT_EQ(out[1].header.opcode, Opcode::kRcFetchAdd);
  EXPECT_EQ(out[1].header.swap_add, 5u);
}

TEST(AtomicRequester, OriginalValueIsPlaced) {
  Solo solo;
  solo.post(WrOpcode::kFetchAdd, 1, 8);
  solo.packets();
  const Effects effects = solo.take(Opcode::kRcAtomicAck, kSendPsn);
  EXPECT_TRUE(effects.placement.is_atomic_original);
  EXPECT_EQ(effects.placement.length, 8u);
  EXPECT_EQ(effects.placement.sges[0].addr, 0x5000u);
  const auto completions = solo.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kFetchAdd);
  EXPECT_EQ(completions[0].byte_len, 8u);
}

TEST(AtomicRequester, ReadResponseForAnAtomicIsABadResponse) {
  Solo solo;
  solo.post(WrOpcode::kFetchAdd, 1, 8);
  solo.packets();
  solo.take(Opcode::kRcReadResponseOnly, kSendPsn, 8);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kBadResponse}}));
}

TEST(AtomicResponder, OperationGoesOutAndItsResultComesBack) {
  Solo solo;
  wire::Header header = Solo::header(Opcode::kRcCompareSwap, kReceivePsn);
  header.compare = 3;
  header.swap_add = 4;
  const Effects effects = solo.take(header);
  ASSERT_TRUE(effects.atomic.valid);
  EXPECT_TRUE(effects.atomic.is_compare_swap);
  EXPECT_EQ(effects.atomic.va, 0x10000u);
  EXPECT_EQ(effects.atomic.rkey, 0x77u);
  EXPECT_EQ(effects.atomic.compare, 3u);
  EXPECT_EQ(effects.atomic.swap_add, 4u);
  solo.qp.handle_atomic_result(42);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcAtomicAck);
  EXPECT_EQ(out[0].header.atomic_original, 42u);
  EXPECT_EQ(out[0].header.psn, kReceivePsn);
}

TEST(AtomicResponder, DuplicateReplaysTheStoredResultAndNeverExecutes) {
  Solo solo;
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(solo.take(Opcode::kRcFetchAdd, kReceivePsn + i).atomic.valid);
    solo.qp.handle_atomic_result(1000 + i);
    solo.packets();
  }
  for (uint32_t i = 0; i < 3; ++i) {
    const Effects effects = solo.take(Opcode::kRcFetchAdd, kReceivePsn + i);
    EXPECT_FALSE(effects.atomic.valid);
    EXPECT_EQ(effects.drop, Drop::kDuplicate);
    const auto out = solo.packets();
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].header.atomic_original, 1000 + i);
    EXPECT_TRUE(out[0].resend);
  }
}

TEST(AtomicResponder, DuplicateOlderThanTheHistoryIsIgnored) {
  Solo solo;  // max_dest_rd_atomic 4
  for (uint32_t i = 0; i < 5; ++i) {
    solo.take(Opcode::kRcFetchAdd, kReceivePsn + i);
    solo.qp.handle_atomic_result(i);
    solo.packets();
  }
  EXPECT_FALSE(solo.take(Opcode::kRcFetchAdd, kReceivePsn).atomic.valid);
  EXPECT_TRUE(solo.packets().empty());
  solo.take(Opcode::kRcFetchAdd, kReceivePsn + 1);
  EXPECT_EQ(solo.packets().size(), 1u);
}

TEST(AtomicResponder, MisalignedAddressIsInvalid) {
  Solo solo;
  wire::Header header = Solo::header(Opcode::kRcFetchAdd, kReceivePsn);
  header.va = 0x10004;
  EXPECT_FALSE(solo.take(header).atomic.valid);
  EXPECT_EQ(solo.packets().at(0).header.syndrome, wire::kAethNakInvalidRequest);
}

TEST(AtomicResponder, RegionIsCheckedForAtomicAccess) {
  Solo solo;
  solo.memory.remote = false;
  EXPECT_FALSE(solo.take(Opcode::kRcFetchAdd, kReceivePsn).atomic.valid);
  ASSERT_EQ(solo.memory.checks.size(), 1u);
  EXPECT_EQ(solo.memory.checks[0].length, 8u);
  EXPECT_EQ(solo.memory.checks[0].access, unsigned{kRemoteAtomic});
  EXPECT_EQ(solo.packets().at(0).header.syndrome, wire::kAethNakRemoteAccess);
}

}  // namespace
}  // namespace roce::engine::test

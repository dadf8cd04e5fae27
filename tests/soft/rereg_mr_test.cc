// Changing memory regions in place. Rules: ibv_rereg_mr(3).
#include "rig.h"

namespace roce::soft::test {
namespace {

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/// A WRITE of the 8 bytes "ABCDEFGH" to `address`; its status. An error ends the connection.
ibv_wc_status write_to(Pair& pair, const void* address, uint32_t rkey) {
  std::memcpy(pair.a.data, "ABCDEFGH", 8);
  const auto remote = reinterpret_cast<uintptr_t>(address);
  if (pair.a.send(1, IBV_WR_RDMA_WRITE, 0, 8, 0, remote, rkey) != 0) return IBV_WC_FATAL_ERR;
  return pair.a.wait().status;
}

TEST(ReregMr, AccessCanBeGivenAndTaken) {
  alignas(8) uint8_t memory[64] = {};
  for (const bool give : {true, false}) {
    Pair pair;
    ibv_mr* mr = reg_mr(pair.b.pd, memory, sizeof memory, give ? IBV_ACCESS_LOCAL_WRITE : kAll);
    ASSERT_NE(mr, nullptr);
    const uint32_t lkey = mr->lkey, rkey = mr->rkey;
    ASSERT_EQ(rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                       give ? kAll : IBV_ACCESS_LOCAL_WRITE),
              0);
    EXPECT_EQ(mr->lkey, lkey);
    EXPECT_EQ(mr->rkey, rkey);
    EXPECT_EQ(write_to(pair, memory, rkey), give ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(dereg_mr(mr), 0);
  }
  EXPECT_EQ(std::memcmp(memory, "ABCDEFGH", 8), 0);
}

TEST(ReregMr, TheTranslationMoves) {
  alignas(8) uint8_t before[64] = {}, after[128] = {};
  for (const bool to_new : {true, false}) {
    Pair pair;
    ibv_mr* mr = reg_mr(pair.b.pd, before, sizeof before, kAll);
    ASSERT_NE(mr, nullptr);
    ASSERT_EQ(rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, after, sizeof after, 0), 0);
    EXPECT_EQ(mr->addr, after);
    EXPECT_EQ(mr->length, sizeof after);
    EXPECT_EQ(write_to(pair, to_new ? after + 120 : before, mr->rkey),
              to_new ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(dereg_mr(mr), 0);
  }
  EXPECT_EQ(std::memcmp(after + 120, "ABCDEFGH", 8), 0);
  EXPECT_EQ(before[0], 0);
}

TEST(ReregMr, AZeroBasedRegionStaysSo) {
  alignas(8) uint8_t before[64] = {}, after[64] = {};
  Pair pair;
  ibv_mr* mr = reg_mr(pair.b.pd, before, sizeof before, kAll | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, after, sizeof after, 0), 0);
  EXPECT_EQ(write_to(pair, nullptr, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(after, "ABCDEFGH", 8), 0);
  EXPECT_EQ(dereg_mr(mr), 0);
}

TEST(ReregMr, TheDomainChanges) {
  alignas(8) uint8_t memory[64] = {};
  Pair pair;
  ibv_pd* other = alloc_pd(pair.b.context);
  ASSERT_NE(other, nullptr);
  ibv_mr* mr = reg_mr(other, memory, sizeof memory, kAll);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(dealloc_pd(other), EBUSY);
  ASSERT_EQ(rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pair.b.pd, nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, pair.b.pd);
  EXPECT_EQ(dealloc_pd(other), 0);
  EXPECT_EQ(write_to(pair, memory, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(dereg_mr(mr), 0);
}

TEST(ReregMr, ARefusalChangesNothing) {
  alignas(8) uint8_t memory[64] = {};
  Pair pair;
  ibv_mr* mr = reg_mr(pair.b.pd, memory, sizeof memory, kAll);
  ASSERT_NE(mr, nullptr);
  const auto refused = [&](int error, int flags, ibv_pd* pd, void* address, size_t length,
                           int access) {
    errno = 0;
    EXPECT_EQ(rereg_mr(mr, flags, pd, address, length, access), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(errno, error);
  };
  constexpr int kMove = IBV_REREG_MR_CHANGE_TRANSLATION, kPd = IBV_REREG_MR_CHANGE_PD,
                kAccess = IBV_REREG_MR_CHANGE_ACCESS;
  refused(EINVAL, 0, nullptr, nullptr, 0, 0);
  refused(EINVAL, 8, nullptr, nullptr, 0, 0);
  refused(EINVAL, kMove, nullptr, nullptr, 64, 0);
  refused(EINVAL, kMove, nullptr, memory, 0, 0);
  refused(EINVAL, kMove, nullptr, memory, 64, IBV_ACCESS_LOCAL_WRITE);
  refused(EINVAL, kPd, nullptr, nullptr, 0, 0);
  refused(EINVAL, kPd, pair.a.pd, nullptr, 0, 0);  // Of another context.
  refused(EINVAL, kAccess, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE);
  refused(EOPNOTSUPP, kAccess, nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND);
  refused(EFAULT, kMove | kAccess, nullptr, reinterpret_cast<void*>(4096), 64, 0);
  EXPECT_EQ(mr->addr, memory);
  EXPECT_EQ(write_to(pair, memory, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(dereg_mr(mr), 0);
}

}  // namespace
}  // namespace roce::soft::test

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "wire/packet.h"

namespace roce::wire {
namespace {

TEST(Psn, ArithmeticWraps) {
  EXPECT_EQ(psn_add(0xFFFFFF, 1), 0u);
  EXPECT_EQ(psn_add(0xFFFFFE, 5), 3u);
  EXPECT_EQ(psn_add(0, 0xFFFFFF), 0xFFFFFFu);
  EXPECT_EQ(psn_add(7, 0xFFFFFFFF), 6u);  // -1
}

TEST(Psn, DifferenceIsSignedAcrossTheWrap) {
  EXPECT_EQ(psn_diff(0, 0xFFFFFF), 1);
  EXPECT_EQ(psn_diff(0xFFFFFF, 0), -1);
  EXPECT_EQ(psn_diff(5, 5), 0);
  EXPECT_EQ(psn_diff(0x7FFFFF, 0), 0x7FFFFF);
  EXPECT_EQ(psn_diff(0x800000, 0), -0x800000);
  EXPECT_EQ(psn_diff(0, 0x800000), -0x800000);
  EXPECT_EQ(psn_diff(0x100, 0xFFFF00), 0x200);
  for (uint32_t base : {0u, 1u, 0x7FFFFFu, 0x800000u, 0xFFFFF0u, 0xFFFFFFu}) {
    for (int32_t step : {0, 1, 63, 0x7FFFFF, -1, -64, -0x800000}) {
      EXPECT_EQ(psn_diff(psn_add(base, static_cast<uint32_t>(step)), base), step) << base;
    }
  }
}

TEST(Mtu, EnumValuesAreThoseOfVerbs) {
  EXPECT_EQ(mtu_bytes(1), 256u);
  EXPECT_EQ(mtu_bytes(2), 512u);
  EXPECT_EQ(mtu_bytes(3), 1024u);
  EXPECT_EQ(mtu_bytes(4), 2048u);
  EXPECT_EQ(mtu_bytes(5), 4096u);
  for (int other : {-1, 0, 6, 100}) EXPECT_EQ(mtu_bytes(other), 0u);
}

TEST(Mtu, InterfaceLeavesRoomForHeaders) {
  EXPECT_EQ(mtu_enum_for_interface(0), 0);
  EXPECT_EQ(mtu_enum_for_interface(335), 0);
  EXPECT_EQ(mtu_enum_for_interface(336), 1);
  EXPECT_EQ(mtu_enum_for_interface(591), 1);
  EXPECT_EQ(mtu_enum_for_interface(592), 2);
  EXPECT_EQ(mtu_enum_for_interface(1500), 3);
  EXPECT_EQ(mtu_enum_for_interface(4175), 4);
  EXPECT_EQ(mtu_enum_for_interface(4176), 5);
  EXPECT_EQ(mtu_enum_for_interface(9000), 5);
  EXPECT_EQ(mtu_enum_for_interface(65536), 5);
  EXPECT_EQ(mtu_enum_for_interface(UINT32_MAX), 5);
}

TEST(RnrTimer, HasTheMillisecondsOfTheSpecification) {
  const double milliseconds[32] = {655.36, .01,   .02,   .03,    .04,    .06,    .08,    .12,
                                   .16,    .24,   .32,   .48,    .64,    .96,    1.28,   1.92,
                                   2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                                   40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  for (int code = 0; code < 32; ++code) {
    const auto expected = static_cast<uint64_t>(std::llround(milliseconds[code] * 1e6));
    EXPECT_EQ(rnr_timer_ns(static_cast<uint8_t>(code)), expected) << code;
    EXPECT_EQ(rnr_timer_ns(static_cast<uint8_t>(code | kAethRnrNak)), expected) << code;
  }
}

TEST(AckTimeout, Is4096NanosecondsTimesAPowerOfTwo) {
  EXPECT_EQ(ack_timeout_ns(0), UINT64_MAX);
  EXPECT_EQ(ack_timeout_ns(1), 8192u);
  EXPECT_EQ(ack_timeout_ns(14), 67'108'864u);
  EXPECT_EQ(ack_timeout_ns(18), 1'073'741'824u);
  EXPECT_EQ(ack_timeout_ns(31), 8'796'093'022'208u);
  EXPECT_EQ(ack_timeout_ns(200), ack_timeout_ns(31));
}

TEST(UdpSourcePort, HasTheCheckValuesOfBothRules) {
  EXPECT_EQ(udp_source_port(0, 0x11, 0x12), 49458);
  EXPECT_EQ(udp_source_port(0, 0x123, 0x456), 60881);
  EXPECT_EQ(udp_source_port(0, 0xABCDEF, 0x10203), 54695);
  EXPECT_EQ(udp_source_port(0, 0xABCDEF, 0xFEDCBA), 58493);
  // The labels that these queue pair numbers give.
  EXPECT_EQ(udp_source_port(0x132, 0, 0), 49458);
  EXPECT_EQ(udp_source_port(0x4EDC2, 1, 2), 60881);
  EXPECT_EQ(udp_source_port(0x495B5, 3, 4), 54695);
}

TEST(UdpSourcePort, IsTheSameFromBothSidesAndInRange) {
  for (uint32_t a = 1; a < 0xFFFFFF; a += 99991) {
    for (uint32_t b = 3; b < 0xFFFFFF; b += 1234567) {
      EXPECT_EQ(udp_source_port(0, a, b), udp_source_port(0, b, a));
      EXPECT_GE(udp_source_port(0, a, b), 0xC000);
      EXPECT_GE(udp_source_port(a, b, b), 0xC000);
    }
  }
}

}  // namespace
}  // namespace roce::wire

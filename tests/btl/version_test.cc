#include "btl/version.h"

#include <gtest/gtest.h>

namespace roce::btl {
namespace {

TEST(Version, SameSeriesWhateverTheRelease) {
  EXPECT_TRUE(same_series("4.1.4", 4, 1));
  EXPECT_TRUE(same_series("4.1.0", 4, 1));
  EXPECT_TRUE(same_series("4.1", 4, 1));
  EXPECT_TRUE(same_series("5.0.0rc12", 5, 0));
  EXPECT_TRUE(same_series("6.0.0a1", 6, 0));
}

TEST(Version, OtherSeriesIsRefused) {
  EXPECT_FALSE(same_series("5.0.3", 4, 1));
  EXPECT_FALSE(same_series("4.0.7", 4, 1));
  EXPECT_FALSE(same_series("4.10.1", 4, 1));
  EXPECT_FALSE(same_series("41.1.0", 4, 1));
  EXPECT_FALSE(same_series("14.1.0", 4, 1));
}

TEST(Version, WhatIsNoVersionIsRefused) {
  for (const char* text : {"", "4", "4.", ".1", "four.one", "4,1", " 4.1", "99999999999.1"}) {
    EXPECT_FALSE(same_series(text, 4, 1)) << '"' << text << '"';
  }
}

}  // namespace
}  // namespace roce::btl

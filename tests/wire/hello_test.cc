// HELLO and ANSWER against bytes written down by hand.
#include "wire/hello.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace roce::wire {
namespace {

using Bytes = std::vector<uint8_t>;

const Hello kHello = {HelloKind::kAnswer, 4793, 5, 425984, 0x808123, 0x80C321, 0x0102030405060708};
const Bytes kLayout = {'m', 'p',  'i',  '-',  'r', 'o',  'c',  'e',   // magic
                       1,   2,    0x12, 0xB9,                         // version, kind, UDP port
                       0,   0,    0,    5,    0,   6,    0x80, 0x00,  // capabilities, budget
                       0,   0x80, 0x81, 0x23, 0,   0x80, 0xC3, 0x21,  // from, to
                       0,   0,    0,    0,                            // reserved
                       1,   2,    3,    4,    5,   6,    7,    8};    // nonce

void expect_refused(Bytes bytes, size_t at, uint8_t value) {
  bytes[at] = value;
  EXPECT_FALSE(parse_hello(bytes)) << "byte " << at << " is " << int{value};
}

TEST(Hello, HasTheLayoutOfItsComment) {
  std::array<uint8_t, kHelloBytes> out;
  out.fill(0xEE);
  build_hello(kHello, out);
  EXPECT_EQ(Bytes(out.begin(), out.end()), kLayout);
}

TEST(Hello, IsReadBack) {
  const auto hello = parse_hello(kLayout);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->kind, HelloKind::kAnswer);
  EXPECT_EQ(hello->udp_port, 4793);
  EXPECT_EQ(hello->capabilities, 5u);
  EXPECT_EQ(hello->receive_budget_bytes, 425984u);
  EXPECT_EQ(hello->from_qpn, 0x808123u);
  EXPECT_EQ(hello->to_qpn, 0x80C321u);
  EXPECT_EQ(hello->nonce, 0x0102030405060708u);
}

TEST(Hello, OfALaterVersionIsRead) {
  Bytes later = kLayout;
  later[8] = 2;
  later.resize(64, 0xAA);
  const auto hello = parse_hello(later);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->nonce, 0x0102030405060708u);
}

TEST(Hello, RefusesEverythingElse) {
  for (size_t bytes = 0; bytes < kLayout.size(); ++bytes) {
    // On the heap in its exact size: a sanitizer sees any byte read beyond.
    const Bytes cut(kLayout.begin(), kLayout.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_FALSE(parse_hello(cut)) << bytes << " bytes";
  }
  for (size_t at = 0; at < 8; ++at) expect_refused(kLayout, at, 0);
  expect_refused(kLayout, 8, 0);
  for (const uint8_t kind : {0, 4, 255}) expect_refused(kLayout, 9, kind);
}

}  // namespace
}  // namespace roce::wire

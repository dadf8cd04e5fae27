// A peer that sends anything: nothing is placed where it must not be.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "solo.h"

namespace roce::engine::test {
namespace {

constexpr uint32_t kBuffer = 3 * kMtu;

uint64_t bytes_of(std::span<const Sge> sges) {
  uint64_t out = 0;
  for (const Sge& sge : sges) out += sge.length;
  return out;
}

/// A selective acknowledgement of anything.
void make_selective(wire::Header& header, std::mt19937_64& random) {
  header.opcode = wire::Opcode::kRcSelectiveAck;
  header.sack_end = static_cast<uint32_t>(random()) & wire::kPsnMask;
  for (uint64_t& word : header.sack_map) word = random() & random();
}

/// The driver keeps some packets and hands others back than it was given.
void keep_some(Solo& solo, const wire::Header& header, Effects effects, std::mt19937_64& random) {
  if (random() % 4 != 0) solo.qp.keep(effects.keep, header.psn);
  Keep kind;
  uint32_t psn;
  int handed_back = 0;
  while (solo.qp.take_kept(kind, psn)) {
    ASSERT_LT(++handed_back, 1000);
    wire::Header kept = header;
    kept.psn = random() % 8 == 0 ? header.psn : psn;
    effects = solo.take(kept, kMtu);
    if (effects.atomic.valid) solo.qp.handle_atomic_result(0);
    solo.completions();
  }
}

void run(bool selective) {
  const uint64_t seed = 99;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  uint64_t placed = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    QpAttributes attributes = default_attributes();
    attributes.selective = selective;
    Solo solo(attributes);
    for (int i = 0; i < 8; ++i) solo.post_recv(i, kBuffer);
    solo.post(WrOpcode::kSend, 1, 2 * kMtu);
    solo.post(WrOpcode::kRead, 2, kBuffer);
    solo.post(WrOpcode::kFetchAdd, 3, 8);
    for (int i = 0; i < 60; ++i) {
      // Plausible PSNs and lengths most of the time, so that deep states are reached.
      wire::Header header = Solo::header(static_cast<wire::Opcode>(random() % 0x20), 0);
      const bool response = random() % 2 == 0;
      const uint32_t base = response ? kSendPsn : solo.qp.expected_psn();
      header.psn =
          (base + (random() % 8 == 0 ? random() : random() % 6 * response)) & wire::kPsnMask;
      header.ack_req = random() % 2 == 0;
      header.syndrome = static_cast<uint8_t>(random() % 8 == 0 ? random() : 0x1f);
      header.dma_length = static_cast<uint32_t>(random() % 4 == 0 ? random() : random() % 5 * kMtu);
      header.va = 0x10000 + random() % 64 * 8;
      const uint32_t length = random() % 2 == 0 ? kMtu : static_cast<uint32_t>(random() % kMtu);
      const bool only = header.opcode == wire::Opcode::kRcWriteOnly ||
                        header.opcode == wire::Opcode::kRcWriteOnlyImm;
      if (only && random() % 4 != 0) header.dma_length = length;
      if (selective && random() % 8 == 0) make_selective(header, random);
      solo.memory.checks.clear();
      const Effects effects = solo.take(header, length);
      if (effects.placement.kind == Placement::Kind::kScatter) {
        EXPECT_LE(effects.placement.offset + effects.placement.length,
                  bytes_of(effects.placement.sges));
        ++placed;
      } else if (effects.placement.kind == Placement::Kind::kRemoteRegion) {
        ASSERT_EQ(solo.memory.checks.size(), 1u);
        EXPECT_EQ(solo.memory.checks[0].va, effects.placement.va);
        EXPECT_GE(solo.memory.checks[0].length, effects.placement.length);
        ++placed;
      }
      if (effects.atomic.valid) solo.qp.handle_atomic_result(0);
      if (selective) keep_some(solo, header, effects, random);
      refused += effects.drop == Drop::kRefused;
      for (int out = 0; out < 20; ++out) {
        OutPacket packet;
        if (!solo.qp.poll_packet(solo.now, packet)) break;
      }
      solo.acks();
      solo.completions();
      solo.now += random() % 3'000'000;
      if (solo.qp.poll_timer() <= solo.now) solo.qp.handle_timer(solo.now);
    }
    solo.qp.set_state(QpState::kErr, solo.now);
    solo.completions();
    EXPECT_EQ(solo.qp.send_queue_used(), 0u);
    EXPECT_EQ(solo.receive.posted(), 0u);
  }
  EXPECT_GT(placed, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(HostilePeer, RandomPacketsNeverPlaceOutsideOfWhatWasGranted) { run(false); }
TEST(HostilePeer, NorWhereEarlyPacketsAreKept) { run(true); }

}  // namespace
}  // namespace roce::engine::test

// Parts of the device that need no socket: timers, memory keys, environment, the header in front of
// datagrams.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "soft/datagram_grh.h"
#include "soft/environment.h"
#include "soft/mapped_copy.h"
#include "soft/memory_table.h"
#include "soft/timer_heap.h"

namespace roce::soft {
namespace {

TEST(TimerHeap, PopsInOrderWhateverChanges) {
  std::mt19937 random(20240611);
  TimerHeap heap;
  std::vector<TimerHeap::Entry> entries(300, TimerHeap::Entry(nullptr));
  std::map<TimerHeap::Entry*, engine::TimeNs> expected;
  for (int step = 0; step < 20000; ++step) {
    TimerHeap::Entry& entry = entries[random() % entries.size()];
    const engine::TimeNs at = random() % 10000;
    if (random() % 4 == 0) {
      heap.remove(entry);
      expected.erase(&entry);
    } else {
      heap.set_at_most(entry, at);
      const auto known = expected.find(&entry);
      if (known == expected.end() || at < known->second) expected[&entry] = at;
    }
    engine::TimeNs earliest = engine::kNever;
    for (const auto& [unused, time] : expected) earliest = std::min(earliest, time);
    ASSERT_EQ(heap.earliest(), earliest) << step;
  }
  engine::TimeNs last = 0;
  while (TimerHeap::Entry* entry = heap.pop_due(20000)) {
    ASSERT_GE(expected.at(entry), last);
    last = expected.at(entry);
    expected.erase(entry);
  }
  EXPECT_TRUE(expected.empty());
}

TEST(TimerHeap, NothingIsDueEarly) {
  TimerHeap heap;
  TimerHeap::Entry entry(nullptr);
  heap.set_at_most(entry, engine::kNever);
  EXPECT_EQ(heap.earliest(), engine::kNever);
  heap.set_at_most(entry, 100);
  EXPECT_EQ(heap.pop_due(99), nullptr);
  EXPECT_EQ(heap.pop_due(100), &entry);
  EXPECT_EQ(heap.pop_due(100), nullptr);
}

TEST(MemoryTable, TranslatesExactlyTheRegion) {
  MemoryTable table;
  uint8_t memory[256];
  const Pd* domain = reinterpret_cast<const Pd*>(0x1000);
  const Pd* other = reinterpret_cast<const Pd*>(0x2000);
  Region region;
  region.pd = domain;
  region.address = memory;
  region.iova = UINT64_MAX - 255;  // Ends at the end of the address space.
  region.length = 255;
  region.access = engine::kRemoteRead;
  ASSERT_TRUE(table.insert(region));
  const auto at = [&](uint64_t offset, uint64_t length) {
    return table.translate(domain, region.key, region.iova + offset, length, engine::kRemoteRead);
  };
  EXPECT_EQ(at(0, 255), memory);
  EXPECT_EQ(at(254, 1), memory + 254);
  EXPECT_EQ(at(254, 2), nullptr);
  EXPECT_EQ(at(255, 1), nullptr);
  EXPECT_EQ(at(0, UINT64_MAX), nullptr);
  EXPECT_EQ(at(UINT64_MAX, 1), nullptr);
  EXPECT_EQ(table.translate(other, region.key, region.iova, 1, engine::kRemoteRead), nullptr);
  EXPECT_EQ(table.translate(domain, region.key, region.iova, 1, engine::kRemoteWrite), nullptr);
  EXPECT_EQ(table.translate(domain, region.key ^ 1, region.iova, 1, engine::kRemoteRead), nullptr);
  table.invalidate(other, region.key);
  EXPECT_EQ(at(0, 1), memory);
  table.invalidate(domain, region.key);
  EXPECT_EQ(at(0, 1), nullptr);
  table.erase(region);
  EXPECT_EQ(table.count(), 0u);
}

TEST(MappedCopy, FailsWhereAPageIsMissingAndCopiesElsewhere) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* memory = static_cast<uint8_t*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  uint8_t buffer[100] = {1, 2, 3};
  EXPECT_TRUE(write_if_mapped(memory + page - 50, buffer, sizeof buffer));
  EXPECT_EQ(memory[page - 49], 2);
  buffer[1] = 0;
  EXPECT_TRUE(read_if_mapped(buffer, memory + page - 50, sizeof buffer));
  EXPECT_EQ(buffer[1], 2);
  ASSERT_EQ(munmap(memory + page, page), 0);
  EXPECT_FALSE(write_if_mapped(memory + page - 50, buffer, sizeof buffer));
  EXPECT_FALSE(read_if_mapped(buffer, memory + page - 50, sizeof buffer));
  EXPECT_FALSE(read_if_mapped(buffer, memory + page, 1));
  munmap(memory, page);
}

TEST(MemoryTable, BytesAreLimitedInWholePages) {
  MemoryTable table;
  table.set_limit(4 * 4096);
  Region one, two, three;
  one.length = 1;
  two.length = 2 * 4096 + 1;
  three.length = 1;
  EXPECT_TRUE(table.insert(one));
  EXPECT_TRUE(table.insert(two));
  EXPECT_FALSE(table.insert(three));
  EXPECT_FALSE(table.resize(one, 4097));
  EXPECT_EQ(one.length, 1u);
  EXPECT_TRUE(table.resize(two, 4096));
  EXPECT_TRUE(table.resize(one, 3 * 4096));
  EXPECT_FALSE(table.insert(three));
  table.erase(one);
  EXPECT_TRUE(table.insert(three));
  Region huge;
  huge.length = UINT64_MAX - 4096;
  EXPECT_FALSE(table.insert(huge));
}

TEST(MemoryTable, FindsEachOfManyAfterMuchComingAndGoing) {
  MemoryTable table;
  std::mt19937 random(7);
  std::vector<Region> regions(5000);
  std::vector<bool> inside(regions.size(), false);
  static uint8_t memory[1];
  for (int step = 0; step < 200000; ++step) {
    const size_t i = random() % regions.size();
    if (inside[i]) {
      table.erase(regions[i]);
    } else {
      regions[i] = Region{nullptr, memory, i, 1, 0, 0, false};
      ASSERT_TRUE(table.insert(regions[i]));
    }
    inside[i] = !inside[i];
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    if (!inside[i]) continue;
    ASSERT_EQ(table.translate(nullptr, regions[i].key, i, 1, 0), memory);
  }
}

Interface interface_with(const char* name, std::vector<std::array<uint8_t, 16>> addresses) {
  Interface out;
  out.name = name;
  for (const auto& address : addresses) {
    Gid gid{};
    std::copy(address.begin(), address.end(), gid.bytes);
    out.gids.push_back(gid);
  }
  return out;
}

TEST(SoftEnvironment, ListsNameInterfacesOrNetworks) {
  const Interface eth = interface_with(
      "eth0", {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3}, {0xFD, 0, 1}});
  EXPECT_TRUE(list_matches("eth0", eth));
  EXPECT_TRUE(list_matches("lo,eth0", eth));
  EXPECT_FALSE(list_matches("eth", eth));
  EXPECT_FALSE(list_matches("eth01", eth));
  EXPECT_FALSE(list_matches("", eth));
  EXPECT_TRUE(list_matches("10.1.0.0/16", eth));
  EXPECT_TRUE(list_matches("10.1.3.0/23", eth));
  EXPECT_FALSE(list_matches("10.1.4.0/23", eth));
  EXPECT_TRUE(list_matches("192.168.0.0/16,fd00:100::/32", eth));
  EXPECT_FALSE(list_matches("10.1.2.3/33", eth));
  EXPECT_FALSE(list_matches("10.1/16", eth));
  EXPECT_FALSE(list_matches("10.1.2.3/", eth)) << "no prefix length is no prefix of 0 bits";
  EXPECT_FALSE(list_matches("10.1.2.3/-1", eth));
  EXPECT_FALSE(list_matches(",,,/", eth));
  Options options;
  options.interface_exclude = "eth0";
  EXPECT_FALSE(interface_allowed(options, eth));
  options.interface_include = "eth0";
  EXPECT_TRUE(interface_allowed(options, eth));
}

TEST(SoftEnvironment, ValuesOutOfRangeFallBack) {
  for (const char* bad : {"512", "-1", "1x", "99999999999999999999", " "}) {
    setenv("ROCE_SOFT_FIRST_SLOT", bad, 1);
    EXPECT_EQ(options_from_environment().first_slot, 0) << bad;
  }
  setenv("ROCE_SOFT_FIRST_SLOT", "511", 1);
  EXPECT_EQ(options_from_environment().first_slot, 511);
  unsetenv("ROCE_SOFT_FIRST_SLOT");
  for (const char* bad : {"-1", "1073741825", "200k"}) {
    setenv("ROCE_SOFT_RECEIVE_BUFFER", bad, 1);
    EXPECT_EQ(options_from_environment().receive_buffer_bytes, 0u) << bad;
  }
  setenv("ROCE_SOFT_RECEIVE_BUFFER", "212992", 1);
  EXPECT_EQ(options_from_environment().receive_buffer_bytes, 212'992u);
  unsetenv("ROCE_SOFT_RECEIVE_BUFFER");
  for (const char* bad : {"-1", "8M", "1125899906842625"}) {
    setenv("ROCE_SOFT_MEMLOCK", bad, 1);
    EXPECT_EQ(options_from_environment().memlock_bytes, 0u) << bad;
  }
  setenv("ROCE_SOFT_MEMLOCK", "8388608", 1);
  EXPECT_EQ(options_from_environment().memlock_bytes, 8'388'608u);
  unsetenv("ROCE_SOFT_MEMLOCK");
  setenv("ROCE_SOFT_IF_INCLUDE", std::string(5000, 'x').c_str(), 1);
  EXPECT_EQ(options_from_environment().interface_include, "");
  unsetenv("ROCE_SOFT_IF_INCLUDE");
}

TEST(DatagramGrh, ReadsBackWhatItWrote) {
  for (const bool ipv4 : {true, false}) {
    ReceivedBuffer buffer;
    for (int i = 0; i < 16; ++i) {
      buffer.flow.src[i] = static_cast<uint8_t>(ipv4 && i < 10 ? 0 : ipv4 && i < 12 ? 0xFF : i + 1);
      buffer.flow.dst[i] = static_cast<uint8_t>(ipv4 && i < 10   ? 0
                                                : ipv4 && i < 12 ? 0xFF
                                                                 : i + 101);
    }
    buffer.segment_bytes = 100;
    buffer.tos = 106;
    uint8_t grh[kGrhBytes];
    write_grh(buffer, grh);
    wire::Flow flow;
    uint8_t traffic_class = 0, hop_limit = 0;
    uint32_t label = 1;
    ASSERT_TRUE(read_grh(grh, &flow, &traffic_class, &hop_limit, &label)) << ipv4;
    EXPECT_EQ(std::memcmp(flow.src, buffer.flow.src, 16), 0);
    EXPECT_EQ(std::memcmp(flow.dst, buffer.flow.dst, 16), 0);
    EXPECT_EQ(traffic_class, 106);
    EXPECT_EQ(hop_limit, 64);
    EXPECT_EQ(label, 0u);
    // IPv4 total length and IPv6 payload length: the datagram with its 8 bytes of UDP header.
    EXPECT_EQ(ipv4 ? grh[22] << 8 | grh[23] : grh[4] << 8 | grh[5], ipv4 ? 128 : 108);
  }
}

}  // namespace
}  // namespace roce::soft

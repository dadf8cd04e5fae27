// HELLO and ANSWER between the device and a peer made of a plain UDP socket, which builds and reads
// every byte by itself.
#include <sys/mman.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>

#include "rig.h"
#include "udp_reference.h"

namespace roce::soft::test {
namespace {

constexpr uint8_t kUdSendOnly = 0x64, kRcSendOnly = 0x04, kRcWriteFirst = 0x06, kRcAck = 0x11,
                  kRcReadRequest = 0x0C, kRcReadOnly = 0x10;
constexpr uint8_t kHello = 1, kAnswer = 2, kGrant = 3;
constexpr size_t kPayload = 20;  // Behind BTH and DETH.

uint32_t be(const Bytes& bytes, size_t at, size_t length) {
  uint32_t value = 0;
  for (size_t i = 0; i < length; ++i) value = value << 8 | bytes[at + i];
  return value;
}

void put(Bytes& to, uint64_t value, size_t length) {
  while (length-- != 0) to.push_back(static_cast<uint8_t>(value >> 8 * length));
}

/// BTH of a packet without pad and DETH of a UD one.
Bytes headers(uint8_t opcode, uint32_t dest_qpn, uint32_t psn) {
  Bytes out = {opcode, 0x40, 0xFF, 0xFF};
  put(out, dest_qpn, 4);
  put(out, psn, 4);
  return out;
}

struct Words {
  uint8_t version = 1;
  uint8_t kind = kAnswer;
  uint16_t port = 0;
  uint32_t capabilities = kCapSoft | kCapSelective | kCapGrants;
  uint32_t budget = 1'000'000;
  uint32_t from_qpn = 0, to_qpn = 0;
  Bytes nonce = Bytes(8, 7);
  uint32_t qkey = 0x726F6365;
  size_t bytes = 40;
};

/// Looks like a software device in a slot of its own.
class Peer {
 public:
  /// slot: that its queue pair number names; port: where it listens.
  explicit Peer(uint32_t slot, uint16_t port) : socket(true, port) {
    name.qpn = 1u << 23 | slot << 14 | 0x155;
    name.psn = 0x1234;
    std::memcpy(name.gid, kIpv4Loopback, 16);
  }
  /// In the first free slot from 300 on.
  static std::unique_ptr<Peer> in_its_slot() {
    for (uint32_t slot = 300; slot < 400; ++slot) {
      auto peer = std::make_unique<Peer>(slot, static_cast<uint16_t>(4791 + slot));
      if (peer->socket.bound()) return peer;
    }
    return nullptr;
  }

  void send(const Rig& to, Bytes datagram) {
    PeerHints hints;
    ASSERT_EQ(device_hints(to.context, &hints), 0);
    wire::Flow flow = loopback_flow(true, hints.udp_port);
    flow.src_port = socket.port();
    datagram.resize(datagram.size() + 4);
    ASSERT_TRUE(socket.send(true, hints.udp_port, with_icrc(flow, std::move(datagram), 0)));
    progress();
  }

  Words words(const Rig& to, uint8_t kind) const {
    Words out;
    out.kind = kind;
    out.port = socket.port();
    out.from_qpn = name.qpn;
    out.to_qpn = to.qp->qp_num;
    return out;
  }

  void say(const Rig& to, const Words& words) {
    Bytes out = headers(kUdSendOnly, to.qp->qp_num & ~0x3FFFu, 0);
    put(out, words.qkey, 4);
    put(out, name.qpn & ~0x3FFFu, 4);
    const Bytes magic = {'m', 'p', 'i', '-', 'r', 'o', 'c', 'e'};
    out.insert(out.end(), magic.begin(), magic.end());
    put(out, words.version, 1);
    put(out, words.kind, 1);
    put(out, words.port, 2);
    put(out, words.capabilities, 4);
    put(out, words.budget, 4);
    put(out, words.from_qpn, 4);
    put(out, words.to_qpn, 4);
    put(out, 0, 4);
    out.insert(out.end(), words.nonce.begin(), words.nonce.end());
    out.resize(kPayload + words.bytes);
    send(to, out);
  }

  /// Reads the HELLO of a queue pair that was just connected, and answers it.
  Words agree(const Rig& with) {
    Words answer = words(with, kAnswer);
    const Bytes hello = next(kUdSendOnly);
    EXPECT_EQ(hello.size(), kPayload + 40 + 4);
    if (hello.size() < kPayload + 40) return answer;
    answer.nonce.assign(hello.begin() + kPayload + 32, hello.begin() + kPayload + 40);
    say(with, answer);
    return answer;
  }

  /// SEND Only with eight bytes.
  void send_message(const Rig& to) {
    Bytes out = headers(kRcSendOnly, to.qp->qp_num, name.psn++);
    put(out, 0, 8);
    send(to, out);
  }

  /// The next datagram with this opcode within two seconds; empty: none.
  Bytes next(uint8_t opcode) {
    const auto start = std::chrono::steady_clock::now();
    while (seconds_since(start) < 2) {
      progress();
      for (Bytes& datagram : socket.receive_waiting()) {
        if (datagram[0] == opcode) waiting.push_back(std::move(datagram));
      }
      if (waiting.empty()) continue;
      Bytes first = std::move(waiting.front());
      waiting.pop_front();
      return first;
    }
    return {};
  }

  PlainSocket socket;
  Name name;

 private:
  std::deque<Bytes> waiting;  ///< Of the opcode that is being looked for.
};

/// Half of the receive memory, at 2.05 bytes of it for each byte, in packets of 4,096.
size_t payload_of(size_t budget) { return budget * 100 / 205 / 2 / 4096 * 4096; }

uint64_t agreed() { return counter("peers_agreed"); }

/// Bytes of payload that the peer gets of a WRITE that it does not acknowledge.
size_t bytes_in_flight(Rig& rig, Peer& peer) {
  rig.send(1, IBV_WR_RDMA_WRITE, 0, 1 << 20, IBV_SEND_SIGNALED, 0x1000, 0x77);
  std::map<uint32_t, size_t> by_psn;
  const auto start = std::chrono::steady_clock::now();
  while (seconds_since(start) < 0.1) {
    progress();
    for (const Bytes& datagram : peer.socket.receive_waiting()) {
      const size_t other = datagram[0] == kRcWriteFirst ? 32 : 16;  // Headers and ICRC.
      if (datagram[0] != kUdSendOnly) by_psn[be(datagram, 9, 3)] = datagram.size() - other;
    }
  }
  size_t sum = 0;
  for (const auto& [psn, bytes] : by_psn) sum += bytes;
  return sum;
}

struct Agreement : testing::Test {
  void SetUp() override {
    peer = Peer::in_its_slot();
    ASSERT_NE(peer, nullptr) << "no free UDP port from 5091 to 5190";
    rig.make_memory(1 << 20);
  }
  Rig rig;
  std::unique_ptr<Peer> peer;
};

TEST_F(Agreement, AHelloSaysWhoAsksWhom) {
  rig.connect(peer->name);
  const Bytes hello = peer->next(kUdSendOnly);
  ASSERT_EQ(hello.size(), kPayload + 40 + 4);
  EXPECT_EQ(be(hello, 5, 3), peer->name.qpn & ~0x3FFFu) << "the peer's number for HELLOs";
  EXPECT_EQ(be(hello, 12, 4), 0x726F6365u) << "Q_Key";
  EXPECT_EQ(be(hello, 17, 3), rig.qp->qp_num & ~0x3FFFu);
  EXPECT_EQ(std::string(hello.begin() + kPayload, hello.begin() + kPayload + 8), "mpi-roce");
  EXPECT_EQ(hello[kPayload + 8], 1) << "version";
  EXPECT_EQ(hello[kPayload + 9], kHello);
  PeerHints hints;
  ASSERT_EQ(device_hints(rig.context, &hints), 0);
  EXPECT_EQ(be(hello, kPayload + 10, 2), hints.udp_port);
  EXPECT_EQ(be(hello, kPayload + 12, 4), hints.capabilities);
  EXPECT_EQ(be(hello, kPayload + 16, 4), hints.receive_budget_bytes);
  EXPECT_EQ(be(hello, kPayload + 20, 4), rig.qp->qp_num);
  EXPECT_EQ(be(hello, kPayload + 24, 4), peer->name.qpn);
}

TEST_F(Agreement, OnlyTheRightAnswerCounts) {
  rig.connect(peer->name);
  const Bytes hello = peer->next(kUdSendOnly);
  ASSERT_EQ(hello.size(), kPayload + 40 + 4);
  Words right = peer->words(rig, kAnswer);
  right.nonce.assign(hello.begin() + kPayload + 32, hello.begin() + kPayload + 40);
  std::vector<Words> wrong(9, right);
  wrong[0].nonce[7] ^= 1;
  wrong[1].from_qpn ^= 1;
  wrong[2].from_qpn &= 0x7FFFFF;
  wrong[3].to_qpn ^= 1;
  wrong[4].port ^= 1;
  wrong[5].version = 0;
  wrong[6].kind = 4;
  wrong[7].bytes = 36;
  wrong[8].qkey ^= 1;
  const uint64_t before = agreed();
  for (size_t i = 0; i < wrong.size(); ++i) {
    const uint64_t refused = counter("drop_bad_hello");
    peer->say(rig, wrong[i]);
    EXPECT_EQ(counter("drop_bad_hello"), refused + 1) << i;
  }
  EXPECT_EQ(agreed(), before);
  peer->say(rig, right);
  EXPECT_EQ(agreed(), before + 1);
  peer->say(rig, right);
  EXPECT_EQ(agreed(), before + 1) << "once is enough";
}

TEST_F(Agreement, AnAnswerOpensTheWindow) {
  rig.connect(peer->name);
  peer->agree(rig);
  EXPECT_EQ(bytes_in_flight(rig, *peer), payload_of(1'000'000));
}

TEST_F(Agreement, WithoutAnswerTheWindowFitsAnybody) {
  rig.connect(peer->name);
  EXPECT_EQ(bytes_in_flight(rig, *peer), payload_of(212'992));
}

TEST_F(Agreement, AHelloIsAnsweredAndTellsAsMuch) {
  ASSERT_EQ(rig.to_init(), 0);
  const uint64_t before = agreed();
  Words words = peer->words(rig, kHello);
  words.nonce = {1, 2, 3, 4, 5, 6, 7, 8};
  peer->say(rig, words);
  const Bytes early = peer->next(kUdSendOnly);
  ASSERT_EQ(early.size(), kPayload + 40 + 4) << "not connected yet, but there";
  EXPECT_EQ(early[kPayload + 9], kAnswer);
  EXPECT_EQ(Bytes(early.begin() + kPayload + 32, early.begin() + kPayload + 40), words.nonce);
  EXPECT_EQ(agreed(), before);

  ASSERT_EQ(rig.to_rtr(peer->name), 0);
  EXPECT_EQ(peer->next(kUdSendOnly)[kPayload + 9], kHello);
  peer->say(rig, words);
  EXPECT_EQ(agreed(), before + 1);
  EXPECT_EQ(peer->next(kUdSendOnly)[kPayload + 9], kAnswer);
  EXPECT_TRUE(peer->next(kUdSendOnly).empty()) << "knows what it wanted to know";
}

TEST_F(Agreement, TheNewestGrantSetsTheWindow) {
  rig.connect(peer->name);
  Words words = peer->agree(rig);
  words.kind = kGrant;
  const struct {
    uint8_t serial;
    uint32_t budget;
  } grants[] = {{5, 200'000}, {9, 100'000}, {7, 900'000}};
  for (const auto& [serial, budget] : grants) {
    words.nonce = {0, 0, 0, 0, 0, 0, 0, serial};
    words.budget = budget;
    peer->say(rig, words);
  }
  EXPECT_EQ(bytes_in_flight(rig, *peer), payload_of(100'000));
}

TEST_F(Agreement, NobodyElseIsAnswered) {
  ASSERT_EQ(rig.to_init(), 0);
  Words words = peer->words(rig, kHello);
  words.to_qpn ^= 1;
  peer->say(rig, words);
  words = peer->words(rig, kHello);
  words.port = 53;
  peer->say(rig, words);
  EXPECT_TRUE(peer->next(kUdSendOnly).empty());
}

TEST_F(Agreement, AsksSixTimesAtMost) {
  rig.connect(peer->name);
  for (int i = 0; i < 6; ++i) ASSERT_FALSE(peer->next(kUdSendOnly).empty()) << i;
  EXPECT_TRUE(peer->next(kUdSendOnly).empty());
}

/// Whoever got the answer of a READ may tell so, upon which the memory goes, while the request is
/// still on its way a second time. NICs hold the pages; here nothing but the process must live on.
TEST_F(Agreement, AReadMayComeAgainWhenItsMemoryIsGone) {
  constexpr uint32_t kBytes = 1024;
  void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 0x5A, kBytes);
  ibv_mr* region = reg_mr(rig.pd, pages, kBytes, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(region, nullptr);
  rig.connect(peer->name);
  peer->agree(rig);
  Bytes request = headers(kRcReadRequest, rig.qp->qp_num, peer->name.psn);
  request[8] |= 0x80;  // AckReq.
  put(request, reinterpret_cast<uintptr_t>(pages), 8);
  put(request, region->rkey, 4);
  put(request, kBytes, 4);
  peer->send(rig, request);
  const Bytes answer = peer->next(kRcReadOnly);
  ASSERT_EQ(answer.size(), 16 + kBytes + 4);
  EXPECT_EQ(Bytes(answer.begin() + 16, answer.end() - 4), Bytes(kBytes, 0x5A));
  peer->send(rig, request);
  EXPECT_EQ(peer->next(kRcReadOnly), answer) << "the same again, as long as the memory is there";

  ASSERT_EQ(munmap(pages, kBytes), 0);
  peer->send(rig, request);
  const Bytes refusal = peer->next(kRcAck);
  ASSERT_GE(refusal.size(), 16u);
  EXPECT_EQ(refusal[12], 0x62) << "NAK, remote access error";
  EXPECT_EQ(be(refusal, 9, 3), peer->name.psn);
  ASSERT_EQ(dereg_mr(region), 0);
}

TEST_F(Agreement, TwoDevicesAgree) {
  Rig other;
  const uint64_t before = agreed();
  rig.connect(other.name());
  other.connect(rig.name());
  const auto start = std::chrono::steady_clock::now();
  while (agreed() < before + 2 && seconds_since(start) < 2) progress();
  EXPECT_EQ(agreed(), before + 2);
}

struct Sender {
  Sender() : peer(Peer::in_its_slot()) {
    rig.make_memory(64 * 64);
    for (uint64_t i = 0; i < 64; ++i) rig.receive(i, 64 * i, 64);
    rig.connect(peer->name);
    peer->agree(rig);
  }
  /// What the device tells it by the next GRANT; 0: nothing.
  uint32_t granted() {
    const Bytes packet = peer->next(kUdSendOnly);
    if (packet.size() != kPayload + 40 + 4 || packet[kPayload + 9] != kGrant) return 0;
    EXPECT_EQ(be(packet, kPayload + 20, 4), rig.qp->qp_num);
    EXPECT_EQ(be(packet, kPayload + 24, 4), peer->name.qpn);
    return be(packet, kPayload + 16, 4);
  }
  Rig rig;
  std::unique_ptr<Peer> peer;
};

// Two may fill half of the receive memory each; three to four share three quarters of what the
// kernel takes, and the one that goes on alone gets its half back.
TEST(Grants, ManySendersShare) {
  Sender senders[3];
  PeerHints hints;
  ASSERT_EQ(device_hints(senders[0].rig.context, &hints), 0);
  senders[0].peer->send_message(senders[0].rig);
  senders[1].peer->send_message(senders[1].rig);
  EXPECT_TRUE(senders[0].peer->next(kUdSendOnly).empty());
  for (Sender& sender : senders) sender.peer->send_message(sender.rig);
  for (Sender& sender : senders)
    EXPECT_EQ(sender.granted(), uint64_t{hints.receive_budget_bytes} * 3 / 4);
  usleep(30'000);
  senders[0].peer->send_message(senders[0].rig);
  uint32_t last = 0;
  for (int i = 0; i < 20 && last != hints.receive_budget_bytes; ++i) {
    usleep(5'000);
    senders[0].peer->send_message(senders[0].rig);
    if (!senders[0].peer->socket.nothing_waits()) last = senders[0].granted();
  }
  EXPECT_EQ(last, hints.receive_budget_bytes);
}

// A NIC whose queue pair number has the bit of a software device's, and slot 400's.
TEST(Foreign, APeerThatDoesNotAnswerIsTriedAtThePortOfNics) {
  Peer nic(400, 4791);
  if (!nic.socket.bound()) GTEST_SKIP() << "UDP port 4791 is taken";
  Rig rig;
  rig.make_memory(64);
  rig.connect(nic.name);
  for (uint32_t message = 0; message < 3; ++message) {
    rig.send(message, IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED);
    const Bytes packet = nic.next(kRcSendOnly);
    ASSERT_EQ(packet.size(), 12u + 8 + 4) << "message " << message;
    EXPECT_EQ(be(packet, 5, 3), nic.name.qpn);
    EXPECT_EQ(be(packet, 9, 3), rig.name().psn + message);
    Bytes ack = headers(kRcAck, rig.qp->qp_num, be(packet, 9, 3));
    put(ack, 0x1F000000 | (message + 1), 4);
    nic.send(rig, ack);
    const ibv_wc completion = rig.wait();
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(counter("retry_exceeded"), 0u);
}

}  // namespace
}  // namespace roce::soft::test

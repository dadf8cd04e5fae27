#include "transport/connection_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

namespace roce::transport {
namespace {

using State = ConnectionState::State;
using Action = ConnectionState::Action;
using Type = ConnectionState::Action::Type;

constexpr TimeNs kMs = 1'000'000;

Offer offer_of(uint32_t rank) {
  Offer offer;
  offer.qpn = 0x800000 + rank;
  offer.psn = 100 * rank;
  offer.mtu_bytes = 4096;
  offer.window_messages = 32;
  offer.window_bytes = 131072;
  offer.traffic_class = 106;
  offer.max_message_bytes = 65536;
  offer.reads_as_target = offer.reads_as_origin = 16;
  return offer;
}

/// One side: a state machine and a driver that carries out its actions at once, but for packets,
/// which go onto the network of the test.
struct Side {
  Side(uint32_t rank, uint32_t peer, uint64_t incarnation = 1000) {
    local.name = {1, rank};
    local.job_cookie = 42;
    local.incarnation = incarnation;
    offer = offer_of(rank);
    state = std::make_unique<ConnectionState>(&local, ProcessName{1, peer});
  }

  void drive(TimeNs now) {
    while (auto action = state->poll_action()) {
      ++seen[action->type];
      switch (action->type) {
        case Type::kPrepare:
          path = action->path;
          if (hold_preparation) break;
          state->handle_prepared(offer, now);
          break;
        case Type::kEstablish:
          state->handle_established(Status::ok(), now);
          break;
        case Type::kSend:
          sent.push_back(action->packet);
          break;
        case Type::kFailed:
          failure = action->text;
          failure_code = action->code;
          break;
        default:
          break;
      }
    }
  }
  int count(Type type) { return seen[type]; }

  LocalProcess local;
  Offer offer;
  std::unique_ptr<ConnectionState> state;
  std::vector<ConnectionPacket> sent;
  std::map<Type, int> seen;
  PathPair path;
  bool hold_preparation = false;
  std::string failure;
  Code failure_code = Code::kOk;
};

/// Two sides and a network with a fate for every packet.
struct Pair {
  Side a{1, 2}, b{2, 1};
  TimeNs now = 1000 * kMs;
  /// Copies that arrive and when; default: one, at once.
  std::function<std::vector<TimeNs>(const ConnectionPacket&)> fate = [](const ConnectionPacket&) {
    return std::vector<TimeNs>{0};
  };
  std::multimap<TimeNs, std::pair<Side*, ConnectionPacket>> wire;
  std::map<PacketType, int> sent;

  void collect(Side& from, Side& to) {
    from.drive(now);
    for (ConnectionPacket& packet : from.sent) {
      ++sent[packet.type];
      auto decoded = decode_packet(encode_packet(packet));
      ASSERT_TRUE(decoded.is_ok()) << decoded.status().text();
      for (TimeNs delay : fate(packet)) wire.emplace(now + delay, std::pair{&to, *decoded});
    }
    from.sent.clear();
  }
  void run_for(TimeNs duration) {
    for (TimeNs end = now + duration;;) {
      collect(a, b);
      collect(b, a);
      TimeNs next = std::min(a.state->poll_timer(), b.state->poll_timer());
      if (!wire.empty()) next = std::min(next, wire.begin()->first);
      if (next > end) {
        now = end;
        return;
      }
      now = std::max(now, next);
      if (!wire.empty() && wire.begin()->first <= now) {
        auto [to, packet] = wire.begin()->second;
        wire.erase(wire.begin());
        to->state->handle_packet(packet, now);
      } else {
        for (Side* side : {&a, &b}) {
          if (side->state->poll_timer() <= now) side->state->handle_timer(now);
        }
      }
    }
  }
  bool connected() {
    return a.state->state() == State::kConnected && b.state->state() == State::kConnected &&
           a.count(Type::kConnected) == 1 && b.count(Type::kConnected) == 1;
  }
};

const PathPair kPath{0, 1, 2, 3};

TEST(ConnectionState, ThreePacketsConnect) {
  Pair pair;
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  EXPECT_TRUE(pair.connected());
  EXPECT_EQ(pair.sent,
            (std::map<PacketType, int>{
                {PacketType::kRequest, 1}, {PacketType::kReply, 1}, {PacketType::kReady, 1}}));
  EXPECT_EQ(pair.b.path, kPath.reversed());
  EXPECT_EQ(pair.a.state->peer_offer().qpn, 0x800002U);
  EXPECT_EQ(pair.b.state->peer_offer().qpn, 0x800001U);
  EXPECT_EQ(pair.a.state->poll_timer(), kNever);
  EXPECT_EQ(pair.b.state->poll_timer(), kNever);
}

TEST(ConnectionState, EachLostPacketIsSentAgain) {
  for (PacketType lost : {PacketType::kRequest, PacketType::kReply, PacketType::kReady}) {
    Pair pair;
    int to_drop = 2;
    pair.fate = [&](const ConnectionPacket& packet) {
      return packet.type == lost && to_drop-- > 0 ? std::vector<TimeNs>{} : std::vector<TimeNs>{0};
    };
    pair.a.state->connect(kPath, 7, pair.now);
    pair.run_for(19 * kMs);
    EXPECT_FALSE(pair.connected()) << packet_type_name(lost);
    // Sent at 0, 20 and 60 ms.
    pair.run_for(42 * kMs);
    EXPECT_TRUE(pair.connected()) << packet_type_name(lost);
    EXPECT_EQ(pair.sent[lost], 3) << packet_type_name(lost);
  }
}

TEST(ConnectionState, EveryPacketTwiceConnectsOnce) {
  Pair pair;
  pair.fate = [](const ConnectionPacket&) { return std::vector<TimeNs>{0, 5 * kMs}; };
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(1000 * kMs);
  EXPECT_TRUE(pair.connected());
  EXPECT_EQ(pair.b.count(Type::kPrepare), 1);
  EXPECT_EQ(pair.b.count(Type::kEstablish), 1);
  EXPECT_EQ(pair.a.count(Type::kEstablish), 1);
  EXPECT_EQ(pair.a.count(Type::kReset) + pair.b.count(Type::kReset), 0);
}

TEST(ConnectionState, LateDuplicateOfTheRequestIsAnsweredAndHarmless) {
  Pair pair;
  pair.fate = [](const ConnectionPacket& packet) {
    return packet.type == PacketType::kRequest ? std::vector<TimeNs>{0, 700 * kMs}
                                               : std::vector<TimeNs>{0};
  };
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(1000 * kMs);
  EXPECT_TRUE(pair.connected());
  EXPECT_EQ(pair.sent[PacketType::kReply], 2);
  EXPECT_EQ(pair.sent[PacketType::kReady], 2);
}

TEST(ConnectionState, RandomLossDuplicationAndDelayAlwaysEndConnected) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    Pair pair;
    pair.fate = [&](const ConnectionPacket&) {
      std::vector<TimeNs> arrivals;
      for (unsigned copies = random() % 3; copies > 0; --copies) {
        arrivals.push_back((random() % 100) * kMs);
      }
      return arrivals;
    };
    bool both = random() % 2 != 0;
    pair.a.state->connect(kPath, 7, pair.now);
    pair.run_for((random() % 60) * kMs);
    if (both) pair.b.state->connect(kPath.reversed(), 9, pair.now);
    pair.run_for(9000 * kMs);
    ASSERT_TRUE(pair.connected()) << "round " << round;
    EXPECT_EQ(pair.a.state->own_offer().qpn, pair.b.state->peer_offer().qpn);
    EXPECT_EQ(pair.a.state->is_active(), !pair.b.state->is_active());
    EXPECT_EQ(pair.a.state->path(), pair.b.state->path().reversed());
  }
}

TEST(ConnectionState, OfTwoSimultaneousRequestsThatOfTheLowerNameStands) {
  Pair pair;
  pair.fate = [](const ConnectionPacket&) { return std::vector<TimeNs>{1 * kMs}; };
  PathPair other{1, 0, 1, 0};
  pair.a.state->connect(kPath, 7, pair.now);
  pair.b.state->connect(other, 9, pair.now);
  pair.run_for(100 * kMs);
  EXPECT_TRUE(pair.connected());
  EXPECT_TRUE(pair.a.state->is_active());
  EXPECT_FALSE(pair.b.state->is_active());
  EXPECT_EQ(pair.b.state->path(), kPath.reversed());
  EXPECT_EQ(pair.b.path, kPath.reversed());
}

TEST(ConnectionState, YieldingWhileItsOwnPreparationIsUnderWayPreparesAnew) {
  Pair pair;
  pair.b.hold_preparation = true;
  PathPair other{1, 0, 1, 0};
  pair.b.state->connect(other, 9, pair.now);
  pair.run_for(kMs);
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  EXPECT_EQ(pair.b.count(Type::kPrepare), 1);
  pair.b.hold_preparation = false;
  pair.b.state->handle_prepared(offer_of(99), pair.now);  // of the path that is out of date
  pair.run_for(100 * kMs);
  EXPECT_TRUE(pair.connected());
  EXPECT_EQ(pair.b.count(Type::kPrepare), 2);
  EXPECT_EQ(pair.a.state->peer_offer().qpn, 0x800002U);
}

TEST(ConnectionState, WithoutAnswerItGivesUpAfterTheTimeout) {
  Pair pair;
  pair.fate = [](const ConnectionPacket&) { return std::vector<TimeNs>{}; };
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(9999 * kMs);
  EXPECT_EQ(pair.a.state->state(), State::kRequested);
  // 20+40+80+160+320 = 620 ms, then every 500 ms: 6 + (10000-620)/500 = 24 at 9,620 ms.
  EXPECT_EQ(pair.sent[PacketType::kRequest], 24);
  pair.run_for(1 * kMs);
  EXPECT_EQ(pair.a.state->state(), State::kFailed);
  EXPECT_EQ(pair.a.failure_code, Code::kTimedOut);
  EXPECT_EQ(pair.a.failure, "no answer to 24 connection requests in 10.0 s");
}

TEST(ConnectionState, AnAcceptorWhoseInitiatorVanishedGoesBackToIdle) {
  Pair pair;
  pair.fate = [](const ConnectionPacket& packet) {
    return packet.type == PacketType::kRequest ? std::vector<TimeNs>{0} : std::vector<TimeNs>{};
  };
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  pair.fate = [](const ConnectionPacket&) { return std::vector<TimeNs>{}; };
  pair.run_for(10'001 * kMs);
  EXPECT_EQ(pair.b.state->state(), State::kIdle);
  EXPECT_EQ(pair.b.count(Type::kFailed), 0);
  EXPECT_EQ(pair.b.count(Type::kReset), 1);
}

TEST(ConnectionState, PacketsOfAnEarlierIncarnationAreIgnored) {
  Pair pair;
  Side old(1, 2, 500);
  old.state->connect(kPath, 7, pair.now);
  old.drive(pair.now);
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  ASSERT_TRUE(pair.connected());
  pair.b.state->handle_packet(old.sent.at(0), pair.now);
  pair.run_for(kMs);
  EXPECT_TRUE(pair.connected());
  EXPECT_EQ(pair.sent[PacketType::kReply], 1);
}

TEST(ConnectionState, APeerStartedAnewFailsTheOldConnection) {
  Pair pair;
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  Side fresh(1, 2, 2000);
  fresh.state->connect(kPath, 1, pair.now);
  fresh.drive(pair.now);
  pair.b.state->handle_packet(fresh.sent.at(0), pair.now);
  pair.b.drive(pair.now);
  EXPECT_EQ(pair.b.state->state(), State::kFailed);
  EXPECT_NE(pair.b.failure.find("started anew"), std::string::npos);
}

TEST(ConnectionState, DataStandsForALostReady) {
  Pair pair;
  pair.fate = [](const ConnectionPacket& packet) {
    return packet.type == PacketType::kReady ? std::vector<TimeNs>{} : std::vector<TimeNs>{0};
  };
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  ASSERT_EQ(pair.b.state->state(), State::kReplied);
  pair.b.state->handle_data();
  pair.run_for(1000 * kMs);
  EXPECT_TRUE(pair.connected());
  EXPECT_EQ(pair.sent[PacketType::kReply], 1);
}

TEST(ConnectionState, MismatchIsRefusedWithBothValuesOnBothSides) {
  Pair pair;
  pair.b.offer.max_message_bytes = 4096;
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  for (Side* side : {&pair.a, &pair.b}) {
    EXPECT_EQ(side->state->state(), State::kFailed);
    EXPECT_EQ(side->failure_code, Code::kProtocol);
    EXPECT_NE(side->failure.find("65536"), std::string::npos) << side->failure;
    EXPECT_NE(side->failure.find("4096"), std::string::npos) << side->failure;
  }
  EXPECT_EQ(pair.sent[PacketType::kRefuse], 1);
}

TEST(ConnectionState, CloseIsToldAndAcknowledged) {
  Pair pair;
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  pair.b.state->close(pair.now);
  pair.run_for(kMs);
  EXPECT_EQ(pair.b.count(Type::kClosed), 1);
  EXPECT_EQ(pair.a.count(Type::kPeerClosed), 1);
  EXPECT_EQ(pair.a.count(Type::kFailed), 0);
}

TEST(ConnectionState, CloseEndsWithoutAnAnswerWithin100Ms) {
  Pair pair;
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  pair.fate = [](const ConnectionPacket&) { return std::vector<TimeNs>{}; };
  pair.b.state->close(pair.now);
  pair.run_for(79 * kMs);
  EXPECT_EQ(pair.b.count(Type::kClosed), 0);
  pair.run_for(20 * kMs);
  EXPECT_EQ(pair.b.count(Type::kClosed), 1);
  EXPECT_EQ(pair.sent[PacketType::kClose], 4);
}

TEST(ConnectionState, AfterTheGoodbyeOfThePeerItConnectsAnew) {
  Pair pair;
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  pair.a.state->close(pair.now);
  pair.run_for(kMs);
  // The peer's endpoint was removed there and made anew, in the same process.
  pair.a.state = std::make_unique<ConnectionState>(&pair.a.local, ProcessName{1, 2});
  pair.a.seen.clear();
  pair.a.state->connect(kPath, 8, pair.now);
  pair.run_for(kMs);
  EXPECT_EQ(pair.a.state->state(), State::kConnected);
  EXPECT_EQ(pair.b.state->state(), State::kConnected);
  EXPECT_EQ(pair.b.count(Type::kReset), 1);
  EXPECT_EQ(pair.b.count(Type::kConnected), 2);
}

TEST(ConnectionState, ToItselfNoPacketIsNeeded) {
  Side self(1, 1);
  self.state->connect(kPath, 7, kMs);
  self.drive(kMs);
  EXPECT_EQ(self.state->state(), State::kConnected);
  EXPECT_EQ(self.state->peer_offer().qpn, 0x800001U);
  EXPECT_TRUE(self.sent.empty());
  self.state->close(2 * kMs);
  self.drive(2 * kMs);
  EXPECT_EQ(self.count(Type::kClosed), 1);
}

TEST(ConnectionState, WhoHasFailedRefusesWithTheReason) {
  Pair pair;
  pair.b.offer.mtu_bytes = 200;
  pair.a.state->connect(kPath, 7, pair.now);
  pair.run_for(kMs);
  ASSERT_EQ(pair.b.state->state(), State::kFailed);
  pair.a.state = std::make_unique<ConnectionState>(&pair.a.local, ProcessName{1, 2});
  pair.a.failure.clear();
  pair.a.state->connect(kPath, 8, pair.now);
  pair.run_for(kMs);
  EXPECT_NE(pair.a.failure.find("path MTU: 200 here, 4096 at the peer"), std::string::npos)
      << pair.a.failure;
}

TEST(Agreement, TakesTheSmallerOrWhatBothCan) {
  Offer own = offer_of(1), peer = offer_of(2);
  own.mtu_bytes = 1024;
  own.traffic_class = 104;
  own.reads_as_origin = 4;
  peer.reads_as_target = 8;
  peer.window_messages = 5;
  peer.window_bytes = 7777;
  auto agreement = agree(own, peer);
  ASSERT_TRUE(agreement.is_ok());
  EXPECT_EQ(agreement->mtu_bytes, 1024U);
  EXPECT_EQ(agreement->traffic_class, 106);
  EXPECT_EQ(agreement->reads_as_origin, 4);
  EXPECT_EQ(agreement->window_messages, 5U);
  EXPECT_EQ(agreement->window_bytes, 7777U);
}

TEST(Agreement, OtherRoceVersionIsRefusedWithBothValues) {
  Offer own = offer_of(1), peer = offer_of(2);
  peer.roce_version = 1;
  auto agreement = agree(own, peer);
  ASSERT_FALSE(agreement.is_ok());
  EXPECT_NE(agreement.status().text().find("RoCE version: 2 here, 1 at the peer"),
            std::string::npos);
}

}  // namespace
}  // namespace roce::transport

// Unreliable datagrams with their GRH.
#include <cstring>
#include <utility>

#include "behaviour.h"

namespace roce::verbs {
namespace {

constexpr uint32_t kQkey = 0x11112222;
constexpr size_t kGrhBytes = 40;

class Datagrams {
 public:
  Datagrams(End a, End b, AddressHandle ah) : a(std::move(a)), b(std::move(b)), ah(std::move(ah)) {}

  ibv_send_wr to(const End& peer, End& from, size_t bytes, uint32_t qkey = kQkey) const {
    ibv_send_wr request = from.request(1, IBV_WR_SEND, 0, bytes);
    request.wr.ud.ah = ah.get();
    request.wr.ud.remote_qpn = peer.qp.qpn();
    request.wr.ud.remote_qkey = qkey;
    return request;
  }

  End a, b;
  AddressHandle ah;  // Of the own port, where both live.
};

class Ud : public Behaviour {
 protected:
  Datagrams make() {
    EndOptions options;
    options.type = IBV_QPT_UD;
    End a = make_end(options), b = make_end(options);
    for (End* end : {&a, &b}) {
      const Status status = end->qp.ud_to_rts(candidate_.port, kQkey);
      EXPECT_TRUE(status) << status.text();
    }
    Result<AddressHandle> ah = AddressHandle::create(pd_, own_address());
    EXPECT_TRUE(ah) << ah.status().text();
    return Datagrams(std::move(a), std::move(b), std::move(*ah));
  }
};

TEST_P(Ud, DatagramArrivesBehindItsGrh) {
  Datagrams rig = make();
  for (size_t bytes : {size_t{1}, size_t{3}, size_t{256}, size_t{1000}}) {
    rig.a.fill(0, bytes, 5);
    ASSERT_EQ(rig.b.post_recv(8, 0, kGrhBytes + bytes), 0);
    ASSERT_EQ(rig.a.post(rig.to(rig.b, rig.a, bytes)), 0);
    const ibv_wc sent = take_one(rig.a.send_cq);
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    const ibv_wc received = take_one(rig.b.recv_cq);
    ASSERT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.byte_len, kGrhBytes + bytes);
    EXPECT_TRUE(received.wc_flags & IBV_WC_GRH);
    EXPECT_EQ(received.src_qp, rig.a.qp.qpn());
    EXPECT_TRUE(rig.b.holds(kGrhBytes, bytes, 5));
  }
}

TEST_P(Ud, GrhHoldsTheAddressesOfThePacket) {
  Datagrams rig = make();
  ASSERT_EQ(rig.b.post_recv(8, 0, 100), 0);
  ASSERT_EQ(rig.a.post(rig.to(rig.b, rig.a, 8)), 0);
  ASSERT_EQ(take_one(rig.b.recv_cq).status, IBV_WC_SUCCESS);
  const GidBytes& gid = candidate_.gids[0].bytes;
  if (gid_kind(gid) == GidKind::kIpv4 || gid[11] == 0xFF) {
    // RoCE v2 over IPv4: the IPv4 header in the last 20 bytes.
    EXPECT_EQ(*rig.b.at(20), 0x45);
    EXPECT_EQ(0, std::memcmp(rig.b.at(32), &gid[12], 4));
    EXPECT_EQ(0, std::memcmp(rig.b.at(36), &gid[12], 4));
  } else {
    EXPECT_EQ(*rig.b.at(0) >> 4, 6);
    EXPECT_EQ(0, std::memcmp(rig.b.at(8), gid.data(), 16));
    EXPECT_EQ(0, std::memcmp(rig.b.at(24), gid.data(), 16));
  }
}

TEST_P(Ud, ReplyGoesToTheAddressInTheGrh) {
  Datagrams rig = make();
  ASSERT_EQ(rig.b.post_recv(8, 0, 100), 0);
  ASSERT_EQ(rig.a.post(rig.to(rig.b, rig.a, 8)), 0);
  ibv_wc received = take_one(rig.b.recv_cq);
  ASSERT_EQ(received.status, IBV_WC_SUCCESS);
  ibv_ah_attr back{};
  ASSERT_EQ(candidate_.table->init_ah_from_wc(context_.get(), candidate_.port, &received,
                                              reinterpret_cast<ibv_grh*>(rig.b.at(0)), &back),
            0);
  EXPECT_EQ(back.is_global, 1);
  EXPECT_EQ(0, std::memcmp(back.grh.dgid.raw, candidate_.gids[0].bytes.data(), 16));
  Result<AddressHandle> ah = AddressHandle::create(pd_, back);
  ASSERT_TRUE(ah) << ah.status().text();
  ASSERT_EQ(rig.a.post_recv(3, 0, 100), 0);
  ibv_send_wr reply = rig.b.request(2, IBV_WR_SEND, 0, 4);
  reply.wr.ud.ah = ah->get();
  reply.wr.ud.remote_qpn = received.src_qp;
  reply.wr.ud.remote_qkey = kQkey;
  ASSERT_EQ(rig.b.post(reply), 0);
  EXPECT_EQ(take_one(rig.a.recv_cq).src_qp, rig.b.qp.qpn());
}

TEST_P(Ud, ImmediateArrives) {
  Datagrams rig = make();
  ASSERT_EQ(rig.b.post_recv(8, 0, 100), 0);
  ibv_send_wr request = rig.to(rig.b, rig.a, 8);
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = 0x0A0B0C0D;
  ASSERT_EQ(rig.a.post(request), 0);
  const ibv_wc received = take_one(rig.b.recv_cq);
  ASSERT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(received.wc_flags & IBV_WC_WITH_IMM);
  EXPECT_EQ(received.imm_data, 0x0A0B0C0Du);
}

TEST_P(Ud, WrongQkeyIsDropped) {
  Datagrams rig = make();
  ASSERT_EQ(rig.b.post_recv(8, 0, 100), 0);
  ASSERT_EQ(rig.a.post(rig.to(rig.b, rig.a, 8, kQkey + 1)), 0);
  EXPECT_EQ(take_one(rig.a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(stays_empty(rig.b.recv_cq, std::chrono::milliseconds(20)));
  ASSERT_EQ(rig.a.post(rig.to(rig.b, rig.a, 8)), 0);
  EXPECT_EQ(take_one(rig.b.recv_cq).status, IBV_WC_SUCCESS);
}

TEST_P(Ud, DatagramWithoutAReceiveIsDropped) {
  Datagrams rig = make();
  ASSERT_EQ(rig.a.post(rig.to(rig.b, rig.a, 8)), 0);
  EXPECT_EQ(take_one(rig.a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(stays_empty(rig.b.recv_cq, std::chrono::milliseconds(20)));
  ASSERT_EQ(rig.b.post_recv(8, 0, 100), 0);
  EXPECT_TRUE(stays_empty(rig.b.recv_cq, std::chrono::milliseconds(20)));
}

TEST_P(Ud, ErrorStateFlushes) {
  Datagrams rig = make();
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(rig.b.post_recv(i, 0, 100), 0);
  ASSERT_TRUE(rig.b.qp.to_error());
  const std::vector<ibv_wc> got = take(rig.b.recv_cq, 5);
  ASSERT_EQ(got.size(), 5u);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got[i].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(got[i].wr_id, i);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Ud, testing::Values("soft", "system"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace roce::verbs

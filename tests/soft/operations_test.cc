// The operation tables of a context: every entry can be called, and those that the device does not
// have answer EOPNOTSUPP.
#include <utility>

#include "rig.h"

namespace roce::soft::test {
namespace {

template <typename Result, typename... Arguments>
Result call_with_zeros(Result (*function)(Arguments...)) {
  return function(Arguments{}...);
}

/// int functions return the error, others set errno and return a null pointer.
template <typename... Arguments>
void expect_unsupported(int (*function)(Arguments...), const char* name) {
  ASSERT_NE(function, nullptr) << name;
  EXPECT_EQ(call_with_zeros(function), EOPNOTSUPP) << name;
}
template <typename Result, typename... Arguments>
void expect_unsupported(Result* (*function)(Arguments...), const char* name) {
  ASSERT_NE(function, nullptr) << name;
  errno = 0;
  EXPECT_EQ(call_with_zeros(function), nullptr) << name;
  EXPECT_EQ(errno, EOPNOTSUPP) << name;
}

struct Opened {
  ibv_context* context = open_loopback();
  ~Opened() { EXPECT_EQ(close_device(context), 0); }
};

TEST(Operations, OfThePlainTable) {
  const Opened opened;
  const ibv_context_ops& ops = opened.context->ops;
#define EXPECT_UNSUPPORTED(name) expect_unsupported(ops.name, #name)
  EXPECT_UNSUPPORTED(_compat_query_device);
  EXPECT_UNSUPPORTED(_compat_query_port);
  EXPECT_UNSUPPORTED(_compat_alloc_pd);
  EXPECT_UNSUPPORTED(_compat_dealloc_pd);
  EXPECT_UNSUPPORTED(_compat_reg_mr);
  EXPECT_UNSUPPORTED(_compat_rereg_mr);
  EXPECT_UNSUPPORTED(_compat_dereg_mr);
  EXPECT_UNSUPPORTED(alloc_mw);
  EXPECT_UNSUPPORTED(bind_mw);
  EXPECT_UNSUPPORTED(dealloc_mw);
  EXPECT_UNSUPPORTED(_compat_create_cq);
  EXPECT_UNSUPPORTED(_compat_cq_event);
  EXPECT_UNSUPPORTED(_compat_resize_cq);
  EXPECT_UNSUPPORTED(_compat_destroy_cq);
  EXPECT_UNSUPPORTED(_compat_create_srq);
  EXPECT_UNSUPPORTED(_compat_modify_srq);
  EXPECT_UNSUPPORTED(_compat_query_srq);
  EXPECT_UNSUPPORTED(_compat_destroy_srq);
  EXPECT_UNSUPPORTED(_compat_create_qp);
  EXPECT_UNSUPPORTED(_compat_query_qp);
  EXPECT_UNSUPPORTED(_compat_modify_qp);
  EXPECT_UNSUPPORTED(_compat_destroy_qp);
  EXPECT_UNSUPPORTED(_compat_create_ah);
  EXPECT_UNSUPPORTED(_compat_destroy_ah);
  EXPECT_UNSUPPORTED(_compat_attach_mcast);
  EXPECT_UNSUPPORTED(_compat_detach_mcast);
  EXPECT_UNSUPPORTED(_compat_async_event);
#undef EXPECT_UNSUPPORTED
  for (const bool there :
       {ops.poll_cq != nullptr, ops.req_notify_cq != nullptr, ops.post_srq_recv != nullptr,
        ops.post_send != nullptr, ops.post_recv != nullptr}) {
    EXPECT_TRUE(there);
  }
}

TEST(Operations, OfTheExtendedTable) {
  const Opened opened;
  const verbs_context& table = *verbs_get_ctx(opened.context);
#define EXPECT_UNSUPPORTED(name) expect_unsupported(table.name, #name)
  EXPECT_UNSUPPORTED(advise_mr);
  EXPECT_UNSUPPORTED(alloc_null_mr);
  EXPECT_UNSUPPORTED(read_counters);
  EXPECT_UNSUPPORTED(attach_counters_point_flow);
  EXPECT_UNSUPPORTED(create_counters);
  EXPECT_UNSUPPORTED(destroy_counters);
  EXPECT_UNSUPPORTED(reg_dm_mr);
  EXPECT_UNSUPPORTED(alloc_dm);
  EXPECT_UNSUPPORTED(free_dm);
  EXPECT_UNSUPPORTED(modify_flow_action_esp);
  EXPECT_UNSUPPORTED(destroy_flow_action);
  EXPECT_UNSUPPORTED(create_flow_action_esp);
  EXPECT_UNSUPPORTED(modify_qp_rate_limit);
  EXPECT_UNSUPPORTED(alloc_parent_domain);
  EXPECT_UNSUPPORTED(dealloc_td);
  EXPECT_UNSUPPORTED(alloc_td);
  EXPECT_UNSUPPORTED(modify_cq);
  EXPECT_UNSUPPORTED(post_srq_ops);
  EXPECT_UNSUPPORTED(destroy_rwq_ind_table);
  EXPECT_UNSUPPORTED(create_rwq_ind_table);
  EXPECT_UNSUPPORTED(destroy_wq);
  EXPECT_UNSUPPORTED(modify_wq);
  EXPECT_UNSUPPORTED(create_wq);
  EXPECT_UNSUPPORTED(ibv_destroy_flow);
  EXPECT_UNSUPPORTED(ibv_create_flow);
  EXPECT_UNSUPPORTED(open_qp);
  EXPECT_UNSUPPORTED(get_srq_num);
  EXPECT_UNSUPPORTED(open_xrcd);
  EXPECT_UNSUPPORTED(close_xrcd);
#undef EXPECT_UNSUPPORTED
  for (const bool there : {table.query_port != nullptr, table.query_rt_values != nullptr,
                           table.create_cq_ex != nullptr, table.query_device_ex != nullptr,
                           table.create_qp_ex != nullptr, table.create_srq_ex != nullptr,
                           table.ABI_placeholder1 != nullptr, table.ABI_placeholder2 != nullptr}) {
    EXPECT_TRUE(there);
  }
}

TEST(Operations, RequestsThatTheDeviceLacksAreRefusedAndNamed) {
  Pair pair;
  for (const ibv_wr_opcode opcode : {IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_TSO}) {
    ibv_send_wr first{}, second{}, *bad = nullptr;
    first.opcode = IBV_WR_RDMA_WRITE;
    first.send_flags = IBV_SEND_SIGNALED;
    first.next = &second;
    second.opcode = opcode;
    EXPECT_EQ(ibv_post_send(pair.a.qp, &first, &bad), EOPNOTSUPP) << opcode;
    EXPECT_EQ(bad, &second);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);  // What stands before it leaves.
  }
  EXPECT_EQ(pair.a.send(1, IBV_WR_SEND, 0, 8, IBV_SEND_IP_CSUM), EOPNOTSUPP);
}

TEST(Operations, MulticastIsRefusedAsReported) {
  Pair pair;
  ibv_device_attr device{};
  ASSERT_EQ(query_device(pair.a.context, &device), 0);
  EXPECT_EQ(device.max_mcast_grp, 0);
  EXPECT_EQ(device.max_mcast_qp_attach, 0);
  const ibv_gid group = {.raw = {0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 224, 0, 0, 1}};
  EXPECT_EQ(attach_mcast(pair.a.qp, &group, 0), EOPNOTSUPP);
  EXPECT_EQ(detach_mcast(pair.a.qp, &group, 0), EOPNOTSUPP);
}

TEST(Operations, GidQueriesAgree) {
  const Opened opened;
  ibv_context* context = opened.context;
  std::vector<ibv_gid_entry> table(64);
  const ssize_t count = query_gid_table(context, table.data(), table.size(), 0, sizeof table[0]);
  ASSERT_GE(count, 1);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& listed = table[static_cast<size_t>(i)];
    ibv_gid_entry entry{};
    ibv_gid gid{};
    ASSERT_EQ(query_gid_ex(context, 1, listed.gid_index, &entry, 0, sizeof entry), 0);
    EXPECT_EQ(std::memcmp(&entry, &listed, sizeof entry), 0);
    ASSERT_EQ(query_gid(context, 1, static_cast<int>(listed.gid_index), &gid), 0);
    EXPECT_EQ(std::memcmp(&gid, &entry.gid, sizeof gid), 0);
  }
  EXPECT_EQ(table[0].port_num, 1u);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  const auto length = static_cast<uint32_t>(port.gid_tbl_len);
  ibv_gid_entry entry{};
  EXPECT_EQ(query_gid_ex(context, 1, length - 1, &entry, 0, sizeof entry), ENODATA);
  EXPECT_EQ(query_gid_ex(context, 1, length, &entry, 0, sizeof entry), EINVAL);
  EXPECT_EQ(query_gid_ex(context, 2, 0, &entry, 0, sizeof entry), EINVAL);
  EXPECT_EQ(query_gid_ex(context, 1, 0, &entry, 1, sizeof entry), EINVAL);
  EXPECT_EQ(query_gid_ex(context, 1, 0, &entry, 0, sizeof entry - 1), EINVAL);
}

}  // namespace
}  // namespace roce::soft::test

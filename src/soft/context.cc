// Contexts: opening and closing devices, and the operation tables through which the inline calls of
// verbs.h come here.
//
// No entry is null: an inline call would take its legacy branch and reach libibverbs with an object
// that it does not know.
#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "soft/event_fd.h"
#include "soft/extended_cq.h"
#include "soft/posting.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

/// Answers for what the device does not have, of any signature that returns int or a pointer.
template <typename Function>
struct Unsupported;
template <typename... Arguments>
struct Unsupported<int (*)(Arguments...)> {
  static int call(Arguments...) { return EOPNOTSUPP; }
};
template <typename Result, typename... Arguments>
struct Unsupported<Result* (*)(Arguments...)> {
  static Result* call(Arguments...) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
};
template <typename... Arguments>
struct Unsupported<void (*)(Arguments...)> {
  static void call(Arguments...) {}
};
template <typename Function>
void refuse(Function& slot) {
  slot = &Unsupported<Function>::call;
}

int op_query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t bytes) {
  // Programs built with older headers have a shorter structure.
  ibv_port_attr full;
  const int error = query_port(context, port, &full);
  if (error != 0) return error;
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &full, std::min(bytes, sizeof full));
  return 0;
}

int op_query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                       ibv_device_attr_ex* attributes, size_t bytes) {
  ibv_device_attr_ex full;
  const int error = query_device_ex(context, input, &full);
  if (error != 0) return error;
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &full, std::min(bytes, sizeof full));
  return 0;
}

int op_query_rt_values(ibv_context*, ibv_values_ex* values) {
  const bool wanted = (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0;
  if (wanted) clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
  values->comp_mask = wanted ? IBV_VALUES_MASK_RAW_CLOCK : 0;
  return 0;
}

/// EOPNOTSUPP for everything that only other devices have.
int check_extensions(const ibv_qp_init_attr_ex& attributes) {
  const auto given = [&](uint32_t bit) { return (attributes.comp_mask & bit) != 0; };
  const uint32_t known =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if (given(~known)) return EOPNOTSUPP;
  if (given(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attributes.create_flags != 0) return EOPNOTSUPP;
  if (given(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
      (attributes.send_ops_flags & ~supported_operations(attributes.qp_type)) != 0) {
    return EOPNOTSUPP;
  }
  return given(IBV_QP_INIT_ATTR_PD) && attributes.pd != nullptr ? 0 : EINVAL;
}

ibv_qp* op_create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* attributes) {
  if (const int error = check_extensions(*attributes); error != 0) {
    errno = error;
    return nullptr;
  }
  // By the rules of verbs.h the extended structure begins like the plain one.
  ibv_qp* qp = create_qp(attributes->pd, reinterpret_cast<ibv_qp_init_attr*>(attributes));
  if (qp == nullptr || (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0) return qp;
  try {
    enable_work_requests(*qp_of(qp), attributes->send_ops_flags);
  } catch (const std::bad_alloc&) {
    destroy_qp(qp);
    errno = ENOMEM;
    return nullptr;
  }
  return qp;
}

ibv_srq* op_create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* attributes) {
  const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  const bool basic = (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 ||
                     attributes->srq_type == IBV_SRQT_BASIC;
  if ((attributes->comp_mask & ~known) != 0 || !basic ||
      (attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return create_srq(attributes->pd, reinterpret_cast<ibv_srq_init_attr*>(attributes));
}

void* unsupported_pointer() {
  errno = EOPNOTSUPP;
  return nullptr;
}

void fill_operations(ibv_context_ops& ops) {
  refuse(ops._compat_query_device);
  refuse(ops._compat_query_port);
  for (auto slot : {&ops._compat_alloc_pd,    &ops._compat_dealloc_pd,   &ops._compat_reg_mr,
                    &ops._compat_rereg_mr,    &ops._compat_dereg_mr,     &ops._compat_create_cq,
                    &ops._compat_cq_event,    &ops._compat_resize_cq,    &ops._compat_destroy_cq,
                    &ops._compat_create_srq,  &ops._compat_modify_srq,   &ops._compat_query_srq,
                    &ops._compat_destroy_srq, &ops._compat_create_qp,    &ops._compat_query_qp,
                    &ops._compat_modify_qp,   &ops._compat_destroy_qp,   &ops._compat_create_ah,
                    &ops._compat_destroy_ah,  &ops._compat_attach_mcast, &ops._compat_detach_mcast,
                    &ops._compat_async_event}) {
    *slot = &unsupported_pointer;
  }
  refuse(ops.alloc_mw);
  refuse(ops.bind_mw);
  refuse(ops.dealloc_mw);
  ops.poll_cq = &poll_cq;
  ops.req_notify_cq = &req_notify_cq;
  ops.post_srq_recv = &post_srq_recv;
  ops.post_send = &post_send;
  ops.post_recv = &post_recv;
}

void fill_extended(verbs_context& table) {
  refuse(table.alloc_null_mr);
  refuse(table.read_counters);
  refuse(table.attach_counters_point_flow);
  refuse(table.create_counters);
  refuse(table.destroy_counters);
  refuse(table.reg_dm_mr);
  refuse(table.alloc_dm);
  refuse(table.free_dm);
  refuse(table.modify_flow_action_esp);
  refuse(table.destroy_flow_action);
  refuse(table.create_flow_action_esp);
  refuse(table.modify_qp_rate_limit);
  refuse(table.alloc_parent_domain);
  refuse(table.dealloc_td);
  refuse(table.alloc_td);
  refuse(table.modify_cq);
  refuse(table.post_srq_ops);
  refuse(table.destroy_rwq_ind_table);
  refuse(table.create_rwq_ind_table);
  refuse(table.destroy_wq);
  refuse(table.modify_wq);
  refuse(table.create_wq);
  refuse(table.ibv_destroy_flow);
  refuse(table.ABI_placeholder2);
  refuse(table.ibv_create_flow);
  refuse(table.ABI_placeholder1);
  refuse(table.open_qp);
  refuse(table.get_srq_num);
  refuse(table.open_xrcd);
  refuse(table.close_xrcd);
  refuse(table.advise_mr);  // Of use with on-demand paging only.
  table.query_port = &op_query_port;
  table.query_rt_values = &op_query_rt_values;
  table.create_cq_ex = &create_cq_ex;
  table.query_device_ex = &op_query_device_ex;
  table.create_qp_ex = &op_create_qp_ex;
  table.create_srq_ex = &op_create_srq_ex;
  table.sz = sizeof(verbs_context);
}

}  // namespace

bool owns(const ibv_context* context) { return context->ops.poll_cq == &poll_cq; }

ibv_context* open_device(ibv_device* verbs) {
  Process* process = Process::usable();
  if (process == nullptr) return nullptr;
  const Status opened = process->open_sockets();
  if (!opened) {
    std::fprintf(stderr, "mpi-roce: %s: %s\n", verbs->name, opened.text().c_str());
    errno = EADDRINUSE;
    return nullptr;
  }
  std::unique_ptr<Context> context(new (std::nothrow) Context());
  const int event_fd = context != nullptr ? open_event_fd() : -1;
  if (event_fd < 0) {
    if (context == nullptr) errno = ENOMEM;
    return nullptr;
  }
  fill_extended(*context);
  ibv_context& plain = context->context;
  fill_operations(plain.ops);
  plain.device = verbs;
  // Never used, but some programs compare it with -1 or poll it; it must not be a descriptor of
  // someone else.
  plain.cmd_fd = -1;
  plain.async_fd = event_fd;
  plain.num_comp_vectors = 1;
  plain.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&plain.mutex, nullptr);
  context->device_state = device_of(verbs);
  std::lock_guard guard(process->devices_mutex());
  process->contexts().push_back(context.get());
  return &context.release()->context;
}

int close_device(ibv_context* verbs) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  Context* context = context_of(verbs);
  if (context->users.load() != 0) return EBUSY;
  {
    std::lock_guard guard(process->devices_mutex());
    std::erase(process->contexts(), context);
  }
  close_descriptor(verbs->async_fd);
  pthread_mutex_destroy(&verbs->mutex);
  delete context;
  return 0;
}

int device_hints(ibv_context* context, PeerHints* hints) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  *hints = PeerHints{};
  hints->udp_port = process->udp()->port();
  hints->capabilities = kCapSoft | kCapLazyAck | kCapSelective | kCapGrants;
  hints->receive_budget_bytes = process->udp()->receive_budget_bytes();
  hints->max_path_mtu_bytes = largest_segment(*context_of(context)->device_state);
  return 0;
}

}  // namespace roce::soft

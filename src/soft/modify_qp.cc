// ibv_modify_qp: checks, attributes, and what a transition does to rings, route and windows.
#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "soft/process.h"
#include "soft/qp_transitions.h"

namespace roce::soft {
namespace {

constexpr uint32_t kMaxQpn = 0xFFFFFF;

struct Change {
  const ibv_qp_attr& attr;
  int mask;
  ibv_qp_state from, to;
  Route route;       ///< Of attr.ah_attr, if the mask has IBV_QP_AV.
  uint32_t segment;  ///< Path MTU in bytes, if the mask has IBV_QP_PATH_MTU.
};

int check_values(const Qp& qp, const ibv_qp_attr& attr, int mask) {
  const auto given = [mask](int bit) { return (mask & bit) != 0; };
  const bool bad =
      (given(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) ||
      (given(IBV_QP_PORT) && attr.port_num != 1) ||
      (given(IBV_QP_DEST_QPN) && attr.dest_qp_num > kMaxQpn) ||
      (given(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > kMaxRdAtomicAttribute) ||
      (given(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > kMaxRdAtomicAttribute) ||
      (given(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31) ||
      (given(IBV_QP_TIMEOUT) && attr.timeout > 31) ||
      (given(IBV_QP_RETRY_CNT) && attr.retry_cnt > 7) ||
      (given(IBV_QP_RNR_RETRY) && attr.rnr_retry > 7) ||
      // There is one path, and it has migrated.
      given(IBV_QP_ALT_PATH) ||
      (given(IBV_QP_PATH_MIG_STATE) && attr.path_mig_state != IBV_MIG_MIGRATED) ||
      (given(IBV_QP_PATH_MTU) && (wire::mtu_bytes(attr.path_mtu) == 0 || qp.qp_type != IBV_QPT_RC));
  return bad ? EINVAL : 0;
}

uint32_t active_mtu_bytes(Device& device) {
  std::lock_guard guard(device.mutex);
  return std::max(wire::mtu_bytes(wire::mtu_enum_for_interface(device.state.mtu_bytes)), 256u);
}

/// Segment size of a connection: what RTR says, or what both soft devices agreed on.
int choose_segment(Qp& qp, Change& change) {
  Device& device = *context_of(qp.context)->device_state;
  if (qp.hinted && qp.hints.max_path_mtu_bytes != 4096) {
    change.segment = std::min(qp.hints.max_path_mtu_bytes, largest_segment(device)) & ~3u;
    return 0;
  }
  change.segment = wire::mtu_bytes(change.attr.path_mtu);
  return change.segment <= active_mtu_bytes(device) ? 0 : EINVAL;
}

/// A NIC answers to port 4791 only. A process that did not get it can send to one but never hear
/// from it.
int check_port(const Qp& qp, const Route& route, uint32_t dest_qpn, int slot) {
  if (qp.hinted || slot == 0 || (dest_qpn & kQpnSoftBit) != 0) return 0;
  std::fprintf(
      stderr,
      "mpi-roce: queue pair 0x%06x cannot connect to 0x%06x: a device that is not mpi-roce's "
      "answers to UDP port %u, and this process has port %u, since another one holds the "
      "first (ss -lunp 'sport = %u'). End that process or run it elsewhere.\n",
      qp.qp_num, dest_qpn, wire::kRoceUdpPort, wire::kRoceUdpPort + slot, wire::kRoceUdpPort);
  static_cast<void>(route);
  return EADDRINUSE;
}

void apply_route(Process& process, Qp& qp, const Change& change) {
  const uint32_t dest =
      (change.mask & IBV_QP_DEST_QPN) != 0 ? change.attr.dest_qp_num : qp.attributes.dest_qp_num;
  if (qp.routed) process.udp()->forget(qp.route);
  qp.route = change.route;
  const uint32_t label = change.attr.ah_attr.grh.flow_label;
  process.udp()->assign_source(qp.route, wire::udp_source_port(label, qp.qp_num, dest));
  qp.routed = true;
}

void apply_attributes(Qp& qp, const Change& change) {
  const ibv_qp_attr& from = change.attr;
  ibv_qp_attr& to = qp.attributes;
  const auto given = [&](int bit) { return (change.mask & bit) != 0; };
  if (given(IBV_QP_PKEY_INDEX)) to.pkey_index = from.pkey_index;
  if (given(IBV_QP_PORT)) to.port_num = from.port_num;
  if (given(IBV_QP_ACCESS_FLAGS)) to.qp_access_flags = from.qp_access_flags;
  if (given(IBV_QP_QKEY)) to.qkey = from.qkey;
  if (given(IBV_QP_AV)) to.ah_attr = from.ah_attr;
  if (given(IBV_QP_PATH_MTU)) to.path_mtu = from.path_mtu;
  if (given(IBV_QP_TIMEOUT)) to.timeout = from.timeout;
  if (given(IBV_QP_RETRY_CNT)) to.retry_cnt = from.retry_cnt;
  if (given(IBV_QP_RNR_RETRY)) to.rnr_retry = from.rnr_retry;
  if (given(IBV_QP_RQ_PSN)) to.rq_psn = from.rq_psn & wire::kPsnMask;
  if (given(IBV_QP_SQ_PSN)) to.sq_psn = from.sq_psn & wire::kPsnMask;
  if (given(IBV_QP_MAX_QP_RD_ATOMIC)) to.max_rd_atomic = from.max_rd_atomic;
  if (given(IBV_QP_MAX_DEST_RD_ATOMIC)) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (given(IBV_QP_MIN_RNR_TIMER)) to.min_rnr_timer = from.min_rnr_timer;
  if (given(IBV_QP_DEST_QPN)) to.dest_qp_num = from.dest_qp_num;
}

/// 0 or ENOMEM.
int pass_to_engine(Qp& qp, const Change& change) {
  const ibv_qp_attr& from = qp.attributes;
  engine::QpAttributes to = qp.engine->attributes();
  to.dest_qpn = from.dest_qp_num;
  to.sq_psn = from.sq_psn;
  to.rq_psn = from.rq_psn;
  to.qkey = from.qkey;
  to.access = from.qp_access_flags;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  if (change.segment != 0) to.path_mtu_bytes = change.segment;
  return qp.engine->set_attributes(to);
}

void reset(Process& process, Qp& qp) {
  process.flush_acks(&qp);
  qp.engine->set_state(engine::QpState::kReset, Process::now());
  qp.kept.reset();
  RingCounts* rings[] = {&qp.sends, qp.srq == nullptr ? &qp.own_receive.ring : nullptr};
  for (RingCounts* ring : rings) {
    if (ring == nullptr) continue;
    ring->lock.lock();
    ring->clear();
    ring->lock.unlock();
  }
  process.disconnect(qp);
  qp.hinted = qp.peer_soft = qp.draining = qp.notify_drained = false;
  qp.hints = PeerHints{};
  qp.agreement = Agreement{};
  qp.attributes = ibv_qp_attr{};
  remove_completions(*cq_of(qp.send_cq), qp.qp_num);
  remove_completions(*cq_of(qp.recv_cq), qp.qp_num);
}

int apply(Process& process, Qp& qp, Change& change) {
  const bool av = (change.mask & IBV_QP_AV) != 0;
  const bool to_rtr = change.from == IBV_QPS_INIT && change.to == IBV_QPS_RTR;
  if ((change.mask & IBV_QP_PATH_MTU) != 0) {
    const int error = choose_segment(qp, change);
    if (error != 0) return error;
  } else if (qp.qp_type == IBV_QPT_UD) {
    change.segment = active_mtu_bytes(*context_of(qp.context)->device_state);
    qp.max_datagram.store(change.segment, std::memory_order_relaxed);
  }
  if (to_rtr && av) {
    const int error = check_port(qp, change.route, change.attr.dest_qp_num, process.udp()->slot());
    if (error != 0) return error;
  }
  if (change.to == IBV_QPS_RESET) {
    reset(process, qp);
    return 0;
  }
  if (change.to == IBV_QPS_ERR) process.flush_acks(&qp);
  if (av) apply_route(process, qp, change);
  apply_attributes(qp, change);
  if (const int error = pass_to_engine(qp, change); error != 0) return error;
  if (av) {
    if (const int error = apply_peer(process, qp); error != 0) return error;
  }
  if (change.to != change.from) {
    qp.draining = change.to == IBV_QPS_SQD;
    qp.notify_drained =
        (change.mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && change.attr.en_sqd_async_notify != 0;
    qp.engine->set_state(static_cast<engine::QpState>(change.to), Process::now());
  }
  if (to_rtr && qp.qp_type == IBV_QPT_RC) begin_asking(process, qp, Process::now());
  return 0;
}

/// The kernel's answer whether it knows a way, so that a wrong address fails at once and not after
/// all retries.
int check_reachable(const Route& route) {
  return route_to(route.flow.dst, route.ifindex) ? 0 : EHOSTUNREACH;
}

}  // namespace

int modify_qp(ibv_qp* verbs, ibv_qp_attr* attr, int mask) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  Qp& qp = *qp_of(verbs);
  Change change{*attr, mask, IBV_QPS_UNKNOWN, IBV_QPS_UNKNOWN, {}, 0};
  int error = check_values(qp, *attr, mask);
  if (error == 0 && (mask & IBV_QP_AV) != 0) {
    error = resolve_route(*context_of(qp.context), attr->ah_attr, change.route);
    if (error == 0) error = check_reachable(change.route);
  }
  const ProgressLock guard(*process);
  change.from = static_cast<ibv_qp_state>(qp.engine->state());
  change.to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : change.from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != change.from) return EINVAL;
  const int refused = check_transition(qp.qp_type, change.from, change.to, mask);
  if (refused != 0) return refused;
  if (error != 0) return error;
  const engine::TimeNs now = Process::now();
  process->take_up(qp, now);
  error = apply(*process, qp, change);
  process->settle(qp);
  process->touch(qp);
  process->drive(now);
  if (error == 0 && (mask & IBV_QP_STATE) != 0)
    qp.state = static_cast<ibv_qp_state>(qp.engine->state());
  return error;
}

}  // namespace roce::soft

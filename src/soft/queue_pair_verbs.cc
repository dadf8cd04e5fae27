// Making, asking about and destroying queue pairs. Changing them: modify_qp.cc.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>

#include "soft/posting.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

/// Receive requests that the engine may hold beside those that wait: of a message in the making and
/// of completions not yet polled.
constexpr uint32_t kReceiveSlack = 8;

int check_init(const ibv_pd* pd, const ibv_qp_init_attr& init) {
  if (init.qp_type != IBV_QPT_RC && init.qp_type != IBV_QPT_UD) return EOPNOTSUPP;
  if (init.send_cq == nullptr || init.recv_cq == nullptr) return EINVAL;
  if (init.send_cq->context != pd->context || init.recv_cq->context != pd->context) return EINVAL;
  if (init.srq != nullptr && init.srq->context != pd->context) return EINVAL;
  const ibv_qp_cap& cap = init.cap;
  const bool fits =
      cap.max_send_wr <= kMaxWorkRequests && cap.max_send_sge <= kMaxSge &&
      cap.max_inline_data <= kMaxInlineBytes &&
      (init.srq != nullptr || (cap.max_recv_wr <= kMaxWorkRequests && cap.max_recv_sge <= kMaxSge));
  return fits ? 0 : EINVAL;
}

void set_users(Qp& qp, int change) {
  pd_of(qp.pd)->users.fetch_add(change);
  cq_of(qp.send_cq)->users.fetch_add(change);
  cq_of(qp.recv_cq)->users.fetch_add(change);
  if (qp.srq != nullptr) srq_of(qp.srq)->users.fetch_add(change);
}

void make_rings(Qp& qp) {
  const ibv_qp_cap& cap = qp.init.cap;
  qp.sends.start(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data);
  if (qp.srq != nullptr) {
    qp.receive = &srq_of(qp.srq)->receive;
  } else {
    qp.own_receive.ring.allocate(cap.max_recv_wr, cap.max_recv_sge);
    qp.own_receive.queue = std::make_unique<engine::ReceiveQueue>(cap.max_recv_wr + kReceiveSlack,
                                                                  std::max(cap.max_recv_sge, 1u));
    qp.receive = &qp.own_receive;
  }
}

void make_engine(Qp& qp) {
  engine::QpConfig config;
  config.type = qp.qp_type == IBV_QPT_UD ? engine::QpType::kUd : engine::QpType::kRc;
  config.qpn = qp.qp_num;
  config.send_depth = std::max(qp.init.cap.max_send_wr, 1u);
  config.max_send_sge = std::max(qp.init.cap.max_send_sge, 1u);
  config.signal_all = qp.signal_all;
  Device& device = *context_of(qp.context)->device_state;
  qp.engine = std::make_unique<engine::QueuePair>(config, *qp.receive->queue, qp.srq != nullptr,
                                                  *pd_of(qp.pd)->access, device.counters);
}

std::unique_ptr<Qp> make_queue_pair(ibv_pd* pd, const ibv_qp_init_attr& init) {
  auto qp = std::make_unique<Qp>();
  qp->context = pd->context;
  qp->qp_context = init.qp_context;
  qp->pd = pd;
  qp->send_cq = init.send_cq;
  qp->recv_cq = init.recv_cq;
  qp->srq = init.srq;
  qp->state = IBV_QPS_RESET;
  qp->qp_type = init.qp_type;
  qp->signal_all = init.sq_sig_all != 0;
  qp->init = init;
  if (init.srq != nullptr) qp->init.cap.max_recv_wr = qp->init.cap.max_recv_sge = 0;
  qp->init.cap.max_send_sge = std::max(init.cap.max_send_sge, 1u);
  pthread_mutex_init(&qp->mutex, nullptr);
  pthread_cond_init(&qp->cond, nullptr);
  refuse_work_requests(*qp);
  make_rings(*qp);
  return qp;
}

size_t bytes_of(Qp& qp) {
  qp.sends.lock.lock();
  const size_t sends = qp.sends.bytes();
  qp.sends.lock.unlock();
  return sizeof qp + sends + qp.engine->bytes();
}

}  // namespace

int Process::add_queue_pair(Qp& qp) {
  if (queue_pair_count_ == kMaxQueuePairs) return ENOMEM;
  uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<uint32_t>(now());
  // A random number, so that packets for a queue pair of a former process find none or the wrong
  // PSN.
  uint32_t index = random % kMaxQueuePairs + 1;
  while (queue_pairs_[index] != nullptr) index = index % kMaxQueuePairs + 1;
  queue_pairs_[index] = &qp;
  ++queue_pair_count_;
  touched_.reserve(queue_pair_count_);
  timers_.reserve(queue_pair_count_);
  shares_.reserve(queue_pair_count_);
  qp.qp_num = kQpnSoftBit | static_cast<uint32_t>(udp_->slot()) << kQpnSlotShift | index;
  qp.handle = qp.qp_num;
  return 0;
}

size_t Process::most_queue_pair_bytes() const {
  size_t most = most_queue_pair_bytes_;
  for (Qp* qp : queue_pairs_) {
    if (qp != nullptr) most = std::max(most, bytes_of(*qp));
  }
  return most;
}

Qp* Process::find_queue_pair(uint32_t qpn) const {
  Qp* qp = queue_pairs_[qpn & kQpnIndexMask];
  return qp != nullptr && qp->qp_num == qpn ? qp : nullptr;
}

void Process::disconnect(Qp& qp) {
  if (qp.routed) udp_->forget(qp.route);
  shares_.forget(qp);
  qp.routed = false;
}

void Process::remove_queue_pair(Qp& qp) {
  const engine::TimeNs time = now();
  flush_acks(&qp);
  // Sends what was posted to others, and leaves no flag that names this queue pair.
  do {
    drive(time);
  } while (qp.flagged.load(std::memory_order_seq_cst));
  if (qp.touched) std::erase(touched_, &qp);
  timers_.remove(qp.timer);
  disconnect(qp);
  most_queue_pair_bytes_ = std::max(most_queue_pair_bytes_, bytes_of(qp));
  queue_pairs_[qp.qp_num & kQpnIndexMask] = nullptr;
  --queue_pair_count_;
  remove_completions(*cq_of(qp.send_cq), qp.qp_num);
  remove_completions(*cq_of(qp.recv_cq), qp.qp_num);
  std::erase(pd_of(qp.pd)->datagram_qps, &qp);
  qp.engine.reset();
  qp.kept.reset();
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  Process* process = Process::usable();
  if (process == nullptr) return nullptr;
  int error = check_init(pd, *attributes);
  if (error == 0) error = process->start_service();
  std::unique_ptr<Qp> qp;
  if (error == 0) {
    try {
      qp = make_queue_pair(pd, *attributes);
      const ProgressLock guard(*process);
      error = process->add_queue_pair(*qp);
      if (error == 0) make_engine(*qp);
      if (error == 0 && qp->qp_type == IBV_QPT_UD) pd_of(pd)->datagram_qps.push_back(qp.get());
    } catch (const std::bad_alloc&) {
      error = ENOMEM;
    }
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  set_users(*qp, 1);
  attributes->cap = qp->init.cap;
  return qp.release();
}

int destroy_qp(ibv_qp* verbs) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  const std::unique_ptr<Qp> qp(qp_of(verbs));
  {
    const ProgressLock guard(*process);
    process->remove_queue_pair(*qp);
  }
  drop_async_events(*context_of(qp->context), verbs);
  pthread_mutex_lock(&qp->mutex);
  while (qp->events_completed != qp->async_events_reported) {
    pthread_cond_wait(&qp->cond, &qp->mutex);
  }
  pthread_mutex_unlock(&qp->mutex);
  set_users(*qp, -1);
  pthread_cond_destroy(&qp->cond);
  pthread_mutex_destroy(&qp->mutex);
  return 0;
}

int query_qp(ibv_qp* verbs, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  Qp& qp = *qp_of(verbs);
  const ProgressLock guard(*process);
  *attributes = qp.attributes;
  attributes->qp_state = attributes->cur_qp_state = static_cast<ibv_qp_state>(qp.engine->state());
  attributes->sq_draining = qp.draining && attributes->qp_state == IBV_QPS_SQD ? 1 : 0;
  attributes->path_mig_state = IBV_MIG_MIGRATED;
  attributes->cap = qp.init.cap;
  attributes->port_num = 1;
  if (attributes->qp_state >= IBV_QPS_RTS) attributes->sq_psn = qp.engine->next_psn();
  if (attributes->qp_state >= IBV_QPS_RTR && qp.qp_type == IBV_QPT_RC) {
    attributes->rq_psn = qp.engine->expected_psn();
  }
  // As libibverbs does it: programs look at qp->state for what they have asked or set.
  if ((mask & IBV_QP_STATE) != 0) qp.state = attributes->qp_state;
  *init = qp.init;
  return 0;
}

int attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
int detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }

int set_peer_hints(ibv_qp* verbs, const PeerHints* hints) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  Qp& qp = *qp_of(verbs);
  const ProgressLock guard(*process);
  if (qp.qp_type != IBV_QPT_RC || qp.engine->state() != engine::QpState::kInit ||
      hints->udp_port == 0 || hints->max_path_mtu_bytes < 256) {
    return EINVAL;
  }
  qp.hints = *hints;
  qp.hinted = true;
  return 0;
}

}  // namespace roce::soft

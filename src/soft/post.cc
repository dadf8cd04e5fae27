// Posting work requests: by any thread, without the progress lock; and their way into the engine.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "soft/posting.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 31;

bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/// 0, EINVAL if queue pairs of this type do not have the operation, EOPNOTSUPP if none has.
int check_operation(const Qp& qp, const ibv_send_wr& wr) {
  if ((wr.send_flags & IBV_SEND_IP_CSUM) != 0) return EOPNOTSUPP;
  switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return 0;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_SEND_WITH_INV:
      return qp.qp_type == IBV_QPT_RC ? 0 : EINVAL;
    default:
      return EOPNOTSUPP;
  }
}

void set_targets(engine::SendRequest& request, const Qp& qp, const ibv_send_wr& wr) {
  if (qp.qp_type == IBV_QPT_UD) {
    request.address = reinterpret_cast<uintptr_t>(ah_of(wr.wr.ud.ah));
    request.remote_qpn = wr.wr.ud.remote_qpn;
    request.remote_qkey = wr.wr.ud.remote_qkey;
  } else if (is_atomic(wr.opcode)) {
    request.remote_addr = wr.wr.atomic.remote_addr;
    request.rkey = wr.wr.atomic.rkey;
    request.compare_add = wr.wr.atomic.compare_add;
    request.swap = wr.wr.atomic.swap;
  } else {
    request.remote_addr = wr.wr.rdma.remote_addr;
    request.rkey = wr.wr.rdma.rkey;
  }
}

}  // namespace

// What the engine would refuse is refused here, since the program waits for the answer and the
// engine sees the request later.
int check_send(const Qp& qp, const ibv_send_wr& wr, uint64_t* length) {
  const uint8_t state = qp.posting_state.load(std::memory_order_acquire);
  if (state < IBV_QPS_RTS) return EINVAL;
  if (const int refused = check_operation(qp, wr); refused != 0) return refused;
  const bool inlined = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (wr.num_sge < 0) return EINVAL;
  // Inline data is copied here, so its list may have any length.
  if (!inlined && static_cast<uint32_t>(wr.num_sge) > qp.sends.max_sge) return EINVAL;
  *length = 0;
  for (int i = 0; i < wr.num_sge; ++i) *length += wr.sg_list[i].length;
  if (inlined &&
      (*length > qp.sends.max_inline || wr.opcode == IBV_WR_RDMA_READ || is_atomic(wr.opcode))) {
    return EINVAL;
  }
  if (is_atomic(wr.opcode) && *length != sizeof(uint64_t)) return EINVAL;
  if (qp.qp_type == IBV_QPT_UD) {
    if (wr.wr.ud.ah == nullptr) return EINVAL;
    if (*length > qp.max_datagram.load(std::memory_order_relaxed)) return EINVAL;
  }
  return *length > kMaxMessageBytes ? EINVAL : 0;
}

int fill_slot(Qp& qp, uint32_t position, const ibv_send_wr& wr, uint64_t length) {
  SendRing& ring = qp.sends;
  engine::SendRequest& request = ring.request(position);
  engine::Sge* sges = ring.sges(position);
  request = engine::SendRequest{};
  request.wr_id = wr.wr_id;
  request.opcode = static_cast<engine::WrOpcode>(wr.opcode);
  request.signaled = qp.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  request.solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  request.fence = (wr.send_flags & IBV_SEND_FENCE) != 0;
  request.imm = wr.imm_data;
  set_targets(request, qp, wr);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    uint8_t* bytes = ring.inline_place(position, length);
    if (bytes == nullptr && length != 0) return ENOMEM;
    sges[0] = {reinterpret_cast<uintptr_t>(bytes), static_cast<uint32_t>(length), 0};
    for (int i = 0; i < wr.num_sge; ++i) {
      const ibv_sge& sge = wr.sg_list[i];
      if (sge.length != 0) std::memcpy(bytes, reinterpret_cast<void*>(sge.addr), sge.length);
      bytes += sge.length;
    }
    request.inlined = true;
    request.sges = {sges, length == 0 ? size_t{0} : size_t{1}};
  } else {
    const auto count = static_cast<size_t>(wr.num_sge);
    if (count != 0) std::memcpy(sges, wr.sg_list, count * sizeof(ibv_sge));
    request.sges = {sges, count};
  }
  return 0;
}

int ReceiveRing::post(const ibv_recv_wr& wr) {
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > max_sge) return EINVAL;
  if (!has_room()) return ENOMEM;
  const size_t slot = head & mask;
  engine::Sge* to = sges.data() + slot * max_sge;
  const auto count = static_cast<size_t>(wr.num_sge);
  if (count != 0) std::memcpy(to, wr.sg_list, count * sizeof(ibv_sge));
  requests[slot].wr_id = wr.wr_id;
  requests[slot].sges = {to, count};
  ++head;
  return 0;
}

int post_send(ibv_qp* verbs, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp& qp = *qp_of(verbs);
  Process* process = Process::usable();
  int error = process == nullptr ? errno : 0;
  // Verbs forbid posting inside the critical region of ibv_wr_start; waiting for its end would be
  // waiting for oneself. Other threads do wait.
  if (error == 0 && qp.batch != nullptr && composed_here(*qp.batch)) error = EDEADLK;
  SendRing& ring = qp.sends;
  bool posted = false;
  if (error == 0) {
    std::unique_lock<Spinlock> batch;
    if (qp.batch != nullptr) batch = std::unique_lock(qp.batch->lock);
    ring.lock.lock();
    for (; wr != nullptr; wr = wr->next) {
      uint64_t length = 0;
      error = check_send(qp, *wr, &length);
      if (error == 0 && !ring.make_room()) error = ENOMEM;
      if (error == 0) error = fill_slot(qp, ring.head, *wr, length);
      if (error != 0) break;
      ++ring.head;
      posted = true;
    }
    ring.publish();
    ring.lock.unlock();
  }
  if (posted) process->posted(qp);
  if (error != 0 && bad_wr != nullptr) *bad_wr = wr;
  return error;
}

namespace {

int post_receives(ReceiveRing& ring, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  int error = 0;
  ring.lock.lock();
  for (; wr != nullptr; wr = wr->next) {
    error = ring.post(*wr);
    if (error != 0) break;
  }
  ring.publish();
  ring.lock.unlock();
  if (error != 0 && bad_wr != nullptr) *bad_wr = wr;
  return error;
}

}  // namespace

int post_recv(ibv_qp* verbs, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Qp& qp = *qp_of(verbs);
  Process* process = Process::usable();
  const uint8_t state = qp.posting_state.load(std::memory_order_acquire);
  if (process == nullptr || qp.srq != nullptr || state == IBV_QPS_RESET) {
    if (bad_wr != nullptr) *bad_wr = wr;
    return process == nullptr ? errno : EINVAL;
  }
  const int error = post_receives(qp.own_receive.ring, wr, bad_wr);
  // Nothing has to leave because of a receive request: whoever handles the next packet of the queue
  // pair takes it up. Only a queue pair in error owes a completion for it; one that enters the
  // error state now either is seen here or sees the request (settle).
  if (qp.posting_state.load(std::memory_order_seq_cst) == IBV_QPS_ERR) process->posted(qp);
  return error;
}

int post_srq_recv(ibv_srq* verbs, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  if (Process::usable() == nullptr) {
    if (bad_wr != nullptr) *bad_wr = wr;
    return errno;
  }
  return post_receives(srq_of(verbs)->receive.ring, wr, bad_wr);
}

// ---- the holder's side ----

void Process::take_up(Qp& qp, engine::TimeNs now) {
  ReceiveRing& receives = qp.receive->ring;
  if (receives.waiting.load(std::memory_order_acquire) != 0) {
    receives.lock.lock();
    while (receives.taken != receives.head) {
      const engine::RecvRequest& request = receives.requests[receives.taken & receives.mask];
      const bool taken =
          qp.srq != nullptr ? qp.receive->queue->post(request) : qp.engine->post_recv(request) == 0;
      if (!taken) break;  // All places hold requests that packets are being put into.
      ++receives.taken;
    }
    receives.engine_used.store(qp.receive->queue->posted(), std::memory_order_release);
    receives.publish();
    receives.lock.unlock();
  }
  SendRing& sends = qp.sends;
  if (sends.waiting.load(std::memory_order_acquire) != 0) {
    sends.lock.lock();
    while (sends.taken != sends.head) {
      if (qp.engine->post_send(sends.request(sends.taken), now) != 0) break;
      ++sends.taken;
    }
    sends.engine_used.store(qp.engine->send_queue_used(), std::memory_order_release);
    sends.publish();
    sends.lock.unlock();
  }
  settle(qp);
  touch(qp);
}

}  // namespace roce::soft

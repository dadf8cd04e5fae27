// After the engine has handled something: completions to their queues, events to their contexts,
// state to the posting threads.
#include "soft/process.h"

namespace roce::soft {
namespace {

ibv_wc to_work_completion(const Qp& qp, const engine::Completion& from) {
  ibv_wc to{};
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.byte_len = from.byte_len;
  to.qp_num = qp.qp_num;
  to.src_qp = from.src_qpn;
  if (from.invalidated) {
    to.invalidated_rkey = from.imm;
    to.wc_flags |= IBV_WC_WITH_INV;
  } else if (from.has_imm) {
    to.imm_data = from.imm;
    to.wc_flags |= IBV_WC_WITH_IMM;
  }
  if (from.has_grh) {
    to.wc_flags |= IBV_WC_GRH;
    to.sl = qp.packet_type;
  }
  return to;
}

struct EventName {
  unsigned bit;
  ibv_event_type type;
};
constexpr EventName kEvents[] = {
    {engine::kEventCommEstablished, IBV_EVENT_COMM_EST},
    {engine::kEventFatal, IBV_EVENT_QP_FATAL},
    {engine::kEventAccessError, IBV_EVENT_QP_ACCESS_ERR},
    {engine::kEventRequestError, IBV_EVENT_QP_REQ_ERR},
    {engine::kEventSqDrained, IBV_EVENT_SQ_DRAINED},
    {engine::kEventLastWqeReached, IBV_EVENT_QP_LAST_WQE_REACHED},
};

void raise_events(Qp& qp, unsigned bits) {
  if ((bits & engine::kEventSqDrained) != 0) {
    qp.draining = false;
    if (!qp.notify_drained) bits &= ~unsigned{engine::kEventSqDrained};
  }
  for (const EventName& name : kEvents) {
    if ((bits & name.bit) == 0) continue;
    ibv_async_event event{};
    event.event_type = name.type;
    event.element.qp = &qp;
    raise_async_event(*context_of(qp.context), event);
  }
}

void check_srq_limit(Qp& qp) {
  if (!qp.receive->queue->take_limit_event()) return;
  Srq& srq = *srq_of(qp.srq);
  srq.limit = 0;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
  event.element.srq = &srq;
  raise_async_event(*context_of(qp.context), event);
}

}  // namespace

void Process::settle(Qp& qp) {
  engine::QueuePair& engine = *qp.engine;
  ReceiveState& receive = *qp.receive;
  engine::Completion completion;
  bool consumed = false;
  while (engine.poll_completion(completion)) {
    // The place in the ring is free before the program can learn of it.
    if (completion.is_recv) {
      receive.ring.engine_used.store(receive.queue->posted(), std::memory_order_release);
      consumed = true;
    } else {
      qp.sends.engine_used.store(engine.send_queue_used(), std::memory_order_release);
    }
    Cq& cq = *cq_of(completion.is_recv ? qp.recv_cq : qp.send_cq);
    const bool failed = completion.status != engine::WcStatus::kSuccess;
    push_completion(cq, to_work_completion(qp, completion), failed || completion.solicited);
  }
  qp.sends.engine_used.store(engine.send_queue_used(), std::memory_order_release);
  if (qp.srq != nullptr && consumed) check_srq_limit(qp);
  const unsigned events = engine.take_events();
  if (events != 0) raise_events(qp, events);
  const auto state = static_cast<uint8_t>(engine.state());
  if (state != qp.posting_state.load(std::memory_order_relaxed)) {
    qp.posting_state.store(state, std::memory_order_seq_cst);
    // Requests that were posted meanwhile are flushed when the flag is looked at.
    if (state == IBV_QPS_ERR) raise_flag(qp);
  }
}

}  // namespace roce::soft

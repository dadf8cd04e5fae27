#include "event_queue.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

namespace roce::test {

EventQueue::EventQueue(const Port& port, int entries) {
  pd_ = soft::alloc_pd(port.context);
  channel_ = soft::create_comp_channel(port.context);
  cq_ =
      channel_ == nullptr ? nullptr : soft::create_cq(port.context, entries, nullptr, channel_, 0);
  if (pd_ == nullptr || cq_ == nullptr) die("create_cq: %s", std::strerror(errno));
}

EventQueue::~EventQueue() {
  soft::destroy_cq(cq_);
  soft::destroy_comp_channel(channel_);
  soft::dealloc_pd(pd_);
}

ibv_qp* EventQueue::create_qp(uint32_t sends, uint32_t receives) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.cap = {sends, receives, 1, 1, 0};
  ibv_qp* qp = soft::create_qp(pd_, &init);
  if (qp == nullptr) die("create_qp: %s", std::strerror(errno));
  initialize(qp);
  return qp;
}

ibv_mr* EventQueue::add_region(void* data, size_t bytes) {
  ibv_mr* mr = soft::reg_mr(
      pd_, data, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (mr == nullptr) die("reg_mr: %s", std::strerror(errno));
  return mr;
}

void EventQueue::arm() { expect(ibv_req_notify_cq(cq_, 0), "req_notify_cq"); }

void EventQueue::sleep() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (soft::get_cq_event(channel_, &cq, &context) != 0)
    die("get_cq_event: %s", std::strerror(errno));
  soft::ack_cq_events(cq, 1);
}

void post_receive(ibv_qp* qp, uint64_t id, ibv_sge sge) {
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = sge.length != 0 ? 1 : 0;
  expect(ibv_post_recv(qp, &wr, &bad), "post_recv");
}

void post_number(ibv_qp* qp, uint32_t number) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.imm_data = htonl(number);
  expect(ibv_post_send(qp, &wr, &bad), "post_send");
}

}  // namespace roce::test

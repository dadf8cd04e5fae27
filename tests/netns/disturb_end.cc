#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <cstring>

#include "disturb.h"

namespace roce::test {
namespace {

constexpr int kEventsAtMost = 100;

volatile sig_atomic_t told = 0;

const char* name_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
      return "PORT_ACTIVE";
    case IBV_EVENT_PORT_ERR:
      return "PORT_ERR";
    case IBV_EVENT_GID_CHANGE:
      return "GID_CHANGE";
    case IBV_EVENT_COMM_EST:
      return "COMM_EST";
    default:
      return "OTHER";
  }
}

}  // namespace

void listen_to_script() {
  signal(SIGTERM, [](int) { told = 1; });
}

bool told_to_end() { return told != 0; }

FlowEnd::FlowEnd(const std::string& own, uint32_t seed, uint32_t peer_seed)
    : port_(open_port(own)),
      queue_(port_, 256),
      source_(seed, kFlowBytes),
      peer_text_(peer_seed, kFlowBytes),
      target_(kFlowDepth * kFlowBytes),
      received_(kReceives * kFlowBytes),
      source_mr_(queue_.add_region(source_.data(), source_.bytes())),
      target_mr_(queue_.add_region(target_.data(), target_.size())),
      received_mr_(queue_.add_region(received_.data(), received_.size())),
      qp_(queue_.create_qp(32, kReceives)) {
  for (uint32_t i = 0; i < kReceives; ++i) receive_into(i);
}

FlowEnd::~FlowEnd() {
  soft::destroy_qp(qp_);
  for (ibv_mr* mr : {source_mr_, target_mr_, received_mr_}) soft::dereg_mr(mr);
}

void FlowEnd::meet(int fd, const PathChoice* path) {
  FlowName own{};
  own.qp = roce::test::name_of(*qp_, port_);
  own.source = reinterpret_cast<uintptr_t>(source_.data());
  own.target = reinterpret_cast<uintptr_t>(target_.data());
  own.source_rkey = source_mr_->rkey;
  own.target_rkey = target_mr_->rkey;
  if (path != nullptr) own.knowledge = path->knowledge;
  tell(fd, &own, sizeof own);
  hear(fd, &peer_, sizeof peer_);
  PathChoice patient;
  patient.knowledge = peer_.knowledge;
  connect_qp(qp_, port_, own.qp, peer_.qp, path != nullptr ? *path : patient);
}

void FlowEnd::receive_into(uint32_t slot) {
  post_receive(qp_, slot,
               {reinterpret_cast<uintptr_t>(received(slot)), kFlowBytes, received_mr_->lkey});
}

void FlowEnd::post(uint32_t number) {
  const FlowOperation operation = flow_operation(number);
  const bool read = operation.kind == FlowOperation::kRead;
  const uint8_t* from = read ? target(number) : source_.message(number);
  ibv_sge sge{reinterpret_cast<uintptr_t>(from), operation.bytes,
              read ? target_mr_->lkey : source_mr_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = number;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.opcode = read                                     ? IBV_WR_RDMA_READ
              : operation.kind == FlowOperation::kSend ? IBV_WR_SEND_WITH_IMM
                                                       : IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htonl(number);
  wr.wr.rdma.remote_addr =
      read ? peer_.source + Text::start(number) : peer_.target + number % kFlowDepth * kFlowBytes;
  wr.wr.rdma.rkey = read ? peer_.source_rkey : peer_.target_rkey;
  expect(ibv_post_send(qp_, &wr, &bad), "post_send");
}

void FlowEnd::post_probe() {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = peer_.target;
  wr.wr.rdma.rkey = peer_.target_rkey;
  expect(ibv_post_send(qp_, &wr, &bad), "post_send");
}

void FlowEnd::check(uint32_t number, const uint8_t* at, uint32_t bytes) const {
  if (std::memcmp(at, peer_text_.message(number), bytes) != 0)
    die("operation %u of %u bytes is wrong", number, bytes);
}

bool FlowEnd::sleep(int milliseconds) {
  pollfd fds[2] = {{queue_.fd(), POLLIN, 0}, {port_.context->async_fd, POLLIN, 0}};
  if (poll(fds, 2, milliseconds) <= 0) return false;
  if (fds[1].revents != 0) note_event();
  return fds[0].revents != 0;
}

void FlowEnd::note_event() {
  ibv_async_event event{};
  if (soft::get_async_event(port_.context, &event) != 0) die("get_async_event failed");
  events_ += ' ';
  events_ += name_of(event.event_type);
  soft::ack_async_event(&event);
}

void FlowEnd::print_port() {
  for (int i = 0; i < kEventsAtMost; ++i) {
    pollfd fd{port_.context->async_fd, POLLIN, 0};
    if (poll(&fd, 1, 0) != 1) break;
    note_event();
  }
  ibv_port_attr attr{};
  expect(soft::query_port(port_.context, 1, &attr), "query_port");
  std::printf("  events:%s; port %s, active MTU %d\n", events_.c_str(),
              attr.state == IBV_PORT_ACTIVE ? "active" : "down", 128 << attr.active_mtu);
}

}  // namespace roce::test

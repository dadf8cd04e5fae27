#include "bad_link_side.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

namespace roce::test {

namespace {

constexpr uint8_t kGuard = 0xA5;
constexpr size_t kTotalBytes = Memory::kRegionBytes + 2 * kGuardBytes;
constexpr int kReceives = 16;
constexpr uint64_t kNumberId = ~uint64_t{0};

void check_guard(const uint8_t* at, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) {
    if (at[i] != kGuard) die("byte %u of a guard is %u", i, at[i]);
  }
}

}  // namespace

Memory::Memory() : bytes_(new uint8_t[kTotalBytes]) {
  std::memset(bytes_.get(), kGuard, kTotalBytes);
}

void Memory::check_guards() {
  check_guard(bytes_.get(), 2 * kGuardBytes);
  for (uint32_t i = 0; i < kSlots; ++i) check_guard(slot(i) + kSlotBytes, kGuardBytes);
  check_guard(bytes_.get() + kTotalBytes - kGuardBytes, kGuardBytes);
}

Side::Side(const std::string& own, const std::string& server, const Task& task)
    : own_(own), server_(server), task_(task), port_(open_port(own)) {
  pd_ = soft::alloc_pd(port_.context);
  cq_ = soft::create_cq(port_.context, 4096, nullptr, nullptr, 0);
  target_mr_ = add_region(target);
  source_mr_ = add_region(source);
  received_mr_ = add_region(received);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  init.cap = {64, 64, 1, 1, 0};
  qp_ = soft::create_qp(pd_, &init);
  if (qp_ == nullptr) die("create_qp: %s", std::strerror(errno));
}

Side::~Side() {
  soft::destroy_qp(qp_);
  for (ibv_mr* mr : {target_mr_, source_mr_, received_mr_}) soft::dereg_mr(mr);
  soft::destroy_cq(cq_);
  soft::dealloc_pd(pd_);
  soft::close_device(port_.context);
}

ibv_mr* Side::add_region(Memory& memory) {
  ibv_mr* mr =
      soft::reg_mr(pd_, memory.region(), Memory::kRegionBytes,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (mr == nullptr) die("reg_mr: %s", std::strerror(errno));
  return mr;
}

void Side::meet() {
  Name name{};
  name.qp = name_of(*qp_, port_);
  name.target_rkey = target_mr_->rkey;
  name.source_rkey = source_mr_->rkey;
  name.target = reinterpret_cast<uintptr_t>(target.slot(0));
  name.source = reinterpret_cast<uintptr_t>(source.slot(0));
  name.task = task_;
  initialize(qp_);
  // Server: SENDs of the client; client: numbers that come back.
  for (uint32_t i = 0; i < (server_.empty() ? kSlots : kReceives); ++i) {
    post_receive(i, server_.empty() ? received.slot(i) : nullptr);
  }
  peer_ = exchange(name);
  if (server_.empty()) task_ = peer_.task;
  PathChoice path;
  path.knowledge = task_.knowledge;
  connect_qp(qp_, port_, name.qp, peer_.qp, path);
}

Name Side::exchange(const Name& own) {
  const int listener = server_.empty() ? listen_at(own_) : -1;
  const int fd = server_.empty() ? accept_from(listener) : connect_to(server_);
  Name out{};
  tell(fd, &own, sizeof own);
  hear(fd, &out, sizeof out);
  close(fd);
  if (listener >= 0) close(listener);
  return out;
}

void Side::finish() {
  for (int i = 0; i < 500; ++i) {
    soft::progress();
    usleep(1000);
  }
}

void Side::post_receive(uint64_t wr_id, uint8_t* slot) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(slot), kSlotBytes, received_mr_->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = slot != nullptr ? 1 : 0;
  expect(ibv_post_recv(qp_, &wr, &bad), "post_recv");
}

void Side::post(ibv_send_wr& wr, ibv_sge* sge) {
  ibv_send_wr* bad = nullptr;
  wr.sg_list = sge;
  wr.num_sge = sge != nullptr ? 1 : 0;
  const uint64_t offset =
      static_cast<uint64_t>(sge == nullptr ? 0 : wr.wr_id % kSlots) * (kSlotBytes + kGuardBytes);
  const bool read = wr.opcode == IBV_WR_RDMA_READ;
  wr.wr.rdma.remote_addr = (read ? peer_.source : peer_.target) + offset;
  wr.wr.rdma.rkey = read ? peer_.source_rkey : peer_.target_rkey;
  expect(ibv_post_send(qp_, &wr, &bad), "post_send");
}

void Side::post_send(bool write, uint32_t number, uint32_t slot, uint32_t bytes) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(source.slot(slot)), bytes, source_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = number;
  wr.opcode = write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htonl(number);
  post(wr, &sge);
}

void Side::post_write(uint32_t slot, uint32_t bytes) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(source.slot(slot)), bytes, source_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = slot;
  wr.opcode = IBV_WR_RDMA_WRITE;
  post(wr, &sge);
}

void Side::post_read(uint64_t wr_id, uint32_t slot, uint32_t bytes) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(received.slot(slot)), bytes, received_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.opcode = IBV_WR_RDMA_READ;
  post(wr, &sge);
}

void Side::post_number(uint32_t number) {
  ibv_send_wr wr{};
  wr.wr_id = kNumberId;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htonl(number);
  post(wr, nullptr);
}

ibv_wc Side::wait() {
  ibv_wc wc{};
  for (int got = 0; got == 0;) {
    got = ibv_poll_cq(cq_, 1, &wc);
    if (got < 0) die("poll_cq failed");
  }
  if (wc.status != IBV_WC_SUCCESS) die("a completion has status %d", static_cast<int>(wc.status));
  return wc;
}

void Side::drop_completions() {
  ibv_wc wc{};
  while (ibv_poll_cq(cq_, 1, &wc) > 0) {
    if (wc.status != IBV_WC_SUCCESS) die("a completion has status %d", static_cast<int>(wc.status));
  }
}

uint32_t Side::number(const ibv_wc& wc) { return ntohl(wc.imm_data); }

}  // namespace roce::test

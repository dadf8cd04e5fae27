#include "bad_link_side.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

namespace roce::test {

namespace {

constexpr uint8_t kGuard = 0xA5;
constexpr size_t kTotalBytes = Memory::kRegionBytes + 2 * kGuardBytes;
constexpr uint16_t kTcpPort = 18600;
constexpr int kReceives = 16;
constexpr uint64_t kNumberId = ~uint64_t{0};

void check_guard(const uint8_t* at, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) {
    if (at[i] != kGuard) die("byte %u of a guard is %u", i, at[i]);
  }
}

int listen_and_accept(const sockaddr_in& address) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 1) != 0) {
    die("TCP port %u: %s", kTcpPort, std::strerror(errno));
  }
  const int fd = accept(listener, nullptr, nullptr);
  close(listener);
  return fd;
}

int connect_to(const sockaddr_in& address) {
  for (int tries = 0; tries < 200; ++tries) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    close(fd);
    usleep(50'000);
  }
  die("no server after 10 s");
}

void expect(int error, const char* what) {
  if (error != 0) die("%s: %s", what, std::strerror(error));
}

}  // namespace

void die(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("bad_link: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::_Exit(1);
}

Memory::Memory() : bytes_(new uint8_t[kTotalBytes]) {
  std::memset(bytes_.get(), kGuard, kTotalBytes);
}

void Memory::check_guards() {
  check_guard(bytes_.get(), 2 * kGuardBytes);
  for (uint32_t i = 0; i < kSlots; ++i) check_guard(slot(i) + kSlotBytes, kGuardBytes);
  check_guard(bytes_.get() + kTotalBytes - kGuardBytes, kGuardBytes);
}

Side::Side(const std::string& own, const std::string& server, const Task& task)
    : own_(own), server_(server), task_(task) {
  open_device();
  pd_ = soft::alloc_pd(context_);
  cq_ = soft::create_cq(context_, 4096, nullptr, nullptr, 0);
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
  soft::close_device(context_);
}

void Side::open_device() {
  uint8_t wanted[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (inet_pton(AF_INET, own_.c_str(), wanted + 12) != 1) die("%s is no address", own_.c_str());
  ibv_device** list = soft::get_device_list(nullptr);
  for (int i = 0; list != nullptr && list[i] != nullptr && gid_index_ < 0; ++i) {
    context_ = soft::open_device(list[i]);
    if (context_ == nullptr) continue;
    for (int k = 0; gid_index_ < 0 && soft::query_gid(context_, 1, k, &gid_) == 0; ++k) {
      if (std::memcmp(gid_.raw, wanted, 16) == 0) gid_index_ = k;
    }
    if (gid_index_ < 0) soft::close_device(context_);
  }
  soft::free_device_list(list);
  if (gid_index_ < 0) die("no device has the address %s", own_.c_str());
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
  name.qpn = qp_->qp_num;
  name.psn = 0xFFFF00;  // So that it wraps soon.
  name.target_rkey = target_mr_->rkey;
  name.source_rkey = source_mr_->rkey;
  name.target = reinterpret_cast<uintptr_t>(target.slot(0));
  name.source = reinterpret_cast<uintptr_t>(source.slot(0));
  name.gid = gid_;
  name.task = task_;
  soft::device_hints(context_, &name.hints);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  expect(soft::modify_qp(qp_, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "INIT");
  // Server: SENDs of the client; client: numbers that come back.
  for (uint32_t i = 0; i < (server_.empty() ? kSlots : kReceives); ++i) {
    post_receive(i, server_.empty() ? received.slot(i) : nullptr);
  }
  peer_ = exchange(name);
  if (server_.empty()) task_ = peer_.task;
  connect(name);
}

Name Side::exchange(const Name& own) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kTcpPort);
  inet_pton(AF_INET, (server_.empty() ? own_ : server_).c_str(), &address.sin_addr);
  const int fd = server_.empty() ? listen_and_accept(address) : connect_to(address);
  Name out{};
  if (write(fd, &own, sizeof own) != static_cast<ssize_t>(sizeof own) ||
      recv(fd, &out, sizeof out, MSG_WAITALL) != static_cast<ssize_t>(sizeof out)) {
    die("the peer went away");
  }
  close(fd);
  return out;
}

void Side::connect(const Name& own) {
  if (task_.knowledge != Task::kAsked) {
    soft::PeerHints hints;
    hints.udp_port = peer_.hints.udp_port;
    if (task_.knowledge == Task::kTold) {
      hints = peer_.hints;
      hints.max_path_mtu_bytes = std::min(hints.max_path_mtu_bytes, own.hints.max_path_mtu_bytes);
    }
    expect(soft::set_peer_hints(qp_, &hints), "set_peer_hints");
  }
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer_.qpn;
  attr.rq_psn = peer_.psn;
  attr.max_dest_rd_atomic = 8;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer_.gid;
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index_);
  attr.ah_attr.grh.hop_limit = 64;
  expect(soft::modify_qp(qp_, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 17;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.sq_psn = own.psn;
  attr.max_rd_atomic = 8;
  expect(soft::modify_qp(qp_, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
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

#include <arpa/inet.h>
#include <unistd.h>

#include <chrono>

#include "event_queue.h"
#include "incast.h"

namespace roce::test {
namespace {

class Sender {
 public:
  Sender(const std::string& own, const std::string& one)
      : port_(open_port(own)), queue_(port_, 512), fd_(connect_to(one)) {
    qp_ = queue_.create_qp(256, 32);
    for (int i = 0; i < 32; ++i) post_receive(qp_, 0, {});
    hear(fd_, &one_, sizeof one_);
    text_ = Text(one_.seed, one_.load.bytes);
    mr_ = queue_.add_region(text_.data(), text_.bytes());
    IncastName name{};
    name.qp = name_of(*qp_, port_);
    name.address = reinterpret_cast<uintptr_t>(text_.data());
    name.rkey = mr_->rkey;
    PathChoice path;
    path.knowledge = one_.load.knowledge;
    connect_qp(qp_, port_, name.qp, one_.qp, path);
    tell(fd_, &name, sizeof name);
  }

  ~Sender() {
    soft::destroy_qp(qp_);
    soft::dereg_mr(mr_);
    close(fd_);
  }

  void run() {
    char go = 0;
    hear(fd_, &go, 1);
    if (one_.load.kind == Load::kRead) {
      while (!last_heard_) wait();
    } else {
      send_all();
    }
    SenderCounts counts;
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = soft::counter(kSenderCounters[i]);
    tell(fd_, &counts, sizeof counts);
    hear(fd_, &go, 1);  // Nobody goes before all are done, and with them the acknowledgements.
  }

 private:
  void send_all() {
    const Load& load = one_.load;
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(load.milliseconds);
    for (;;) {
      const bool over = std::chrono::steady_clock::now() >= end;
      if (over && sent_ % load.batch() == 0) break;
      if (sent_ - credited_ < load.depth()) {
        post_message();
      } else {
        wait();
      }
    }
    while (credited_ != sent_ || signaled_ != 0) wait();
    post_number(qp_, kLast);
    ++signaled_;
    while (signaled_ != 0) wait();
  }

  void post_message() {
    const Load& load = one_.load;
    const bool last = (sent_ + 1) % load.batch() == 0;
    ibv_sge sge{reinterpret_cast<uintptr_t>(text_.message(sent_)), load.bytes, mr_->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = load.kind == Load::kSend ? IBV_WR_SEND_WITH_IMM
                : last                   ? IBV_WR_RDMA_WRITE_WITH_IMM
                                         : IBV_WR_RDMA_WRITE;
    wr.send_flags = last ? IBV_SEND_SIGNALED : 0;
    wr.imm_data = htonl(++sent_);
    wr.wr.rdma.remote_addr = one_.address + uint64_t{(sent_ - 1) % load.slots()} * load.bytes;
    wr.wr.rdma.rkey = one_.rkey;
    signaled_ += last;
    expect(ibv_post_send(qp_, &wr, &bad), "post_send");
  }

  void wait() {
    queue_.wait([this](const ibv_wc& wc) {
      if (wc.status != IBV_WC_SUCCESS) {
        die("message %u: status %d after %u credited", sent_, static_cast<int>(wc.status),
            credited_);
      }
      if ((wc.opcode & IBV_WC_RECV) == 0) {
        --signaled_;
        return;
      }
      const uint32_t number = ntohl(wc.imm_data);
      last_heard_ = last_heard_ || number == kLast;
      if (number != kLast) credited_ = number;
      post_receive(qp_, 0, {});
    });
  }

  Port port_;
  EventQueue queue_;
  int fd_;
  ibv_qp* qp_ = nullptr;
  IncastName one_{};
  Text text_{0, 0};
  ibv_mr* mr_ = nullptr;
  uint32_t sent_ = 0, credited_ = 0, signaled_ = 0;
  bool last_heard_ = false;
};

}  // namespace

void run_sender(const std::string& own, const std::string& one) { Sender(own, one).run(); }

}  // namespace roce::test

#include <arpa/inet.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "event_queue.h"
#include "incast.h"
#include "incast_report.h"

namespace roce::test {
namespace {

constexpr uint32_t kReadsUnderWay = 8;  // As many as connect_qp lets be.

struct Peer {
  Peer(uint32_t seed, const Load& load)
      : text(seed, load.bytes), slots(size_t{load.slots()} * load.bytes) {}
  int fd = -1;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  IncastName name{};
  Text text;
  std::vector<uint8_t> slots;
  uint32_t checked = 0;  ///< Messages that have come and were right.
  uint32_t posted = 0;   ///< READs.
  uint32_t number = 0;
  bool ended = false;
};

class One {
 public:
  One(const std::string& own, uint32_t senders, const Load& load)
      : load_(load), port_(open_port(own)), queue_(port_, 4096), report_(load) {
    const int listener = listen_at(own);
    for (uint32_t i = 0; i < senders; ++i) add_peer(i, accept_from(listener));
    close(listener);
  }

  ~One() {
    for (const auto& peer : peers_) {
      soft::destroy_qp(peer->qp);
      soft::dereg_mr(peer->mr);
      close(peer->fd);
    }
  }

  void run() {
    for (const auto& peer : peers_) tell(peer->fd, "g", 1);
    report_.begin();
    for (const auto& peer : peers_) read_more(*peer);
    while (ended_ < peers_.size()) {
      queue_.wait([this](const ibv_wc& wc) { take(wc); });
      report_.look();
    }
    report_.end();
    for (const auto& peer : peers_) {
      SenderCounts counts{};
      hear(peer->fd, &counts, sizeof counts);
      report_.add(counts);
    }
    for (const auto& peer : peers_) tell(peer->fd, "e", 1);
    report_.print(peers_.size());
  }

 private:
  void add_peer(uint32_t number, int fd) {
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>(number + 1, load_));
    peer.fd = fd;
    peer.number = number;
    peer.qp = queue_.create_qp(64, load_.slots());
    peer.mr = queue_.add_region(peer.slots.data(), peer.slots.size());
    for (uint32_t i = 0; i < load_.slots(); ++i) receive(peer, i);
    IncastName own{};
    own.qp = name_of(*peer.qp, port_);
    own.address = reinterpret_cast<uintptr_t>(peer.slots.data());
    own.rkey = peer.mr->rkey;
    own.seed = number + 1;
    own.load = load_;
    tell(fd, &own, sizeof own);
    hear(fd, &peer.name, sizeof peer.name);
    PathChoice path;
    path.knowledge = load_.knowledge;
    connect_qp(peer.qp, port_, own.qp, peer.name.qp, path);
  }

  uint8_t* slot(Peer& peer, uint32_t message) const {
    return peer.slots.data() + size_t{message % load_.slots()} * load_.bytes;
  }

  void receive(Peer& peer, uint32_t message) {
    ibv_sge sge{reinterpret_cast<uintptr_t>(slot(peer, message)), load_.bytes, peer.mr->lkey};
    post_receive(peer.qp, message, load_.kind == Load::kSend ? sge : ibv_sge{});
  }

  void check_next(Peer& peer) {
    const uint32_t message = peer.checked++;
    if (std::memcmp(slot(peer, message), peer.text.message(message), load_.bytes) != 0)
      die("message %u of sender %u is wrong", message, peer.number);
    report_.count(load_.bytes);
  }

  void read_more(Peer& peer) {
    if (load_.kind != Load::kRead) return;
    const uint32_t most = std::min(load_.depth(), kReadsUnderWay);
    while (!report_.over() && peer.posted - peer.checked < most) {
      ibv_sge sge{reinterpret_cast<uintptr_t>(slot(peer, peer.posted)), load_.bytes, peer.mr->lkey};
      ibv_send_wr wr{}, *bad = nullptr;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_RDMA_READ;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma.remote_addr = peer.name.address + Text::start(peer.posted++);
      wr.wr.rdma.rkey = peer.name.rkey;
      expect(ibv_post_send(peer.qp, &wr, &bad), "post_send");
    }
    if (report_.over() && peer.posted == peer.checked && !peer.ended) {
      post_number(peer.qp, kLast);
      peer.ended = true;
    }
  }

  void take(const ibv_wc& wc) {
    Peer* peer = nullptr;
    for (const auto& one : peers_) {
      if (one->qp->qp_num == wc.qp_num) peer = one.get();
    }
    if (peer == nullptr) die("a completion of queue pair 0x%x, which is none of ours", wc.qp_num);
    if (wc.status != IBV_WC_SUCCESS)
      die("sender %u: status %d after %u messages", peer->number, static_cast<int>(wc.status),
          peer->checked);
    if (wc.opcode == IBV_WC_RDMA_READ) {
      check_next(*peer);
      read_more(*peer);
    } else if (wc.opcode == IBV_WC_SEND) {
      if (load_.kind == Load::kRead) ++ended_;
    } else {
      take_message(*peer, wc);
    }
  }

  void take_message(Peer& peer, const ibv_wc& wc) {
    const uint32_t number = ntohl(wc.imm_data);
    if (number == kLast) {
      ++ended_;
      return;
    }
    if (load_.kind == Load::kSend && (number != peer.checked + 1 || wc.byte_len != load_.bytes))
      die("message %u of %u bytes instead of %u of %u", number, wc.byte_len, peer.checked + 1,
          load_.bytes);
    if (load_.kind == Load::kWrite && number != peer.checked + load_.batch())
      die("WRITEs up to %u announced after %u", number, peer.checked);
    while (peer.checked != number) check_next(peer);
    // The slot of the message that was checked last takes the one that comes a round later.
    receive(peer, number - 1);
    if (number % load_.batch() == 0) post_number(peer.qp, number);
  }

  const Load load_;
  Port port_;
  EventQueue queue_;
  IncastReport report_;
  std::vector<std::unique_ptr<Peer>> peers_;
  size_t ended_ = 0;
};

}  // namespace

void run_one(const std::string& own, uint32_t senders, const Load& load) {
  One(own, senders, load).run();
}

}  // namespace roce::test

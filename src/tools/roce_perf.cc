// Latency and bandwidth of the software device between two processes on loopback.
//
//   roce_perf send_lat -s 8 -n 20000      half round trip of RC SEND
//   roce_perf write_bw -s 65536 -n 5000   RDMA WRITE stream
//   roce_perf read_bw  -s 65536 -n 5000   RDMA READ stream
//
// Options: -s bytes, -n operations, -d requests in flight (16), -a CPU to pin the first process to
// (the second takes the next one; -1: neither), -v: counters at the end.
#include <infiniband/verbs.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "soft/soft.h"

namespace {

using namespace roce::soft;
using Clock = std::chrono::steady_clock;

constexpr double kStallSeconds = 20;

struct Settings {
  std::string mode;
  size_t bytes = 8;
  long operations = 20000;
  int depth = 16;
  int cpu = -1;
  bool verbose = false;
};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "roce_perf: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

/// What the two processes tell each other over a pipe.
struct Endpoint {
  uint32_t qpn, rkey;
  uint64_t address;
  ibv_gid gid;
  PeerHints hints;
};

void pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) die("sched_setaffinity");
}

class Side {
 public:
  Side(const Settings& settings, int read_fd, int write_fd)
      : settings_(settings), in_(read_fd), out_(write_fd), memory_(settings.bytes + 4096) {
    open_loopback();
    pd_ = alloc_pd(context_);
    cq_ = create_cq(context_, 1024, nullptr, nullptr, 0);
    mr_ = reg_mr(pd_, memory_.data(), memory_.size(),
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (mr_ == nullptr) die("reg_mr");
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_RC;
    init.cap = {256, 256, 1, 1, 128};
    qp_ = create_qp(pd_, &init);
    if (qp_ == nullptr) die("create_qp");
    connect();
  }

  void barrier() {
    char byte = 0;
    if (write(out_, &byte, 1) != 1 || read(in_, &byte, 1) != 1) die("barrier");
  }

  void post_receive() {
    ibv_sge sge = element();
    ibv_recv_wr wr{}, *bad;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (ibv_post_recv(qp_, &wr, &bad) != 0) die("post_recv");
  }
  void post(ibv_wr_opcode opcode, bool signaled) {
    ibv_sge sge = element();
    ibv_send_wr wr{}, *bad;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
    if (opcode == IBV_WR_SEND && settings_.bytes <= 128) wr.send_flags |= IBV_SEND_INLINE;
    wr.wr.rdma.remote_addr = peer_.address;
    wr.wr.rdma.rkey = peer_.rkey;
    if (ibv_post_send(qp_, &wr, &bad) != 0) die("post_send");
  }
  /// Polls for completions; ends the program after kStallSeconds without one.
  int poll(ibv_wc* wc, int count) {
    for (long empty = 0;; ++empty) {
      const int got = ibv_poll_cq(cq_, count, wc);
      for (int i = 0; i < got; ++i) check(wc[i]);
      if (got > 0) return got;
      if (empty == 0) since_ = Clock::now();
      if (empty % 65536 == 65535 &&
          std::chrono::duration<double>(Clock::now() - since_).count() > kStallSeconds) {
        char text[512];
        describe_qp(qp_, text, sizeof text);
        std::fprintf(stderr, "roce_perf: no completion for %g s: %s\n", kStallSeconds, text);
        std::exit(1);
      }
    }
  }
  void drain(int milliseconds) {
    const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    ibv_wc wc;
    while (Clock::now() < end) ibv_poll_cq(cq_, 1, &wc);
  }

 private:
  ibv_sge element() const {
    return {reinterpret_cast<uintptr_t>(memory_.data()), static_cast<uint32_t>(settings_.bytes),
            mr_->lkey};
  }
  void check(const ibv_wc& wc) {
    if (wc.status == IBV_WC_SUCCESS) return;
    char text[512];
    describe_qp(qp_, text, sizeof text);
    std::fprintf(stderr, "roce_perf: completion status %d: %s\n", wc.status, text);
    std::exit(1);
  }
  void open_loopback() {
    ibv_device** list = get_device_list(nullptr);
    // Loopback is the last one.
    ibv_device** device = list;
    while (device != nullptr && device[0] != nullptr && device[1] != nullptr) ++device;
    if (device == nullptr || *device == nullptr) die("no device");
    context_ = open_device(*device);
    if (context_ == nullptr) die("open_device");
    free_device_list(list);
  }
  void connect() {
    Endpoint mine{qp_->qp_num, mr_->rkey, reinterpret_cast<uintptr_t>(memory_.data()), {}, {}};
    if (query_gid(context_, 1, 0, &mine.gid) != 0) die("query_gid");
    device_hints(context_, &mine.hints);
    if (write(out_, &mine, sizeof mine) != sizeof mine) die("write");
    if (read(in_, &peer_, sizeof peer_) != sizeof peer_) die("read");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (modify_qp(qp_, &attr,
                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
      die("INIT");
    }
    if (set_peer_hints(qp_, &peer_.hints) != 0) die("set_peer_hints");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer_.qpn;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer_.gid;
    attr.ah_attr.grh.hop_limit = 64;
    if (modify_qp(qp_, &attr,
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
      die("RTR");
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 16;
    if (modify_qp(qp_, &attr,
                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
      die("RTS");
    }
  }

  const Settings& settings_;
  int in_, out_;
  std::vector<uint8_t> memory_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Endpoint peer_{};
  Clock::time_point since_;
};

void latency(Side& side, const Settings& settings, bool first) {
  const long warmup = std::min(settings.operations / 10 + 1, 1000L);
  std::vector<double> half_us;
  half_us.reserve(static_cast<size_t>(settings.operations));
  for (int i = 0; i < 16; ++i) side.post_receive();
  side.barrier();
  ibv_wc wc[16];
  for (long i = 0; i < settings.operations + warmup; ++i) {
    const auto start = Clock::now();
    if (first) side.post(IBV_WR_SEND, i % 64 == 0);
    for (bool received = false; !received;) {
      const int got = side.poll(wc, 16);
      for (int k = 0; k < got; ++k) received = received || wc[k].opcode == IBV_WC_RECV;
    }
    side.post_receive();
    if (!first) side.post(IBV_WR_SEND, i % 64 == 0);
    if (i >= warmup) {
      half_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                        2);
    }
  }
  side.drain(20);
  if (!first) return;
  std::sort(half_us.begin(), half_us.end());
  double sum = 0;
  for (const double value : half_us) sum += value;
  const size_t count = half_us.size();
  std::printf("send_lat %zu B: min %.2f median %.2f mean %.2f p99 %.2f us\n", settings.bytes,
              half_us.front(), half_us[count / 2], sum / static_cast<double>(count),
              half_us[count * 99 / 100]);
}

void bandwidth(Side& side, const Settings& settings, ibv_wr_opcode opcode, bool first) {
  side.barrier();
  if (!first) {
    // The passive side moves packets until the other one is done: it polls as an MPI process would.
    side.drain(0);
    return;
  }
  const auto start = Clock::now();
  ibv_wc wc[32];
  long posted = 0, done = 0;
  while (done < settings.operations) {
    while (posted < settings.operations && posted - done < settings.depth) {
      side.post(opcode, true);
      ++posted;
    }
    done += side.poll(wc, 32);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%s %zu B: %.3f GB/s, %.0f operations/s\n", settings.mode.c_str(), settings.bytes,
              static_cast<double>(settings.bytes) * static_cast<double>(done) / seconds * 1e-9,
              static_cast<double>(done) / seconds);
}

void run(const Settings& settings, int in, int out, bool first) {
  if (settings.cpu >= 0) pin(first ? settings.cpu : settings.cpu + 1);
  Side side(settings, in, out);
  if (settings.mode == "send_lat") {
    latency(side, settings, first);
  } else {
    bandwidth(side, settings, settings.mode == "read_bw" ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
              first);
  }
  if (first) {
    char byte = 0;
    if (write(out, &byte, 1) != 1) die("write");
  } else {
    // Polls until the first process says that it is done.
    const int end = in;
    fd_set set;
    timeval none{};
    do {
      side.drain(1);
      FD_ZERO(&set);
      FD_SET(end, &set);
      none = {};
    } while (select(end + 1, &set, nullptr, nullptr, &none) == 0);
  }
  if (settings.verbose) {
    std::vector<char> text(8192);
    counters_text(text.data(), text.size());
    std::fprintf(stderr, "--- %s process\n%s", first ? "first" : "second", text.data());
  }
}

[[noreturn]] void usage(int status) {
  std::fprintf(status == 0 ? stdout : stderr,
               "usage: roce_perf send_lat|write_bw|read_bw [-s bytes] [-n operations] "
               "[-d depth] [-a cpu] [-v]\n");
  std::exit(status);
}

/// A whole number in [least, most], or the usage.
long parse_number(const char* text, long least, long most) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text, &end, 10);
  if (errno == 0 && *text != '\0' && *end == '\0' && value >= least && value <= most) return value;
  std::fprintf(stderr, "roce_perf: %s is not a number from %ld to %ld\n", text, least, most);
  usage(2);
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--help" || std::string_view(argv[i]) == "-h") usage(0);
  }
  if (argc < 2) usage(2);
  settings.mode = argv[1];
  const bool known =
      settings.mode == "send_lat" || settings.mode == "write_bw" || settings.mode == "read_bw";
  if (!known) usage(2);
  int option;
  optind = 2;
  while ((option = getopt(argc, argv, "s:n:d:a:v")) != -1) {
    switch (option) {
      case 's':
        settings.bytes = static_cast<size_t>(parse_number(optarg, 1, 1 << 30));
        break;
      case 'n':
        settings.operations = parse_number(optarg, 1, 1'000'000'000);
        break;
      case 'd':
        settings.depth = static_cast<int>(parse_number(optarg, 1, 256));
        break;
      case 'a':
        settings.cpu = static_cast<int>(parse_number(optarg, -1, CPU_SETSIZE - 2));
        break;
      case 'v':
        settings.verbose = true;
        break;
      default:
        usage(2);
    }
  }
  if (optind != argc) usage(2);
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  int forth[2], back[2];
  if (pipe(forth) != 0 || pipe(back) != 0) die("pipe");
  // Before the first call of the device: its objects do not survive a fork.
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    run(settings, forth[0], back[1], false);
    return 0;
  }
  run(settings, back[0], forth[1], true);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

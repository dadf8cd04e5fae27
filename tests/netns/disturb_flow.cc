#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "disturb.h"

namespace roce::test {
namespace {

constexpr uint32_t kFirstOperations = 50;  ///< Before the script may disturb.
constexpr uint32_t kLastOperations = 100;  ///< After the script has undone what it did.
constexpr double kSecondsAtMost = 10;
constexpr int kTickMs = 20;

class Flow {
 public:
  Flow(const std::string& own, const std::string& server, const FlowPlan& plan)
      : plan_(plan), end_(own, 1, 2) {
    const int fd = connect_to(server);
    end_.meet(fd, &plan.path);
    close(fd);
  }

  void run() {
    last_progress_ = Clock::now();
    while (finished_ < kFirstOperations && failed_ == 0) step(true);
    std::printf("flowing\n");
    std::fflush(stdout);
    start_ = Clock::now();
    while (!told_to_end() && since(start_) < kSecondsAtMost && failed_ == 0) step(true);
    const uint32_t enough = finished_ + kLastOperations;
    while (finished_ < enough && failed_ == 0) step(true);
    while ((finished_ != posted_ || sends_ != 0) && failed_ == 0) step(false);
    failed_ != 0 ? judge_failure() : judge_success();
    end_.print_port();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  void step(bool post) {
    // An operation's slot is free once the one that had it before is finished.
    while (post && failed_ == 0 && posted_ - finished_ < kFlowDepth &&
           !busy_[posted_ % kFlowDepth]) {
      busy_[posted_ % kFlowDepth] = true;
      end_.post(posted_++);
      ++sends_;
    }
    end_.wait(kTickMs, [this](const ibv_wc& wc) { take(wc); });
    // The peer may have acknowledged all and answered nothing: no request would notice that it is
    // gone.
    if (post && failed_ == 0 && sends_ == 0) {
      end_.post_probe();
      ++sends_;
    }
  }

  void take(const ibv_wc& wc) {
    if (wc.status != IBV_WC_SUCCESS) return take_failure(wc);
    if (failed_ != 0) die("a completion has success after one that failed");
    if ((wc.opcode & IBV_WC_RECV) == 0) {
      --sends_;
      if (wc.opcode == IBV_WC_RDMA_READ) {
        const auto number = static_cast<uint32_t>(wc.wr_id);
        end_.check(number, end_.target(number), flow_operation(number).bytes);
        finish(number);
      }
      return;
    }
    finish(ntohl(wc.imm_data));
    end_.receive_into(static_cast<uint32_t>(wc.wr_id));
  }

  void finish(uint32_t number) {
    if (!busy_[number % kFlowDepth]) die("operation %u finished twice", number);
    busy_[number % kFlowDepth] = false;
    ++finished_;
    longest_gap_ = std::max(longest_gap_, since(last_progress_));
    last_progress_ = Clock::now();
  }

  void take_failure(const ibv_wc& wc) {
    if (failed_ == 0) {
      first_failure_ = wc.status;
      failed_after_ = since(last_progress_);
      failed_at_ = since(start_);
    } else if (wc.status != IBV_WC_WR_FLUSH_ERR) {
      die("completion %u after the first that failed has status %d, not flushed", failed_,
          static_cast<int>(wc.status));
    }
    ++failed_;
  }

  /// One request tells what happened; every other one is flushed, and the queue pair stands in ERR.
  void judge_failure() {
    const uint32_t owed = sends_ + FlowEnd::kReceives;
    for (int i = 0; i < 50 && failed_ < owed; ++i) step(false);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    expect(soft::query_qp(end_.qp(), &attr, IBV_QP_STATE, &init), "query_qp");
    std::printf(
        "  status %d after %.2f s, %.2f s after the last progress, %u of %u requests flushed, "
        "state %d\n",
        static_cast<int>(first_failure_), failed_at_, failed_after_, failed_ - 1, owed - 1,
        static_cast<int>(attr.qp_state));
    if (!plan_.reported) die("the queue pair failed");
    if (first_failure_ != IBV_WC_RETRY_EXC_ERR) die("the status is not IBV_WC_RETRY_EXC_ERR");
    if (failed_ != owed) die("not every request has completed");
    if (attr.qp_state != IBV_QPS_ERR) die("the queue pair is not in ERR");
  }

  void judge_success() {
    if (plan_.reported) die("no failure was reported");
    post_number(end_.qp(), kFlowLast);
    for (sends_ = 1; sends_ != 0 && failed_ == 0;) step(false);
    std::printf("  %u operations, all bytes right, longest gap %.0f ms; trains refused %llu\n",
                finished_, longest_gap_ * 1e3,
                static_cast<unsigned long long>(soft::counter("udp_tx_train_refused")));
  }

  const FlowPlan plan_;
  FlowEnd end_;
  bool busy_[kFlowDepth] = {};
  uint32_t posted_ = 0, finished_ = 0;
  uint32_t sends_ = 0;   ///< Requests in the send queue.
  uint32_t failed_ = 0;  ///< Completions without success.
  ibv_wc_status first_failure_ = IBV_WC_SUCCESS;
  Clock::time_point start_, last_progress_;
  double longest_gap_ = 0, failed_at_ = 0, failed_after_ = 0;
};

}  // namespace

void run_flow(const std::string& own, const std::string& server, const FlowPlan& plan) {
  listen_to_script();
  Flow(own, server, plan).run();
}

}  // namespace roce::test

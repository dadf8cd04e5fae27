#include <arpa/inet.h>
#include <unistd.h>

#include <cstdio>

#include "disturb.h"

namespace roce::test {
namespace {

constexpr int kTickMs = 20;

class Server {
 public:
  explicit Server(const std::string& own) : end_(own, 2, 1) {
    const int listener = listen_at(own), fd = accept_from(listener);
    end_.meet(fd, nullptr);
    close(fd);
    close(listener);
  }

  /// Until the last word, or until the script says that the flow has failed.
  void run() {
    while (!last_heard_ && !told_to_end())
      end_.wait(kTickMs, [this](const ibv_wc& wc) { take(wc); });
    for (int i = 0; i < 10 && last_heard_; ++i) end_.wait(kTickMs, [](const ibv_wc&) {});
    std::printf("  server: %u messages, all bytes right", messages_);
    if (failure_ != IBV_WC_SUCCESS) std::printf(", status %d", static_cast<int>(failure_));
    std::printf("\n");
    end_.print_port();
  }

 private:
  void take(const ibv_wc& wc) {
    if (wc.status != IBV_WC_SUCCESS) {
      const bool first = failure_ == IBV_WC_SUCCESS;
      if (wc.status != (first ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR))
        die("a completion has status %d", static_cast<int>(wc.status));
      if (first) failure_ = wc.status;
      return;
    }
    if ((wc.opcode & IBV_WC_RECV) == 0) return;
    const uint32_t number = ntohl(wc.imm_data);
    if (number == kFlowLast) {
      last_heard_ = true;
      return;
    }
    while (flow_operation(next_).kind == FlowOperation::kRead) ++next_;
    if (number != next_) die("operation %u came instead of %u", number, next_);
    ++next_;
    ++messages_;
    const FlowOperation operation = flow_operation(number);
    const auto slot = static_cast<uint32_t>(wc.wr_id);
    if (wc.byte_len != operation.bytes) die("operation %u has %u bytes", number, wc.byte_len);
    end_.check(number,
               operation.kind == FlowOperation::kSend ? end_.received(slot) : end_.target(number),
               operation.bytes);
    if (failure_ != IBV_WC_SUCCESS) return;
    end_.receive_into(slot);
    post_number(end_.qp(), number);
  }

  FlowEnd end_;
  uint32_t next_ = 0, messages_ = 0;
  bool last_heard_ = false;
  ibv_wc_status failure_ = IBV_WC_SUCCESS;
};

}  // namespace

void run_server(const std::string& own) {
  listen_to_script();
  Server(own).run();
}

}  // namespace roce::test

// What the one measures while it is loaded.
#ifndef ROCE_TESTS_NETNS_INCAST_REPORT_H_
#define ROCE_TESTS_NETNS_INCAST_REPORT_H_

#include <chrono>
#include <cstdint>

#include "incast.h"

namespace roce::test {

class IncastReport {
 public:
  explicit IncastReport(const Load& load) : load_(load) {}
  void begin();
  /// To be called often: takes samples when it is time.
  void look();
  void count(uint32_t bytes) {
    bytes_ += bytes;
    ++messages_;
  }
  bool over() const { return now() >= load_.milliseconds * 1e-3; }
  void end();
  void add(const SenderCounts& counts);
  /// Ends the process where more than 1 in 1,000 of what the kernel queued was dropped after the
  /// start.
  void print(size_t senders);

 private:
  struct Sample {
    uint64_t drops = 0, buffers = 0, datagrams = 0, marks = 0;
  };
  static Sample sample();
  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  const Load load_;
  std::chrono::steady_clock::time_point start_;
  Sample first_, settled_, last_;
  double next_look_ = 0, settled_at_ = -1, first_drop_ = -1, first_mark_ = -1, seconds_ = 0;
  double longest_gap_ = 0, gap_end_ = 0, last_progress_ = 0;
  uint64_t bytes_ = 0, messages_ = 0, seen_ = 0;
  SenderCounts sums_{};
};

}  // namespace roce::test

#endif  // ROCE_TESTS_NETNS_INCAST_REPORT_H_

// Threads for calls that may block (create_ah, modify to RTR): at most kMaxThreads, started on
// demand, so that one peer whose address does not resolve holds up no other.
#ifndef ROCE_TRANSPORT_HELPERS_H_
#define ROCE_TRANSPORT_HELPERS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace roce::transport {

/// Starts a thread with all signals blocked: they are the program's.
std::thread start_thread(std::function<void()> body);

class Helpers {
 public:
  static constexpr size_t kMaxThreads = 4;

  ~Helpers() { stop(); }
  /// Runs `job` soon. After stop(): drops it.
  void submit(std::function<void()> job);
  /// Drops jobs that have not begun and waits for those that have.
  void stop();
  size_t threads();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_HELPERS_H_

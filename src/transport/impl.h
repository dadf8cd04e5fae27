// What is behind the public Transport.
#ifndef ROCE_TRANSPORT_IMPL_H_
#define ROCE_TRANSPORT_IMPL_H_

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "roce/transport.h"
#include "transport/core.h"
#include "transport/poller.h"

namespace roce::transport {

struct Transport::Impl {
  Impl(const Params& params, const Options& options, const Hooks& hooks, Rails rails)
      : core(params, options, hooks, std::move(rails)), poller(core) {
    core.poller = &poller;
  }

  /// Runs progress until `done` or the limit.
  template <typename Done>
  bool progress_until(Done done, std::chrono::milliseconds limit) {
    auto end = std::chrono::steady_clock::now() + limit;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) {
        return false;
      }
      if (poller.progress() == 0) {
        std::this_thread::yield();
      }
    }
    return true;
  }

  void fold_counters();

  Core core;
  Poller poller;
  pid_t owner = getpid();
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_IMPL_H_

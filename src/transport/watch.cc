// What the connection thread does for a program that does not call progress for a while: what waits
// for a credit or a completion goes on, and queue pairs of peers that have gone are given back.
#include <algorithm>

#include "transport/connection_thread.h"
#include "transport/endpoint.h"
#include "transport/link.h"
#include "transport/poller.h"

namespace roce::transport {
namespace {

/// Of looks at a program that does not call progress. Where it does, looks become rare, since each
/// takes the core from it.
constexpr TimeNs kLeastPeriodNs = 10'000'000, kMostPeriodNs = 640'000'000;

}  // namespace

void ConnectionThread::watch() {
  if (!watching_.load(std::memory_order_relaxed) && !watching_.exchange(true)) {
    post([] {});
  }
}

TimeNs ConnectionThread::next_look() const {
  return watching_.load(std::memory_order_relaxed) ? last_look_ + look_period_ : kNever;
}

void ConnectionThread::look_after_waiting(TimeNs now) {
  if (now < next_look()) {
    return;
  }
  last_look_ = now;
  if (core_.poller->polls() == polls_seen_) {
    look_period_ = kLeastPeriodNs;
    core_.poller->poll_unattended();
  } else {
    look_period_ = std::clamp(2 * look_period_, kLeastPeriodNs, kMostPeriodNs);
  }
  polls_seen_ = core_.poller->polls();
  release_closed();
  auto stalled = [this] {
    std::vector<Endpoint*> peers = core_.peers.all();
    return std::any_of(peers.begin(), peers.end(), [](Endpoint* endpoint) {
      Link* link = endpoint->link_if_any();
      return link != nullptr && link->is_stalled();
    });
  };
  if (!closed_.empty() || stalled()) {
    return;
  }
  watching_.store(false);
  // Whoever queued before that store saw the watch on.
  if (stalled()) {
    watching_.store(true);
  }
}

/// The peer has said goodbye: all that it sent lies in the completion queue, and is lost with the
/// queue pair unless it has been polled.
void ConnectionThread::keep_until_drained(Connection& connection) {
  if (connection.rail != nullptr) {
    closed_.push_back({&connection, connection.rail->drained.load(std::memory_order_relaxed)});
    watch();
  }
}

void ConnectionThread::release_closed() {
  std::erase_if(closed_, [this](const Closed& closed) {
    Connection& connection = *closed.connection;
    if (connection.state.state() != ConnectionState::State::kClosed || connection.rail == nullptr) {
      return true;  // connected again, or gone
    }
    // The first poll that ended after the goodbye may have begun before it.
    const uint64_t polls = connection.rail->drained.load(std::memory_order_relaxed);
    if (connection.job_running || polls < closed.drained_before + 2) {
      return false;
    }
    drop_queue_pair(connection);
    connection.endpoint->link().settle(Endpoint::State::kClosed, false);
    return true;
  });
}

}  // namespace roce::transport

#include "transport/connection_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transport/endpoint.h"

namespace roce::transport {

TimeNs monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<TimeNs>(now.tv_sec) * 1'000'000'000 + static_cast<TimeNs>(now.tv_nsec);
}

Result<std::unique_ptr<ConnectionThread>> ConnectionThread::start(Core& core) {
  std::unique_ptr<ConnectionThread> self(new ConnectionThread(core));
  self->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self->wake_fd_ < 0) {
    return verbs::call_failed("connection thread", "eventfd", errno,
                              "Raise the limit of open files (ulimit -n).");
  }
  self->thread_ = start_thread([raw = self.get()] { raw->run(); });
  return self;
}

void ConnectionThread::stop() {
  if (thread_.joinable()) {
    stopping_ = true;
    post([] {});
    thread_.join();
  }
}

ConnectionThread::~ConnectionThread() {
  stop();
  helpers_.stop();
  for (auto& [endpoint, connection] : connections_) {
    drop_queue_pair(*connection);
  }
  if (wake_fd_ >= 0) {
    ::close(wake_fd_);
  }
}

void ConnectionThread::post(std::function<void()> command) {
  {
    std::lock_guard guard(mutex_);
    commands_.push_back(std::move(command));
  }
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_fd_, &one, sizeof one);
}

void ConnectionThread::connect(Endpoint* endpoint) {
  post([this, endpoint] {
    Connection& connection = connection_of(endpoint);
    ConnectionState::State state = connection.state.state();
    if (state != ConnectionState::State::kIdle && state != ConnectionState::State::kClosed) {
      return;  // the peer has asked meanwhile
    }
    Result<PathPair> path = core_.rails.select(core_.address, endpoint->address());
    if (path) {
      connection.state.connect(*path, next_connection_id_++, monotonic_ns());
    } else {
      connection.state.give_up(path.status().text());
      fail(connection, Code::kUnreachable, path.status().text());
    }
    run_actions(connection);
  });
}

void ConnectionThread::tear_down(Endpoint* endpoint) {
  post([this, endpoint] {
    Connection& connection = connection_of(endpoint);
    connection.tear_down_wanted = true;
    connection.state.give_up("the connection has failed at the peer");
    run_actions(connection);
  });
}

void ConnectionThread::data_received(Endpoint* endpoint) {
  post([this, endpoint] {
    Connection& connection = connection_of(endpoint);
    connection.state.handle_data();
    run_actions(connection);
  });
}

void ConnectionThread::close(Endpoint* endpoint, std::shared_ptr<std::atomic<bool>> done) {
  post([this, endpoint, done] {
    Connection& connection = connection_of(endpoint);
    connection.done = done;
    connection.state.close(monotonic_ns());
    run_actions(connection);
  });
}

/// A packet sent along it may still be under way in the device: it goes once as many others as a
/// control port has send buffers came after it.
void ConnectionThread::retire(verbs::AddressHandle handle) {
  constexpr size_t kKept = 64;
  if (handle) {
    retired_.push_back(std::move(handle));
  }
  if (retired_.size() > kKept) {
    retired_.pop_front();
  }
}

ConnectionThread::Connection& ConnectionThread::connection_of(Endpoint* endpoint) {
  std::unique_ptr<Connection>& connection = connections_[endpoint];
  if (connection == nullptr) {
    connection = std::make_unique<Connection>(&core_.local, endpoint, endpoint->name());
  }
  return *connection;
}

void ConnectionThread::run() {
  // Only those with an event: looking at one asks it for the next event, which a program that polls
  // pays for.
  for (uint32_t rails = ~0U; !stopping_; rails = wait_for_work()) {
    for (auto& rail : core_.rails) {
      if ((rails >> rail->index & 1) == 0) continue;
      rail->control.drain([this, &rail](const ControlPort::Received& received) {
        handle_received(*rail, received);
      });
    }
    run_commands();
    run_timers();
    look_after_waiting(monotonic_ns());
  }
}

uint32_t ConnectionThread::wait_for_work() {
  pollfd files[1 + 2 * kMaxRails] = {{wake_fd_, POLLIN, 0}};
  nfds_t count = 1;
  for (auto& rail : core_.rails) {
    files[count++] = {rail->control.fd(), POLLIN, 0};
    files[count++] = {rail->context.async_fd(), POLLIN, 0};
  }
  int timeout_ms = -1;
  TimeNs first = next_look();
  if (!timers_.empty()) first = std::min(first, timers_.begin()->first);
  if (first != kNever) {
    TimeNs now = monotonic_ns();
    timeout_ms = first <= now ? 0 : static_cast<int>((first - now) / 1'000'000 + 1);
  }
  int ready = poll(files, count, timeout_ms);
  uint64_t value;
  [[maybe_unused]] ssize_t bytes = read(wake_fd_, &value, sizeof value);
  uint32_t rails = 0;
  for (size_t i = 0; ready > 0 && i < core_.rails.size(); ++i) {
    if ((files[1 + 2 * i].revents & POLLIN) != 0) {
      rails |= 1U << i;
    }
    if ((files[2 + 2 * i].revents & POLLIN) != 0) {
      handle_async_event(core_.rails[i]);
    }
  }
  return rails;
}

void ConnectionThread::run_commands() {
  std::vector<std::function<void()>> commands;
  {
    std::lock_guard guard(mutex_);
    commands.swap(commands_);
  }
  for (auto& command : commands) {
    command();
  }
}

void ConnectionThread::run_timers() {
  TimeNs now = monotonic_ns();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Connection& connection = *timers_.begin()->second;
    connection.state.handle_timer(now);
    run_actions(connection);
    if (connection.timer <= now) {
      break;  // handled in the next round, after packets
    }
  }
}

}  // namespace roce::transport

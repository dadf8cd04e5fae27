// The process object: made at the first call, never freed, since threads of the program may be
// inside it until the very end.
#include "soft/process.h"

#include <pthread.h>

#include <cerrno>

#include "soft/environment.h"

namespace roce::soft {
namespace {

constexpr std::chrono::milliseconds kExitWait{10};

void child_handler();

/// Runs when the program ends or the library is unloaded.
struct ExitHook {
  ~ExitHook();
};
ExitHook exit_hook;

}  // namespace

Process::Process() : queue_pairs_(kMaxQueuePairs + 1) { sent_datagrams_.reserve(64); }

Process& Process::create() {
  static std::mutex mutex;
  std::lock_guard guard(mutex);
  Process* process = instance_.load(std::memory_order_acquire);
  if (process == nullptr) {
    process = new Process();
    pthread_atfork(nullptr, nullptr, &child_handler);
    instance_.store(process, std::memory_order_release);
  }
  return *process;
}

Process* Process::refuse() {
  // The parent owns ports, queue pairs and memory keys; a child that used them would answer in its
  // name.
  errno = EIO;
  return nullptr;
}

void Process::after_fork_in_child() {
  // Other threads' locks may be held for ever in this copy: nothing here takes one.
  forked_.store(true);
  if (udp_ != nullptr) udp_->close_in_child();
  service_.close_in_child();
}

void Process::at_exit() {
  if (forked_.load()) return;
  // First the acknowledgements, so that no peer waits for a timeout because this process ends.
  if (enter_within(kExitWait)) {
    flush_acks(nullptr);
    leave();
  }
  service_.stop();
}

namespace {

void child_handler() { Process::instance().after_fork_in_child(); }

ExitHook::~ExitHook() {
  if (Process::exists()) Process::instance().at_exit();
}

}  // namespace

// ---- set-up ----

void Process::set_options(const Options& options) {
  std::lock_guard guard(setup_mutex_);
  if (options_used_) return;
  options_ = options;
  options_set_ = true;
}

Options Process::options() {
  std::lock_guard guard(setup_mutex_);
  if (!options_set_) options_ = options_from_environment();
  options_set_ = options_used_ = true;
  return options_;
}

void configure(const Options& options) {
  if (Process* process = Process::usable()) process->set_options(options);
}

Status Process::open_sockets() {
  const Options wanted = options();
  std::lock_guard guard(setup_mutex_);
  if (sockets_open_) return Status::ok();
  UdpPort::Options udp_options;
  udp_options.first_slot = wanted.first_slot;
  udp_options.receive_buffer_bytes = wanted.receive_buffer_bytes;
  auto port = UdpPort::open(udp_options);
  if (!port) return port.status();
  const ProgressLock lock(*this);
  memory_.set_limit(wanted.memlock_bytes);
  udp_ = std::move(*port);
  receive_fd_.store(udp_->receive_fd(), std::memory_order_release);
  sockets_open_ = true;
  return Status::ok();
}

void Process::refresh_devices() {
  std::lock_guard guard(devices_mutex_);
  for (Device* device : devices_) {
    bool running = false, state_changed = false, gids_changed = false;
    if (!refresh_device(*device, &running, &state_changed, &gids_changed)) continue;
    ibv_async_event event{};
    event.element.port_num = 1;
    for (Context* context : contexts_) {
      if (context->device_state != device) continue;
      if (state_changed) {
        event.event_type = running ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
        raise_async_event(*context, event);
      }
      if (gids_changed) {
        event.event_type = IBV_EVENT_GID_CHANGE;
        raise_async_event(*context, event);
      }
    }
  }
}

}  // namespace roce::soft

// The public interface: opening, peers, closing. See include/roce/transport.h.
#include "roce/transport.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "transport/connection_thread.h"
#include "transport/core.h"
#include "transport/endpoint.h"
#include "transport/impl.h"
#include "transport/link.h"

namespace roce::transport {
namespace {

/// How long closing waits for what is under way, and then for the goodbyes.
constexpr std::chrono::milliseconds kDrainLimit(2000), kCloseLimit(500);

uint64_t wall_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

Status check_options(const Params& params, const Options& options) {
  constexpr size_t kMostMessageBytes = 16 << 20;
  if (options.max_message_bytes < 64 || options.max_message_bytes > kMostMessageBytes) {
    return {Code::kInvalidArgument,
            "max_message_bytes: " + std::to_string(options.max_message_bytes) +
                " is not in its range, 64.." + std::to_string(kMostMessageBytes)};
  }
  if (options.receive == nullptr) {
    return {Code::kInvalidArgument, "Options::receive is not set"};
  }
  return check_params(params);
}

/// Peers whose eager messages the receive memory is to hold at once.
constexpr uint32_t kEagerPeers = 8;

void offer_atomics(const Rails& rails, const Params& params, Limits* limits) {
  const auto all = [&rails](auto predicate) {
    return std::all_of(rails.begin(), rails.end(),
                       [&](const auto& rail) { return predicate(*rail); });
  };
  const bool with_cpu = all([](const Rail& rail) { return rail.atomics_with_cpu; });
  const bool one_device =
      all([&](const Rail& rail) { return rail.context.name() == rails[0].context.name(); });
  // Two devices are atomic against each other only if both are against the CPU.
  limits->has_atomics = params.atomics != "off" && (one_device || with_cpu) &&
                        all([](const Rail& rail) { return rail.has_atomics; });
  limits->atomics_with_cpu = limits->has_atomics && with_cpu && params.atomics == "auto";
}

Limits limits_of(const Rails& rails, const Params& params, const Options& options) {
  Limits limits;
  limits.max_put_bytes = size_t{1} << 30;
  limits.max_inline_bytes = limits.eager_bytes = options.max_message_bytes;
  for (const auto& rail : rails) {
    limits.max_put_bytes = std::min<size_t>(limits.max_put_bytes, rail->max_operation_bytes);
    limits.max_inline_bytes =
        std::min<size_t>(limits.max_inline_bytes, rail->inline_bytes - kHeaderBytes);
    if (rail->hints.receive_budget_bytes != 0) {
      limits.eager_bytes = std::min<size_t>(
          limits.eager_bytes, rail->hints.receive_budget_bytes / kTruesizePerByte / kEagerPeers);
    }
    limits.bandwidth_mbps = std::max(limits.bandwidth_mbps, rail->address.speed_mbps);
  }
  limits.max_get_bytes = limits.max_put_bytes;
  offer_atomics(rails, params, &limits);
  limits.is_soft = rails[0].table().is_soft;
  limits.device = rails[0].name();
  return limits;
}

}  // namespace

Core::Core(const Params& params_in, const Options& options_in, const Hooks& hooks_in,
           Rails rails_in)
    : params(params_in), options(options_in), hooks(hooks_in), rails(std::move(rails_in)) {
  limits = limits_of(rails, params, options);
  address = local_identity();
  address.job_cookie = options.job_cookie;
  for (const auto& rail : rails) {
    address.rails.push_back(rail->address);
  }
  local.name = options.name;
  local.job_cookie = options.job_cookie;
  local.incarnation = wall_clock_ns();
  blob = encode(address);
  local.connect_timeout_ns = static_cast<TimeNs>(params.connect_timeout_s) * 1'000'000'000;
  Registrar registrar{[this](void* base, size_t bytes, Registration* out) {
                        return rails.register_memory(base, bytes, kLocalWrite, out);
                      },
                      [this](Registration* out) { rails.deregister_memory(out); }};
  fragments = std::make_unique<FragmentPool>(options.max_message_bytes, options.adapter_bytes,
                                             std::move(registrar));
}

Core::~Core() = default;

void Core::log(int verbosity, std::string text) {
  events.defer({{.type = Event::Type::kLog}, verbosity, std::move(text)});
}

void Transport::Impl::fold_counters() {
  core.counters.raise(Counter::lock_waits, spin_lock_waits.load(std::memory_order_relaxed));
  for (Endpoint* endpoint : core.peers.all()) {
    if (Link* link = endpoint->link_if_any()) link->fold_counters(core.counters);
  }
}

Transport::Transport() = default;

Result<std::unique_ptr<Transport>> Transport::open(const Params& params, const Options& options) {
  return open(params, options, Hooks{});
}

Result<std::unique_ptr<Transport>> Transport::open(const Params& params, const Options& options,
                                                   const Hooks& hooks) {
  if (Status status = check_options(params, options); !status) {
    return status;
  }
  auto rails = Rails::open(params, options, hooks);
  if (!rails) {
    return rails.status();
  }
  std::unique_ptr<Transport> transport(new Transport);
  transport->impl_ = std::make_unique<Impl>(params, options, hooks, std::move(rails.value()));
  Core& core = transport->impl_->core;
  auto thread = ConnectionThread::start(core);
  if (!thread) {
    return thread.status();
  }
  core.connections = std::move(thread.value());
  for (const std::string& refusal : core.rails.refusals()) {
    core.log(2, refusal);
  }
  for (const auto& rail : core.rails) {
    core.log(1, "uses " + rail->name() + " (interface " + rail->netdev + "), GID " +
                    verbs::gid_text(rail->gids.front()) + ", MTU " +
                    std::to_string(rail->address.mtu_bytes));
  }
  return transport;
}

Transport::~Transport() {
  if (impl_ == nullptr) {
    return;
  }
  if (impl_->owner != getpid()) {
    (void)impl_.release();  // a child after fork has neither the thread nor the device
    return;
  }
  Core& core = impl_->core;
  if (core.connections == nullptr) {
    return;
  }
  impl_->poller.silence();
  std::vector<Endpoint*> peers = core.peers.all();
  auto idle = [&peers] {
    return std::all_of(peers.begin(), peers.end(), [](Endpoint* peer) {
      return peer->state() != Endpoint::State::kReady || peer->link().is_idle();
    });
  };
  impl_->progress_until(idle, kDrainLimit);
  std::vector<std::shared_ptr<std::atomic<bool>>> closed;
  for (Endpoint* peer : peers) {
    closed.push_back(std::make_shared<std::atomic<bool>>(false));
    core.connections->close(peer, closed.back());
  }
  auto all_closed = [&closed] {
    return std::all_of(closed.begin(), closed.end(), [](auto& done) { return done->load(); });
  };
  impl_->progress_until(all_closed, kCloseLimit);
  core.connections->stop();
  core.connections.reset();
}

const Limits& Transport::limits() const { return impl_->core.limits; }
std::vector<uint8_t> Transport::address() const { return impl_->core.blob; }
const Params& Transport::params() const { return impl_->core.params; }

namespace {

/// All rails have the same table, and its counters are those of the process.
std::string device_counters(const verbs::Table& table) {
  std::string text(static_cast<size_t>(table.counters_text(nullptr, 0)) + 1, '\0');
  text.resize(static_cast<size_t>(table.counters_text(text.data(), text.size())));
  std::string out;
  for (size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos;
       start = end + 1) {
    out += "device_" + text.substr(start, end + 1 - start);
  }
  return out;
}

}  // namespace

Counters& Transport::counters() {
  impl_->fold_counters();
  return impl_->core.counters;
}

std::string Transport::counters_text() const {
  impl_->fold_counters();
  return impl_->core.counters.text() + device_counters((*impl_->core.rails.begin())->table());
}

Result<Endpoint*> Transport::add_peer(ProcessName name, std::span<const uint8_t> blob,
                                      void* context) {
  Core& core = impl_->core;
  auto address = decode(blob);
  if (!address) {
    return address.status();
  }
  std::string who = process_text(name, address->host_name);
  if (address->job_cookie != core.local.job_cookie) {
    return Status(Code::kProtocol, "address of " + who + ": its job cookie is " +
                                       std::to_string(address->job_cookie) + ", that of this job " +
                                       std::to_string(core.local.job_cookie));
  }
  if (auto path = core.rails.select(core.address, *address); !path) {
    return Status(path.status().code(), who + ": " + path.status().text());
  }
  bool made = false;
  Endpoint* endpoint = core.peers.find_or_make(
      name, [&](uint32_t index) { return std::make_unique<Endpoint>(core, name, index); }, &made);
  if (endpoint == nullptr) {
    return Status(Code::kOutOfResources, "too many peers");
  }
  if (made || endpoint->address_is_partial()) {
    endpoint->set_address(*address, false);
  }
  if (made) {
    core.counters.raise(Counter::peer_bytes_idle, endpoint->bytes());
  }
  if (context != nullptr) {
    endpoint->context.store(context, std::memory_order_release);
  }
  return endpoint;
}

Endpoint* Transport::find_peer(ProcessName name) { return impl_->core.peers.find(name); }
std::vector<Endpoint*> Transport::peers() { return impl_->core.peers.all(); }

void Transport::remove_peer(Endpoint* peer) {
  if (peer == nullptr || peer->state() == Endpoint::State::kRemoved) {
    return;
  }
  auto idle = [peer] {
    Endpoint::State state = peer->state();
    return (state != Endpoint::State::kReady && state != Endpoint::State::kConnecting) ||
           peer->link().is_idle();
  };
  impl_->progress_until(idle, kDrainLimit);
  // Held by the closing connection even if this call stops waiting for it.
  auto done = std::make_shared<std::atomic<bool>>(false);
  impl_->core.connections->close(peer, done);
  impl_->progress_until([&done] { return done->load(std::memory_order_acquire); }, kCloseLimit);
  if (Link* link = peer->link_if_any()) link->fold_counters(impl_->core.counters);
  impl_->core.peers.remove(peer);
}

void* Transport::peer_context(const Endpoint* peer) const {
  return peer->context.load(std::memory_order_acquire);
}
void Transport::set_peer_context(Endpoint* peer, void* context) {
  peer->context.store(context, std::memory_order_release);
}
ProcessName Transport::peer_name(const Endpoint* peer) const { return peer->name(); }

}  // namespace roce::transport

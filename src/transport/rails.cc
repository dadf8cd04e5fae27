#include "transport/rails.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>

#include "transport/device_filter.h"
#include "verbs/locality.h"

namespace roce::transport {
namespace {

/// Hands the first UDP port to the soft device, whose other settings come from the environment.
void configure_soft(const Params& params) {
  if (params.first_port_slot == 0) {
    return;
  }
  soft::Options options = soft::options_from_environment();
  options.first_slot = params.first_port_slot;
  soft::configure(options);
}

std::vector<verbs::Candidate> usable(const Params& params, const verbs::Table& table,
                                     std::vector<std::string>& refusals) {
  const verbs::Table* tables[] = {&table};
  verbs::Discovery found = verbs::discover(tables, true);
  for (const verbs::Refusal& refusal : found.refusals) {
    refusals.push_back(refusal.reason);
  }
  filter_candidates(params, found.candidates, refusals);
  verbs::rank_candidates(found.candidates);
  return std::move(found.candidates);
}

bool is_loopback(const verbs::Candidate& candidate) {
  return verbs::gid_kind(candidate.gids.front().bytes) == verbs::GidKind::kLoopback;
}

/// At most kMaxRails; the one that reaches processes of this host stays in.
void limit(std::vector<verbs::Candidate>& candidates, std::vector<std::string>& refusals) {
  std::stable_partition(candidates.begin(), candidates.end(),
                        [](const auto& candidate) { return !is_loopback(candidate); });
  while (candidates.size() > kMaxRails) {
    auto last = candidates.end() - (is_loopback(candidates.back()) ? 2 : 1);
    refusals.push_back(last->device + " is left out: " + std::to_string(kMaxRails) +
                       " devices are used; parameter if_include chooses which.");
    candidates.erase(last);
  }
}

Status none_usable(const Params& params, bool named_by_user,
                   const std::vector<std::string>& refusals) {
  std::string text = "no usable RoCE device:";
  for (const std::string& refusal : refusals) {
    text += "\n  " + refusal;
  }
  if (params.soft == "off") {
    text += "\n  The software device is off (parameter soft = off); set it to on or auto.";
  } else if (params.soft == "auto" && !named_by_user) {
    text +=
        "\n  The software device is used only if roce is named (--mca btl roce,self) or parameter "
        "soft = on.";
  }
  return {Code::kUnavailable, text};
}

}  // namespace

Result<Rails> Rails::open(const Params& params, const Options& options, const Hooks& hooks) {
  Rails rails;
  rails.mixed_ = params.mixed != 0;
  bool before_threads = options.before_threads != nullptr;
  std::vector<const verbs::Table*> tables;
  if (params.soft != "on") {
    tables.push_back(&verbs::system_table());
  }
  if (params.soft == "on" || (params.soft == "auto" && options.named_by_user)) {
    configure_soft(params);
    tables.push_back(hooks.soft_table != nullptr ? hooks.soft_table : &verbs::soft_table());
  }
  // The first table with a port that opens is used: hardware and software do not share a process's
  // traffic.
  for (const verbs::Table* table : tables) {
    std::vector<verbs::Candidate> candidates = usable(params, *table, rails.refusals_);
    limit(candidates, rails.refusals_);
    if (before_threads && !candidates.empty()) {
      options.before_threads(options.context);
      before_threads = false;
    }
    for (const verbs::Candidate& candidate : candidates) {
      auto rail = Rail::open(params, candidate, static_cast<int>(rails.rails_.size()));
      if (rail) {
        rails.rails_.push_back(std::move(rail.value()));
      } else {
        rails.refusals_.push_back(rail.status().text());
      }
    }
    if (!rails.rails_.empty()) {
      return rails;
    }
  }
  return none_usable(params, options.named_by_user, rails.refusals_);
}

namespace {

/// Verbs access bits. Only what remote writers need forces local write access: pages that the
/// program may only read must register as the source of gets and puts.
int verbs_access(unsigned access, bool has_atomics) {
  int bits = 0;
  if ((access & kRemoteRead) != 0) bits |= IBV_ACCESS_REMOTE_READ;
  if ((access & kRemoteWrite) != 0) bits |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
  if ((access & kLocalWrite) != 0) bits |= IBV_ACCESS_LOCAL_WRITE;
  if ((access & kRemoteAtomic) != 0) {
    bits |= IBV_ACCESS_LOCAL_WRITE | (has_atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
  }
  return bits;
}

}  // namespace

Status Rails::register_memory(void* base, size_t bytes, unsigned access, Registration* out) const {
  *out = {};
  out->base = base;
  out->bytes = bytes;
  for (size_t i = 0; i < rails_.size(); ++i) {
    Rail& rail = *rails_[i];
    errno = 0;
    ibv_mr* region =
        rail.table().reg_mr(rail.pd.get(), base, bytes, verbs_access(access, rail.has_atomics));
    if (region == nullptr) {
      int error = errno;
      deregister_memory(out);
      Status failed =
          verbs::call_failed(rail.name(), "reg_mr(" + std::to_string(bytes) + " bytes)", error,
                             error == ENOMEM ? verbs::memlock_remedy(rail.table(), bytes) : "");
      bool lacking = error == ENOMEM || error == EAGAIN;
      return {lacking ? Code::kOutOfResources : Code::kInvalidArgument, failed.text()};
    }
    out->regions[i] = region;
    out->handle.rkey[i] = region->rkey;
  }
  return Status::ok();
}

void Rails::deregister_memory(Registration* registration) const {
  for (size_t i = 0; i < rails_.size(); ++i) {
    if (registration->regions[i] != nullptr) {
      rails_[i]->table().dereg_mr(static_cast<ibv_mr*>(registration->regions[i]));
      registration->regions[i] = nullptr;
    }
  }
}

namespace {

std::vector<verbs::Gid> gids_of(const RailAddress& rail) {
  std::vector<verbs::Gid> out;
  for (const GidAddress& address : rail.gids) {
    verbs::Gid gid;
    gid.bytes = address.gid;
    gid.type = static_cast<verbs::GidType>(address.type);
    gid.prefix_length = address.prefix_length;
    out.push_back(gid);
  }
  return out;
}

const char* kind_text(uint8_t device_kind) {
  return device_kind == 0 ? "an RDMA device" : "the software device";
}

std::string different_kinds(const RailAddress& own, const RailAddress& peer) {
  return std::string("is ") + kind_text(own.device_kind) + ", the peer uses " +
         kind_text(peer.device_kind) +
         "; set parameter soft alike (on or off) for all processes, or mixed = 1 to let the two "
         "talk.";
}

}  // namespace

Result<PathPair> Rails::select(const Address& local, const Address& peer) const {
  bool same_host = same_network_host(local, peer);
  // Loopback, where it leads to the peer, has the largest MTU; then what needs no router.
  using Rank = std::tuple<int, size_t>;
  std::optional<std::pair<Rank, PathPair>> best;
  std::string reasons;
  for (size_t i = 0; i < rails_.size(); ++i) {
    for (size_t j = 0; j < peer.rails.size(); ++j) {
      const RailAddress& own = rails_[i]->address;
      if (own.device_kind != peer.rails[j].device_kind && !mixed_) {
        reasons += "\n  " + rails_[i]->name() + " " + different_kinds(own, peer.rails[j]);
        continue;
      }
      std::vector<verbs::Gid> peer_gids = gids_of(peer.rails[j]);
      auto pair = verbs::select_gids(rails_[i]->gids, peer_gids, same_host);
      if (!pair) {
        reasons += "\n  " + rails_[i]->name() + ": " + pair.status().text();
        continue;
      }
      bool loopback =
          verbs::gid_kind(rails_[i]->gids[pair->local].bytes) == verbs::GidKind::kLoopback;
      Rank rank{loopback ? 0 : pair->same_subnet ? 1 : 2, i + j};
      if (!best || rank < best->first) {
        best = {rank, PathPair{static_cast<uint8_t>(i), static_cast<uint8_t>(pair->local),
                               static_cast<uint8_t>(j), static_cast<uint8_t>(pair->peer)}};
      }
    }
  }
  if (!best) {
    return Status(Code::kUnreachable, "no path to host " + peer.host_name + ":" + reasons);
  }
  return best->second;
}

}  // namespace roce::transport

// The rails of a process: which ports are opened, memory registered on all of them, and which pair
// of rails leads to a peer.
#ifndef ROCE_TRANSPORT_RAILS_H_
#define ROCE_TRANSPORT_RAILS_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "roce/status.h"
#include "roce/transport.h"
#include "transport/address.h"
#include "transport/connection_packet.h"
#include "transport/hooks.h"
#include "transport/params.h"
#include "transport/rail.h"

namespace roce::transport {

class Rails {
 public:
  /// kUnavailable tells, device by device, why none is usable.
  static Result<Rails> open(const Params& params, const Options& options, const Hooks& hooks);

  size_t size() const { return rails_.size(); }
  Rail& operator[](size_t index) const { return *rails_[index]; }
  auto begin() const { return rails_.begin(); }
  auto end() const { return rails_.end(); }
  /// Sentences about ports that are not used, for the log.
  const std::vector<std::string>& refusals() const { return refusals_; }

  /// Registers on every rail. access: bits of enum Access.
  Status register_memory(void* base, size_t bytes, unsigned access, Registration* out) const;
  void deregister_memory(Registration* registration) const;

  /// The best pair of rails and GIDs to a peer; kUnreachable names the addresses of both sides, or
  /// the kinds of device, if these differ and parameter mixed does not allow it.
  Result<PathPair> select(const Address& local, const Address& peer) const;

 private:
  std::vector<std::unique_ptr<Rail>> rails_;
  std::vector<std::string> refusals_;
  bool mixed_ = false;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_RAILS_H_

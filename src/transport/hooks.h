// What tests put in the place of parts of the transport. Empty in production.
#ifndef ROCE_TRANSPORT_HOOKS_H_
#define ROCE_TRANSPORT_HOOKS_H_

#include <functional>

#include "roce/transport.h"
#include "transport/connection_packet.h"
#include "verbs/table.h"

namespace roce::transport {

struct Hooks {
  const verbs::Table* soft_table = nullptr;  ///< Instead of verbs::soft_table().
  /// How many times a handshake packet about to be sent goes out: 0 drops it, 2 duplicates it.
  std::function<int(const ConnectionPacket&)> copies_sent;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_HOOKS_H_

// What the parts of one transport share.
//
// Locks, in the order in which they may be held together: poll lock (progress), an endpoint's lock,
// then the short ones (events, fragment pool, receive pool, get scheduler, the connection thread's
// commands). None is held across a callback. Two endpoints' locks are never held together.
#ifndef ROCE_TRANSPORT_CORE_H_
#define ROCE_TRANSPORT_CORE_H_

#include <atomic>
#include <memory>
#include <string>

#include "roce/transport.h"
#include "transport/address.h"
#include "transport/connection_state.h"
#include "transport/counters.h"
#include "transport/events.h"
#include "transport/fragment_pool.h"
#include "transport/hooks.h"
#include "transport/params.h"
#include "transport/peer_table.h"
#include "transport/rails.h"

namespace roce::transport {

class ConnectionThread;
class Poller;

struct Core {
  Core(const Params& params_in, const Options& options_in, const Hooks& hooks_in, Rails rails_in);
  ~Core();

  /// One line for the adapter's log, written by the next progress().
  void log(int verbosity, std::string text);

  const Params params;
  const Options options;
  const Hooks hooks;
  Rails rails;  ///< Before all that is registered on them.
  Limits limits;
  Address address;  ///< As published.
  std::vector<uint8_t> blob;
  LocalProcess local;  ///< For the handshake.
  Counters counters;
  EventQueue events;
  std::unique_ptr<FragmentPool> fragments;
  PeerTable peers;
  Poller* poller = nullptr;  ///< Outlives the connection thread.
  std::unique_ptr<ConnectionThread> connections;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_CORE_H_

// The one thread that makes and ends connections.
//
// It sleeps on the control queues' completion channels, a wake-up eventfd and the handshake's
// timers, so a process that computes still accepts. It runs a ConnectionState per peer and carries
// out what that asks for; calls that may block go to helper threads, and a peer whose call is under
// way holds up no other.
#ifndef ROCE_TRANSPORT_CONNECTION_THREAD_H_
#define ROCE_TRANSPORT_CONNECTION_THREAD_H_

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "roce/status.h"
#include "transport/connection_state.h"
#include "transport/control_port.h"
#include "transport/core.h"
#include "transport/helpers.h"

namespace roce::transport {

class ConnectionThread {
 public:
  static Result<std::unique_ptr<ConnectionThread>> start(Core& core);
  ~ConnectionThread();
  /// Ends the thread. Before Core::connections is cleared: what it polls may still call that.
  void stop();

  // ---- any thread; none of these waits ----
  void connect(Endpoint* endpoint);
  /// The queue pair has failed: destroys it and settles what it held.
  void tear_down(Endpoint* endpoint);
  /// A message came from a peer that has not said that it is ready.
  void data_received(Endpoint* endpoint);
  /// Something waits for the peer or the device: it shall go on though nobody calls progress.
  void watch();
  /// Says goodbye and settles everything; then `*done` becomes true.
  void close(Endpoint* endpoint, std::shared_ptr<std::atomic<bool>> done);

 private:
  /// The connection of one peer; this thread's alone.
  struct Connection {
    Connection(const LocalProcess* local, Endpoint* peer, ProcessName name)
        : endpoint(peer), state(local, name) {}
    Endpoint* endpoint;
    ConnectionState state;
    std::list<ConnectionState::Action> actions;  ///< Popped, waiting for the job under way.
    bool job_running = false;
    Rail* rail = nullptr;   ///< Counted there as a peer.
    RailAddress peer_rail;  ///< Of the path prepared last, with
    GidAddress peer_gid;    ///< the GID in use: the endpoint's address may be replaced meanwhile.
    verbs::QueuePair qp;
    verbs::AddressHandle ah;
    uint64_t resent_before = 0;
    TimeNs timer = kNever;
    bool tear_down_wanted = false;
    std::shared_ptr<std::atomic<bool>> done;
  };

  /// A queue pair whose peer has said goodbye.
  struct Closed {
    Connection* connection;
    uint64_t drained_before;  ///< Rail::drained at the goodbye.
  };

  explicit ConnectionThread(Core& core) : core_(core) {}
  void run();
  /// Bit i: the control port of rail i has something.
  uint32_t wait_for_work();
  void post(std::function<void()> command);
  void run_commands();
  void run_timers();
  Connection& connection_of(Endpoint* endpoint);
  void handle_async_event(Rail& rail);  // async_events.cc
  void retire(verbs::AddressHandle handle);

  // watch.cc
  TimeNs next_look() const;  ///< kNever: nothing to look after.
  void look_after_waiting(TimeNs now);
  void keep_until_drained(Connection& connection);
  void release_closed();

  // connection_actions.cc
  void run_actions(Connection& connection);
  void carry_out(Connection& connection, const ConnectionState::Action& action);
  void prepare(Connection& connection, const PathPair& path);
  Result<Offer> make_queue_pair(Connection& connection, const PathPair& path);
  void establish(Connection& connection);
  void send(Connection& connection, ConnectionPacket packet);
  void fail(Connection& connection, Code code, const std::string& reason);
  void reset(Connection& connection);
  void drop_queue_pair(Connection& connection);
  void finish_close(Connection& connection);

  // connection_packets.cc
  void handle_received(Rail& rail, const ControlPort::Received& received);
  Status check_packet(const ConnectionPacket& packet) const;
  Result<Address> check_request(const Rail& rail, const ConnectionPacket& packet) const;
  void refuse(Rail& rail, const ControlPort::Received& received, const ConnectionPacket& packet,
              const std::string& reason);

  Core& core_;
  Helpers helpers_;
  int wake_fd_ = -1;
  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;  ///< Guarded by mutex_.
  std::atomic<bool> stopping_{false};
  std::map<Endpoint*, std::unique_ptr<Connection>> connections_;
  std::set<std::pair<TimeNs, Connection*>> timers_;
  std::deque<verbs::AddressHandle> retired_;
  std::atomic<bool> watching_{false};
  TimeNs last_look_ = 0, look_period_ = 0;
  uint64_t polls_seen_ = 0;
  std::vector<Closed> closed_;
  uint64_t next_connection_id_ = 1;
  int refusals_under_way_ = 0;
  std::thread thread_;
};

/// Of the clock the handshake runs on.
TimeNs monotonic_ns();

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_CONNECTION_THREAD_H_

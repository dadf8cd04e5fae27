// What all software devices of a process share: sockets, queue pair numbers, memory keys, timers,
// and the progress lock that whoever moves packets holds.
//
// Progress: threads that post or poll try the lock; the one that gets it takes up what others
// posted, reads the socket, runs timers, and sends. Nobody waits for it except control calls. A
// thread that posts without getting the lock has raised its queue pair's flag before it tried, and
// every holder looks at the flags after letting go, so nothing stays behind. The service thread
// (service_thread.h) is one more caller that tries the lock.
#ifndef ROCE_SOFT_PROCESS_H_
#define ROCE_SOFT_PROCESS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "soft/memory_table.h"
#include "soft/objects.h"
#include "soft/post_batching.h"
#include "soft/receive_shares.h"
#include "soft/service_thread.h"
#include "soft/timer_heap.h"
#include "soft/udp_port.h"

namespace roce::soft {

class Process {
 public:
  /// Events that neither the engine nor the sockets count.
  enum class Count : int {
    kBadPacket,  ///< Not a RoCE v2 packet: too short, unknown opcode, bad version or pad.
    kUnknownQp,  ///< No queue pair of that number.
    kWrongPeer,  ///< Source address is not the queue pair's peer, or destination not its own.
    kBadIcrc,
    kBadHello,  ///< A HELLO or ANSWER that concerns no connection, or something else sent there.
    kPlacementFault,  ///< A receive or READ buffer was deregistered before its data came.
    kCqOverruns,
    kLockMisses,    ///< Polls that found the progress lock taken.
    kServiceWakes,  ///< Rounds of the service thread.
    kDisarms,       ///< Times that polling threads took the socket over from the service thread.
    kHellos,
    kGrants,      ///< Taken from peers, see receive_shares.h.
    kAgreements,  ///< Connections whose peer has told by HELLO or ANSWER what it can do.
    kCount
  };

  static Process& instance() {
    Process* process = instance_.load(std::memory_order_acquire);
    return process != nullptr ? *process : create();
  }
  /// nullptr, with errno EIO, in a child after fork.
  static Process* usable() {
    if (forked_.load(std::memory_order_relaxed)) [[unlikely]] {
      return refuse();
    }
    return &instance();
  }

  static bool exists() { return instance_.load(std::memory_order_acquire) != nullptr; }

  Process(const Process&) = delete;

  // ---- set-up ----

  /// Opens the sockets if they are not open. The status tells who holds the port and what to do.
  Status open_sockets();
  /// Starts the service thread if it does not run; 0 or errno.
  int start_service() { return service_.start(*this); }
  void arm_service() { service_.arm(); }
  void set_options(const Options& options);
  Options options();

  std::mutex& devices_mutex() { return devices_mutex_; }
  std::vector<Device*>& devices() { return devices_; }  ///< Never freed; guarded by devices_mutex.
  std::vector<Context*>& contexts() { return contexts_; }  ///< Open ones; guarded by devices_mutex.
  /// Reads the interfaces again after the change monitor spoke.
  void refresh_devices();

  // ---- progress ----

  /// What polling an empty completion queue does.
  int poll();
  /// After a queue pair's ring got a request: sends at once if nobody else holds the lock.
  void posted(Qp& qp);
  /// The service thread's round. False: somebody else holds the lock. next: when it has to come
  /// again.
  bool service_round(engine::TimeNs* next);
  /// Blocks until it has taken one event off the event descriptor, and watches the socket meanwhile
  /// if that saves a thread (event_wait.cc). False with errno as take_event_fd gives it.
  bool wait_for_event(int event_fd);

  bool try_enter();
  void enter();  ///< Waits for the lock; for control calls.
  bool enter_within(std::chrono::milliseconds limit);
  void leave();

  // ---- for the holder of the lock ----

  UdpPort* udp() { return udp_.get(); }
  MemoryTable& memory() { return memory_; }
  static engine::TimeNs now();
  /// 0 or ENOMEM.
  int add_queue_pair(Qp& qp);
  void remove_queue_pair(Qp& qp);
  Qp* find_queue_pair(uint32_t qpn) const;
  /// Memory of the queue pair, living or destroyed, that has held most; without receive requests
  /// and kept packets.
  size_t most_queue_pair_bytes() const;
  /// Hands posted requests of the queue pair to the engine.
  void take_up(Qp& qp, engine::TimeNs now);
  /// After any engine call: completions, events, state; sends and timers follow with the batch.
  void settle(Qp& qp);
  void touch(Qp& qp);
  /// The queue pair has a route no longer.
  void disconnect(Qp& qp);
  /// Everything that is due, without reading the socket.
  void drive(engine::TimeNs now);
  /// Sends pending acknowledgements of this queue pair, or of all, whatever their deferral.
  void flush_acks(Qp* only);

  void count(Count which) {
    counts_[static_cast<int>(which)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t counted(Count which) const {
    return counts_[static_cast<int>(which)].load(std::memory_order_relaxed);
  }
  ServiceThread& service() { return service_; }

  // ---- for the service thread ----
  /// When a thread of the program read the socket last.
  engine::TimeNs last_look_seen() const { return last_look_seen_.load(std::memory_order_relaxed); }
  int receive_fd() const { return receive_fd_.load(std::memory_order_acquire); }
  int blocked_fd() const { return blocked_fd_.load(std::memory_order_acquire); }

  // ---- process end (process.cc) ----
  void after_fork_in_child();
  void at_exit();

 private:
  Process();
  static Process& create();
  static Process* refuse();

  static inline std::atomic<Process*> instance_{nullptr};
  static inline std::atomic<bool> forked_{false};

  // progress.cc
  void raise_flag(Qp& qp);
  void take_up_flagged(engine::TimeNs now);
  void run_timers(engine::TimeNs now);
  void note_look(engine::TimeNs now);
  void note_poll(engine::TimeNs now);
  engine::TimeNs next_deadline() const;
  engine::TimeNs look_unpolled(engine::TimeNs time);
  bool guest_round(engine::TimeNs* next);
  // event_wait.cc
  bool watch_as_guest(int event_fd);
  // transmit.cc
  void transmit(engine::TimeNs now);
  bool transmit_burst(Qp& qp, engine::TimeNs now);
  bool send_packet(Qp& qp, const engine::OutPacket& packet, engine::TimeNs now);
  // receive.cc
  int receive_batch(engine::TimeNs now);
  void receive_packet(const ReceivedBuffer& buffer, uint32_t index, engine::TimeNs now);
  void receive_for_process(const ReceivedBuffer& buffer, uint32_t index, const wire::Parsed& parsed,
                           std::span<const uint8_t> payload);
  bool accept_flow(const Qp& qp, const wire::Flow& flow) const;
  void handle(Qp& qp, const wire::Header& header, std::span<const uint8_t> payload, bool marked,
              const ReceivedBuffer& buffer, engine::TimeNs now);
  void keep(Qp& qp, engine::Keep kind, const wire::Header& header,
            std::span<const uint8_t> payload);
  void handle_kept(Qp& qp, const ReceivedBuffer& buffer, engine::TimeNs now);
  bool place_datagram(Qp& qp, const engine::Placement& placement, const uint8_t* payload,
                      const ReceivedBuffer& buffer);
  void carry_out(Qp& qp, const engine::Effects& effects, const wire::Header& header,
                 const uint8_t* payload, const ReceivedBuffer& buffer);

  // The lock's line is shared by all threads; what the holder uses lies behind it.
  alignas(64) std::atomic<bool> locked_{false};
  std::atomic<uint32_t> control_waiters_{0};
  int cancel_state_ = 0;                     ///< The holder's, from before it got the lock.
  std::atomic<bool> service_inside_{false};  ///< The service thread holds the lock.
  alignas(64) std::atomic<Qp*> flagged_{nullptr};

  alignas(64) std::unique_ptr<UdpPort> udp_;
  MemoryTable memory_;
  std::vector<uint8_t> repeated_;  ///< [P] Payload of a response that is sent again.
  KeptBudget kept_budget_;
  ReceiveShares shares_;
  TimerHeap timers_;
  std::vector<Qp*> touched_;
  std::vector<Qp*>
      sent_datagrams_;  ///< UD queue pairs whose packets are in the batch; may stand twice.
  std::vector<Qp*> queue_pairs_;  ///< By the low 14 bits of the number.
  uint32_t queue_pair_count_ = 0;
  size_t most_queue_pair_bytes_ = 0;  ///< Of those destroyed.
  bool blocked_ = false;              ///< A socket's buffer is full: packets wait in UdpPort.
  std::atomic<int> receive_fd_{-1};
  std::atomic<int> blocked_fd_{-1};
  PostBatching batching_;
  engine::TimeNs last_poll_ = 0;    ///< Of a completion queue.
  engine::TimeNs last_look_ = 0;    ///< Into the socket, by a poll or in a burst of posts.
  engine::TimeNs polls_since_ = 0;  ///< Start of the span whose polls are counted.
  uint32_t polls_ = 0;
  std::atomic<engine::TimeNs> last_look_seen_{0};  ///< For the service thread's tick.
  std::atomic<int> event_waiters_{0};              ///< Threads in wait_for_event.

  std::array<std::atomic<uint64_t>, static_cast<int>(Count::kCount)> counts_{};
  ServiceThread service_;

  std::mutex setup_mutex_;
  Options options_;
  bool options_set_ = false;
  bool options_used_ = false;
  bool sockets_open_ = false;
  std::mutex devices_mutex_;
  std::vector<Device*> devices_;
  std::vector<Context*> contexts_;
};

/// Progress lock for control calls.
class ProgressLock {
 public:
  explicit ProgressLock(Process& process) : process_(process) { process_.enter(); }
  ~ProgressLock() { process_.leave(); }
  ProgressLock(const ProgressLock&) = delete;
  ProgressLock& operator=(const ProgressLock&) = delete;

 private:
  Process& process_;
};

/// Data path of the context's operation table.
int poll_cq(ibv_cq* cq, int count, ibv_wc* out);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

}  // namespace roce::soft

#endif  // ROCE_SOFT_PROCESS_H_

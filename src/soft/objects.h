// The objects behind the verbs handles. Each derives from the public structure, so that a handle
// converts by static_cast; all are made and freed by the functions of soft.h.
//
// Locks, in the order in which they may be taken:
//   the progress lock (process.h), then one of: a ring's lock, a CQ's lock, a device's, channel's
//   or event queue's mutex.
// Data that only the holder of the progress lock touches is marked [P].
#ifndef ROCE_SOFT_OBJECTS_H_
#define ROCE_SOFT_OBJECTS_H_

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/queue_pair.h"
#include "engine/receive_queue.h"
#include "soft/agreement.h"
#include "soft/interfaces.h"
#include "soft/kept_packets.h"
#include "soft/memory_table.h"
#include "soft/receive_shares.h"
#include "soft/soft.h"
#include "soft/spinlock.h"
#include "soft/timer_heap.h"
#include "soft/udp_port.h"
#include "soft/work_ring.h"

namespace roce::soft {

inline constexpr int kGidTableLength = 32;
inline constexpr uint32_t kMaxInlineBytes = 512;
inline constexpr uint32_t kMaxSge = 32;
inline constexpr uint32_t kMaxWorkRequests = 32768;
inline constexpr uint32_t kMaxCqEntries = 1u << 20;
inline constexpr int kMaxDomains = 1 << 15;
inline constexpr int kMaxCompletionQueues = 1 << 15;  ///< Two for each queue pair.
inline constexpr int kMaxAddressHandles = 1 << 16;
inline constexpr int kMaxSharedReceiveQueues = 1 << 14;
inline constexpr uint8_t kMaxRdAtomicAttribute = 128;
inline constexpr uint32_t kQpnSoftBit = 1u << 23;
inline constexpr uint32_t kQpnSlotShift = 14;
inline constexpr uint32_t kQpnIndexMask = (1u << kQpnSlotShift) - 1;
inline constexpr uint32_t kMaxQueuePairs = kQpnIndexMask;  ///< Index 0 is kept, see hello_qpn_of.
/// Largest RC segment between soft devices that agreed: four of them and their headers fill a
/// train.
inline constexpr uint32_t kMaxSoftMtu = 16128;
/// Traffic class of data where the program names none: DSCP 26, ECT(0).
inline constexpr uint8_t kDefaultTrafficClass = 106;

struct Context;
struct Qp;
struct Cq;

/// How many objects of a kind a device has, against what query_device reports. For any thread.
class Quota {
 public:
  explicit Quota(int limit) : limit_(limit) {}
  /// False: the limit is reached.
  bool take() {
    if (used_.fetch_add(1, std::memory_order_relaxed) < limit_) return true;
    give();
    return false;
  }
  void give() { used_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  const int limit_;
  std::atomic<int> used_{0};
};

struct Device : ibv_device {
  /// Some vendor libraries look behind the public part of any ibv_device; they must find zeros.
  uint8_t padding[512];
  uint32_t ifindex = 0;
  std::string interface_name;
  uint64_t guid = 0;  ///< Network byte order.
  std::mutex mutex;   ///< Guards state and gids.
  Interface state;
  std::array<ibv_gid, kGidTableLength>
      gids;                   ///< Zero: free. A GID keeps its index while it exists.
  engine::Counters counters;  ///< [P]
  Quota domains{kMaxDomains};
  Quota completion_queues{kMaxCompletionQueues};
  Quota address_handles{kMaxAddressHandles};
  Quota shared_receive_queues{kMaxSharedReceiveQueues};

  Device() : ibv_device{}, padding{}, gids{} {}
};

/// Asynchronous events of a context: a queue and the descriptor that counts it.
struct AsyncQueue {
  std::mutex mutex;
  std::deque<ibv_async_event> events;
};

struct Context : verbs_context {
  Device* device_state = nullptr;
  AsyncQueue async;
  std::atomic<int> users{0};  ///< Objects that keep close_device from succeeding.

  Context() : verbs_context{} {}
};

struct Channel : ibv_comp_channel {
  std::mutex mutex;
  std::deque<Cq*> waiting;  ///< CQs with pending events, each once.
  std::atomic<int> users{0};

  Channel() : ibv_comp_channel{} {}
};

struct Ah : ibv_ah {
  Route route;  ///< Without a destination port: that depends on the queue pair number.
  /// [P] One per destination port used so far; they keep their place, as trains refer to them.
  std::vector<std::unique_ptr<Route>> routes;

  Ah() : ibv_ah{} {}
};

struct Pd : ibv_pd {
  std::atomic<int> users{0};
  std::unique_ptr<RegionAccess> access;  ///< The engine's view of the regions of this domain.
  std::vector<Qp*> datagram_qps;         ///< [P] Its UD queue pairs.
  /// [P] Destroyed handles that a queued work request may still name.
  std::vector<std::unique_ptr<Ah>> retired_handles;

  Pd() : ibv_pd{} {}
};

struct Mr : ibv_mr {
  Region region;

  Mr() : ibv_mr{} {}
};

struct Cq : ibv_cq_ex {
  engine::IndexRing<ibv_wc> ring;             ///< Grows with what is not polled, up to cqe.
  alignas(64) std::atomic<uint32_t> head{0};  ///< Written by the progress holder only.
  std::atomic<int> armed{0};                  ///< 0: no, 1: solicited completions only, 2: any.
  bool overflowed = false;                    ///< [P]
  alignas(64) std::atomic<uint32_t> tail{0};
  Spinlock poll_lock;  ///< Guards tail and, against resizing, the ring.
  std::atomic<int> users{0};
  uint32_t pending_events = 0;        ///< Guarded by the channel's mutex.
  uint32_t comp_events_reported = 0;  ///< Guarded by ibv_cq_ex::mutex, as the next.
  uint32_t async_events_reported = 0;
  ibv_wc current{};           ///< Extended polling.
  bool timestamps = false;    ///< The program asked for them.
  uint64_t polled_at_ns = 0;  ///< When `current` was taken, if so.

  Cq() : ibv_cq_ex{} {}
};

/// A receive queue: of one queue pair or shared.
struct ReceiveState {
  ReceiveRing ring;
  std::unique_ptr<engine::ReceiveQueue> queue;  ///< [P]
};

struct Srq : ibv_srq {
  ReceiveState receive;
  uint32_t limit = 0;  ///< [P]
  std::atomic<int> users{0};
  uint32_t events_reported = 0;  ///< Guarded by ibv_srq::mutex.

  Srq() : ibv_srq{} {}
};

/// Work requests between ibv_wr_start and ibv_wr_complete (work_request_api.cc).
struct SendBatch {
  /// Held from ibv_wr_start to ibv_wr_complete or ibv_wr_abort, and taken by ibv_post_send before
  /// the ring's lock. Guards the rest, except `operations`, which never changes.
  Spinlock lock;
  uint64_t operations = 0;                     ///< IBV_QP_EX_WITH_... as asked for at creation.
  std::atomic<const void*> composer{nullptr};  ///< Identifies the thread that holds the lock.
  int error = 0;                               ///< The first one of the batch.
  uint32_t staged = 0;                         ///< Requests behind the ring's head.
  bool building = false;                       ///< `request` has been begun.
  bool addressed = false;                      ///< UD: it has its address handle.
  bool has_data = false;                       ///< It has its scatter list or inline data.
  ibv_send_wr request{};
  std::vector<ibv_sge> sges;          ///< As many as a request may have.
  std::vector<uint8_t> inline_bytes;  ///< The same.
};

struct Qp : ibv_qp {
  /// The rest of ibv_qp_ex: programs that asked for ibv_wr_ calls use the handle as one.
  alignas(ibv_qp_ex) std::byte extension[sizeof(ibv_qp_ex) - sizeof(ibv_qp)]{};
  uint64_t library_masks[2] = {};  ///< For ibv_qp_to_qp_ex; must follow at once.

  // What posting threads use.
  std::atomic<uint8_t> posting_state{IBV_QPS_RESET};  ///< Mirror of the engine's state.
  std::atomic<uint32_t> max_datagram{0};              ///< UD: largest message.
  bool signal_all = false;
  SendRing sends;
  std::unique_ptr<SendBatch> batch;  ///< If ibv_wr_ calls were asked for.
  ReceiveState own_receive;          ///< Unused with an SRQ.
  std::atomic<bool> flagged{false};
  Qp* next_flagged = nullptr;

  // What the progress holder uses. [P]
  std::unique_ptr<engine::QueuePair> engine;
  std::unique_ptr<KeptPackets> kept;  ///< Made when the first packet comes before its turn.
  ReceiveState* receive = nullptr;
  Route route;  ///< RC.
  bool routed = false;
  bool peer_soft = false;
  bool touched = false;
  TimerHeap::Entry timer{this};
  uint8_t packet_type = 0;  ///< UD: ibv_wc.sl of the datagram that is being handled.
  PeerHints hints;          ///< If hinted: what is known of the peer.
  bool hinted = false;
  Agreement agreement;
  ReceiveShare share;
  bool draining = false;        ///< In SQD, and requests that were begun are not finished.
  bool notify_drained = false;  ///< The program asked for IBV_EVENT_SQ_DRAINED.
  ibv_qp_attr attributes{};     ///< As last set by modify.
  ibv_qp_init_attr init{};

  uint32_t async_events_reported = 0;  ///< Guarded by ibv_qp::mutex.

  Qp() : ibv_qp{} {}
};

inline Device* device_of(ibv_device* device) { return static_cast<Device*>(device); }
inline Context* context_of(ibv_context* context) {
  return static_cast<Context*>(verbs_get_ctx(context));
}
inline Channel* channel_of(ibv_comp_channel* channel) { return static_cast<Channel*>(channel); }
inline Pd* pd_of(ibv_pd* pd) { return static_cast<Pd*>(pd); }
inline Mr* mr_of(ibv_mr* mr) { return static_cast<Mr*>(mr); }
inline Srq* srq_of(ibv_srq* srq) { return static_cast<Srq*>(srq); }
inline Qp* qp_of(ibv_qp* qp) { return static_cast<Qp*>(qp); }
inline Ah* ah_of(ibv_ah* ah) { return static_cast<Ah*>(ah); }
/// ibv_cq is by the rules of verbs.h the beginning of ibv_cq_ex.
inline Cq* cq_of(ibv_cq* cq) { return static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline ibv_cq* to_verbs(Cq* cq) { return ibv_cq_ex_to_cq(cq); }

// ---- events (events.cc) ----

/// Queues an event for get_async_event. `event.element` decides which object waits for its
/// acknowledgement.
void raise_async_event(Context& context, const ibv_async_event& event);
/// Drops the queued events of an object that goes away.
void drop_async_events(Context& context, const void* object);
/// Queues a completion event of a CQ that has a channel.
void raise_completion_event(Cq& cq);

// ---- completion queue (completion_queue.cc) ----

/// By the progress holder. solicited: wakes a CQ armed for solicited completions too.
void push_completion(Cq& cq, const ibv_wc& completion, bool solicited);
/// Removes the completions of a queue pair; by the progress holder.
void remove_completions(Cq& cq, uint32_t qpn);

// ---- devices (device.cc) ----

/// GID and port number checks of an address vector, and the route that it stands for; EINVAL if
/// malformed. Does not touch sockets.
int resolve_route(Context& context, const ibv_ah_attr& attributes, Route& route);
/// Reads interface state and addresses again; true if something that programs are told of changed.
bool refresh_device(Device& device, bool* running, bool* state_changed, bool* gids_changed);
/// Largest RC segment that the device takes from another soft device: IP, UDP and the longest
/// headers fit into the interface's MTU beside it.
uint32_t largest_segment(Device& device);
/// The handle's route to the process of a queue pair number.
Route& route_towards(Ah& ah, uint32_t qpn);
/// Before the handle is freed.
void forget_routes(UdpPort& udp, const Ah& ah);
/// UDP port of the process that a queue pair number names: by its slot if it may be a soft
/// device's, else 4791.
uint16_t port_of_qpn(uint32_t qpn);
/// The number that the process of a slot keeps for HELLOs.
constexpr uint32_t hello_qpn_of_slot(uint32_t slot) { return kQpnSoftBit | slot << kQpnSlotShift; }
constexpr uint32_t hello_qpn_of(uint32_t qpn) { return qpn & ~kQpnIndexMask; }  ///< Of its process.
bool is_link_local(const uint8_t gid[16]);

}  // namespace roce::soft

#endif  // ROCE_SOFT_OBJECTS_H_

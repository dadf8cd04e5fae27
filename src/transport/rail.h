// One opened port: its verbs objects, receive pool, control queue pair and addresses.
#ifndef ROCE_TRANSPORT_RAIL_H_
#define ROCE_TRANSPORT_RAIL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "roce/status.h"
#include "transport/address.h"
#include "transport/control_port.h"
#include "transport/get_turns.h"
#include "transport/params.h"
#include "transport/receive_pool.h"
#include "verbs/discovery.h"
#include "verbs/objects.h"

namespace roce::transport {

/// A byte of payload in large datagrams costs about this much of a receive budget (kernel
/// truesize).
inline constexpr uint32_t kTruesizePerByte = 2;

class Rail {
 public:
  static Result<std::unique_ptr<Rail>> open(const Params& params, const verbs::Candidate& candidate,
                                            int index);

  /// Receive pool, and room in the completion queue for one more peer; connection thread only.
  Status add_peer(const Params& params, uint32_t max_message_bytes);
  void remove_peer(const Params& params);
  /// An RC queue pair of this rail in INIT.
  Result<verbs::QueuePair> create_queue_pair() const;

  /// Messages that each peer may have unconsumed here, so that all together fit the pool.
  uint16_t grant() const { return grant_.load(std::memory_order_relaxed); }

  const verbs::Table& table() const { return context.table(); }
  const std::string& name() const { return name_; }  ///< "rocesw0:1".

  // In the order of creation: destroyed in the reverse one.
  verbs::Context context;
  verbs::ProtectionDomain pd;
  verbs::CompletionQueue cq;  ///< Of data; polled by progress.
  ReceivePool receives;
  ControlPort control;

  int index = 0;  ///< In this process's address blob.
  uint8_t port = 1;
  std::string netdev;
  std::vector<verbs::Gid> gids;  ///< In the order of address.gids.
  RailAddress address;
  verbs::PeerHints hints;
  uint32_t inline_bytes = 0;      ///< What a send can carry inline.
  uint32_t send_queue_depth = 0;  ///< Of each peer's queue pair.
  uint64_t max_operation_bytes = 0;
  uint16_t reads_as_origin = 1, reads_as_target = 1;
  bool has_atomics = false;
  bool atomics_with_cpu = false;    ///< They are atomic against the CPU's.
  uint32_t chunk_bytes = 65536;     ///< Of gets and puts.
  std::atomic<bool> active{false};  ///< Has or had a peer: must be polled.
  GetTurns gets;
  std::atomic<uint64_t> drained{0};  ///< Polls that left nothing in `cq`; counted by the poller.

 private:
  Status open_objects(const Params& params, const verbs::Candidate& candidate);
  Status query(const Params& params, const verbs::Candidate& candidate);
  Status probe_inline(const Params& params);
  void fill_address(const Params& params, const verbs::Candidate& candidate);

  std::string name_;
  int wanted_cqe(uint32_t peers) const;
  Status open_receives(uint32_t bytes);
  void update_grant(const Params& params);

  int max_cqe_ = 0;
  uint32_t receive_count_ = 0;
  uint32_t peers_ = 0;  ///< Connection thread only.
  std::atomic<uint16_t> grant_{2};
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_RAIL_H_

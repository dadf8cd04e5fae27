// How the receive memory of this process is shared among those that send to it.
//
// A kernel's receive buffer is small, and what does not fit is dropped. As long as one or two peers
// send, each may fill half of the budget (UdpPort::receive_budget_bytes, half of what the kernel
// takes); with more the share shrinks, by powers of two, so that the windows of all stay below what
// the kernel takes. Senders that take GRANTs are told; READ responses, which this process asks for
// by itself, keep to the share too. A peer counts from its first payload until it has sent none for
// a while: who begins later may overflow the buffer once, and loss recovery is there for it.
// Everything here is called by the holder of the progress lock.
#ifndef ROCE_SOFT_RECEIVE_SHARES_H_
#define ROCE_SOFT_RECEIVE_SHARES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/types.h"

namespace roce::soft {

struct Qp;
class Process;

/// Of one queue pair.
struct ReceiveShare {
  static constexpr uint32_t kFewest = 2;

  engine::TimeNs data_at = 0;  ///< Its last payload.
  uint32_t divisor = kFewest;  ///< The peer was told that it shares with so many.
  bool counted = false;

  /// What the peer is to take for the whole: it uses half of it.
  uint32_t budget(uint32_t whole) const {
    // The quarter that is left: the kernel may not have noticed yet that it is free.
    return static_cast<uint32_t>(std::min<uint64_t>(whole, uint64_t{3} * whole / divisor));
  }
};

class ReceiveShares {
 public:
  /// Payload has come for the queue pair.
  void note(Process& process, Qp& qp, engine::TimeNs now);
  void forget(Qp& qp);
  void reserve(size_t queue_pairs) { counted_.reserve(queue_pairs); }

 private:
  void count(Process& process, Qp& qp, engine::TimeNs now);
  void sweep(Process& process, engine::TimeNs now);

  std::vector<Qp*> counted_;
  uint32_t divisor_ = ReceiveShare::kFewest;
  engine::TimeNs next_sweep_ = 0;
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_RECEIVE_SHARES_H_

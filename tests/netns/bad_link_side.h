// One end of bad_link: buffers with guards, a queue pair of the software device, and the meeting
// with the peer.
#ifndef ROCE_TESTS_NETNS_BAD_LINK_SIDE_H_
#define ROCE_TESTS_NETNS_BAD_LINK_SIDE_H_

#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "meeting.h"

namespace roce::test {

inline constexpr uint32_t kSlots = 8;
inline constexpr uint32_t kSlotBytes = 1 << 20;
inline constexpr uint32_t kGuardBytes = 4096;

/// A region of slots with guards before, between and behind them, and more guards outside of it.
class Memory {
 public:
  Memory();
  uint8_t* region() { return bytes_.get() + kGuardBytes; }
  uint8_t* slot(uint32_t index) {
    return region() + kGuardBytes + size_t{index % kSlots} * (kSlotBytes + kGuardBytes);
  }
  void check_guards();

  static constexpr size_t kRegionBytes = kGuardBytes + size_t{kSlots} * (kSlotBytes + kGuardBytes);

 private:
  std::unique_ptr<uint8_t[]> bytes_;
};

struct Task {
  uint32_t operations = 0;
  bool spin = false;
  Knowledge knowledge = Knowledge::kTold;
};

/// What a process tells the other one.
struct Name {
  QpName qp;
  uint32_t target_rkey, source_rkey;
  uint64_t target, source;
  Task task;
};

class Side {
 public:
  /// server: its address, or empty: this is the server.
  Side(const std::string& own, const std::string& server, const Task& task);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  /// Tells the peer about this side, over TCP, and connects the queue pairs.
  void meet();
  /// Lets the last sends complete; their acknowledgements may get lost together with the peer.
  void finish();
  const Task& task() const { return task_; }

  void post_receive(uint64_t wr_id, uint8_t* slot);  ///< nullptr: for no bytes.
  /// SEND or WRITE of a source slot, with the number as immediate value.
  void post_send(bool write, uint32_t number, uint32_t slot, uint32_t bytes);
  void post_write(uint32_t slot, uint32_t bytes);
  void post_read(uint64_t wr_id, uint32_t slot, uint32_t bytes);
  void post_number(uint32_t number);
  /// The next completion; only success is accepted.
  ibv_wc wait();
  void drop_completions();
  static uint32_t number(const ibv_wc& wc);

  Memory target;    ///< The peer writes here.
  Memory source;    ///< SENDs and WRITEs leave from here, and READs of the peer see it.
  Memory received;  ///< SENDs of the peer and own READs arrive here.

 private:
  ibv_mr* add_region(Memory& memory);
  Name exchange(const Name& own);
  void post(ibv_send_wr& wr, ibv_sge* sge);

  const std::string own_, server_;
  Task task_;
  Name peer_{};
  Port port_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_mr *target_mr_ = nullptr, *source_mr_ = nullptr, *received_mr_ = nullptr;
};

}  // namespace roce::test

#endif  // ROCE_TESTS_NETNS_BAD_LINK_SIDE_H_

// The rig of the verbs behaviour suite: what any RoCE v2 device must do, seen through the verbs. It
// runs on the software device and on a device of libibverbs where there is one; both ends are in
// this process and reach each other by the port's own GID.
#ifndef ROCE_TESTS_VERBS_BEHAVIOUR_H_
#define ROCE_TESTS_VERBS_BEHAVIOUR_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verbs/discovery.h"
#include "verbs/objects.h"

namespace roce::verbs {

inline constexpr std::chrono::seconds kPatience{10};
inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Up to `count` completions; fewer only if kPatience has passed.
std::vector<ibv_wc> take(const CompletionQueue& cq, size_t count);
/// One completion; status IBV_WC_GENERAL_ERR and a failed expectation if none came.
ibv_wc take_one(const CompletionQueue& cq);
/// Whether no completion comes within `quiet`.
bool stays_empty(const CompletionQueue& cq, std::chrono::milliseconds quiet);
/// The next asynchronous event of that type; others are acknowledged and passed over. False if none
/// came.
bool wait_async(const Context& context, ibv_event_type type);

/// One side: memory, its region, completion queues for sends and receives, a queue pair.
struct End {
  std::vector<uint8_t> memory;
  MemoryRegion region;
  CompletionQueue send_cq, recv_cq;
  QueuePair qp;

  uint8_t* at(size_t offset) { return memory.data() + offset; }
  uint64_t address(size_t offset) const {
    return reinterpret_cast<uintptr_t>(memory.data()) + offset;
  }
  ibv_sge piece(size_t offset, size_t bytes) const {
    return {address(offset), static_cast<uint32_t>(bytes), region.lkey()};
  }
  void fill(size_t offset, size_t bytes, uint32_t seed);
  /// What fill wrote.
  static std::vector<uint8_t> pattern(size_t bytes, uint32_t seed);
  bool holds(size_t offset, size_t bytes, uint32_t seed) const;

  int post_recv(uint64_t id, size_t offset, size_t bytes);
  /// A work request over one piece of memory, signaled; the caller fills in the rest.
  ibv_send_wr request(uint64_t id, ibv_wr_opcode opcode, size_t offset, size_t bytes);
  ibv_send_wr rdma(uint64_t id, ibv_wr_opcode opcode, size_t offset, size_t bytes, uint64_t remote,
                   uint32_t rkey);
  ibv_send_wr atomic(uint64_t id, ibv_wr_opcode opcode, size_t offset, uint64_t remote,
                     uint32_t rkey, uint64_t compare_add, uint64_t swap = 0);
  int post(ibv_send_wr request);

 private:
  ibv_sge sge_ = {};
};

struct EndOptions {
  ibv_qp_type type = IBV_QPT_RC;
  size_t memory_bytes = 1 << 20;
  uint32_t depth = 128;
  uint32_t max_inline = 64;
  bool signal_all = false;
  const SharedReceiveQueue* srq = nullptr;
  const CompletionChannel* channel = nullptr;
  const CompletionQueue* shared_recv_cq = nullptr;  ///< Not null: receives complete there.
  int access = kAllAccess;                          ///< Of the memory region.
};

class Behaviour : public testing::TestWithParam<const char*> {
 protected:
  /// Opens the device of the parameter, or skips and says why.
  void SetUp() override;

  End make_end(const EndOptions& options = {});
  /// INIT, RTR, RTS of one end, towards any queue pair of this port.
  void connect(End& end, uint32_t dest_qpn, uint32_t rq_psn, uint32_t sq_psn,
               const RcPath& base = {}, int access = kAllAccess);
  /// Both ends towards each other.
  void connect(End& a, End& b, const RcPath& base = {}, int access = kAllAccess);
  ibv_ah_attr own_address() const;
  uint32_t first_psn();

  Candidate candidate_;
  Context context_;
  ProtectionDomain pd_;

 private:
  uint32_t next_psn_ = 0xFFFFF0;  // Wraps early.
};

/// The tables by name: "soft" or "system".
const Table& table_of(const std::string& parameter);

}  // namespace roce::verbs

#endif  // ROCE_TESTS_VERBS_BEHAVIOUR_H_

// RAII over verbs objects. Move-only; each knows its table, so that it goes back where it came
// from. Creation returns the object or a sentence that names device, call, values and remedy.
//
// Owners declare objects in the order of creation (context, protection domain, regions and queues,
// queue pairs), so that C++ destroys them in the order verbs ask for. Errors at destruction are
// dropped; who wants them calls destroy().
#ifndef ROCE_VERBS_OBJECTS_H_
#define ROCE_VERBS_OBJECTS_H_

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "roce/status.h"
#include "verbs/errors.h"
#include "verbs/table.h"

namespace roce::verbs {

// Names for messages.
inline const char* kind_of(const ibv_context*) { return "device"; }
inline const char* kind_of(const ibv_pd*) { return "protection domain"; }
inline const char* kind_of(const ibv_mr*) { return "memory region"; }
inline const char* kind_of(const ibv_ah*) { return "address handle"; }
inline const char* kind_of(const ibv_comp_channel*) { return "completion channel"; }
inline const char* kind_of(const ibv_cq*) { return "completion queue"; }
inline const char* kind_of(const ibv_srq*) { return "shared receive queue"; }
inline const char* kind_of(const ibv_qp*) { return "queue pair"; }

template <typename T, int (*Table::*kDestroy)(T*)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept
      : table_(other.table_), raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      release();
      table_ = other.table_;
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  ~Handle() { release(); }

  T* get() const { return raw_; }
  explicit operator bool() const { return raw_ != nullptr; }
  const Table& table() const { return *table_; }

  /// Destroys now and tells what the device said (EBUSY: something still uses the object, which
  /// then stays).
  Status destroy() {
    if (raw_ == nullptr) return Status::ok();
    const int error = (table_->*kDestroy)(raw_);
    if (error != 0) {
      return call_failed(table_->name, std::string("destroying a ") + kind_of(raw_), error,
                         error == EBUSY ? "Something made from it still exists." : "");
    }
    raw_ = nullptr;
    return Status::ok();
  }

 protected:
  Handle(const Table& table, T* raw) : table_(&table), raw_(raw) {}

 private:
  void release() {
    if (raw_ != nullptr) (table_->*kDestroy)(std::exchange(raw_, nullptr));
  }

  const Table* table_ = nullptr;
  T* raw_ = nullptr;
};

/// An opened device.
class Context : public Handle<ibv_context, &Table::close_device> {
 public:
  Context() = default;
  static Result<Context> open(const Table& table, const std::string& device);

  std::string name() const { return device_name(table(), get()); }
  Result<ibv_device_attr> query_device() const;
  /// Whether the device says that its 8-byte atomics are PCIe ones, atomic against the CPU's; false
  /// where it cannot be asked.
  bool has_pci_atomics() const;
  Result<ibv_port_attr> query_port(uint8_t port) const;
  int async_fd() const { return get()->async_fd; }

 private:
  using Handle::Handle;
};

class ProtectionDomain : public Handle<ibv_pd, &Table::dealloc_pd> {
 public:
  ProtectionDomain() = default;
  static Result<ProtectionDomain> create(const Context& context);

 private:
  using Handle::Handle;
};

class MemoryRegion : public Handle<ibv_mr, &Table::dereg_mr> {
 public:
  MemoryRegion() = default;
  /// access: IBV_ACCESS_... bits. The memory must outlive the region.
  static Result<MemoryRegion> create(const ProtectionDomain& pd, void* address, size_t bytes,
                                     int access);

  uint32_t lkey() const { return get()->lkey; }
  uint32_t rkey() const { return get()->rkey; }

 private:
  using Handle::Handle;
};

class AddressHandle : public Handle<ibv_ah, &Table::destroy_ah> {
 public:
  AddressHandle() = default;
  /// May block while the peer's link address is resolved.
  static Result<AddressHandle> create(const ProtectionDomain& pd, ibv_ah_attr attributes);

 private:
  using Handle::Handle;
};

class CompletionChannel : public Handle<ibv_comp_channel, &Table::destroy_comp_channel> {
 public:
  CompletionChannel() = default;
  static Result<CompletionChannel> create(const Context& context);

  int fd() const { return get()->fd; }
  /// Waits for one event, acknowledges it and returns the cq_context of its completion queue.
  /// kTimedOut after `limit`.
  Result<void*> wait(std::chrono::milliseconds limit) const;

 private:
  using Handle::Handle;
};

class CompletionQueue : public Handle<ibv_cq, &Table::destroy_cq> {
 public:
  CompletionQueue() = default;
  /// At least `entries` entries; events go to `channel` if there is one, with `cq_context`.
  static Result<CompletionQueue> create(const Context& context, int entries,
                                        const CompletionChannel* channel = nullptr,
                                        void* cq_context = nullptr);

  /// Completions written to `out`, or a negative value if the queue is unusable.
  int poll(std::span<ibv_wc> out) const {
    return ibv_poll_cq(get(), static_cast<int>(out.size()), out.data());
  }
  /// Asks for an event at the next completion.
  Status arm(bool solicited_only) const;
  Status resize(int entries);

 private:
  using Handle::Handle;
};

class SharedReceiveQueue : public Handle<ibv_srq, &Table::destroy_srq> {
 public:
  SharedReceiveQueue() = default;
  static Result<SharedReceiveQueue> create(const ProtectionDomain& pd, uint32_t max_requests,
                                           uint32_t max_sge);

  /// Asks for one IBV_EVENT_SRQ_LIMIT_REACHED when fewer than `limit` requests are left.
  Status set_limit(uint32_t limit) const;

 private:
  using Handle::Handle;
};

/// What both ends of a reliable connection agree on, as one end sees it.
struct RcPath {
  ibv_mtu path_mtu = IBV_MTU_1024;
  uint32_t dest_qpn = 0;
  uint32_t rq_psn = 0;              ///< First PSN that the peer sends.
  uint32_t sq_psn = 0;              ///< First PSN sent.
  uint8_t max_dest_rd_atomic = 16;  ///< READs and atomics accepted at a time.
  uint8_t max_rd_atomic = 16;       ///< READs and atomics outstanding.
  uint8_t min_rnr_timer = 12;       ///< Code, 0..31.
  uint8_t timeout = 14;             ///< 4.096 us x 2^timeout.
  uint8_t retry_count = 7;          ///< 0..7.
  uint8_t rnr_retry = 7;            ///< 0..7; 7: without end.
  ibv_ah_attr address = {};         ///< See global_address.
};

/// Address of a peer by GID. port: the local one. flow_label 0: the device chooses.
ibv_ah_attr global_address(uint8_t port, uint8_t local_gid_index, const uint8_t peer_gid[16],
                           uint8_t traffic_class, uint8_t hop_limit, uint8_t service_level = 0,
                           uint32_t flow_label = 0);

class QueuePair : public Handle<ibv_qp, &Table::destroy_qp> {
 public:
  QueuePair() = default;
  static Result<QueuePair> create(const ProtectionDomain& pd, ibv_qp_init_attr attributes);

  uint32_t qpn() const { return get()->qp_num; }

  /// RESET to INIT. access: what the peer may do.
  Status rc_to_init(uint8_t port, int access) const;
  /// INIT to RTR. May block while the peer's link address is resolved.
  Status rc_to_rtr(const RcPath& path) const;
  /// RTR to RTS.
  Status rc_to_rts(const RcPath& path) const;
  /// RESET to RTS.
  Status ud_to_rts(uint8_t port, uint32_t qkey, uint32_t sq_psn = 0) const;
  /// To ERR: what is posted completes with IBV_WC_WR_FLUSH_ERR.
  Status to_error() const;
  Status to_reset() const;
  Result<ibv_qp_state> state() const;

  /// Any other change; `what` stands in the message.
  Status modify(ibv_qp_attr attributes, int mask, const std::string& what,
                const std::string& remedy = "") const;

 private:
  using Handle::Handle;
};

}  // namespace roce::verbs

#endif  // ROCE_VERBS_OBJECTS_H_

// The public interface: data path and memory. See include/roce/transport.h.
#include "roce/transport.h"

#include "transport/core.h"
#include "transport/impl.h"
#include "transport/link.h"

namespace roce::transport {
namespace {

/// Fills in an operation; says what is wrong with the arguments.
Status prepare(const Limits& limits, Endpoint* peer, Operation* op, const void* local_addr,
               Registration* local, uint64_t remote_addr, const MemoryHandle& remote,
               size_t bytes) {
  if (peer == nullptr || op == nullptr || op->complete == nullptr) {
    return {Code::kInvalidArgument, "transfers need a peer and an operation with a callback"};
  }
  if (bytes > limits.max_put_bytes) {
    return {Code::kInvalidArgument, "transfer of " + std::to_string(bytes) + " bytes; at most " +
                                        std::to_string(limits.max_put_bytes) + " at once"};
  }
  op->local_addr = reinterpret_cast<uintptr_t>(local_addr);
  op->remote_addr = remote_addr;
  op->local = local;
  op->remote = remote;
  op->bytes = bytes;
  op->posted_bytes = op->pending_chunks = 0;
  op->failed = false;
  op->copy = nullptr;
  return Status::ok();
}

Status start_atomic(const Limits& limits, Endpoint* peer, Operation* op, Operation::Kind kind,
                    void* result_addr, Registration* local, uint64_t remote_addr,
                    const MemoryHandle& remote, uint64_t compare_add, uint64_t swap) {
  if (!limits.has_atomics) {
    return {Code::kNotSupported, limits.device + " and the devices beside it have no atomics"};
  }
  if (remote_addr % sizeof(uint64_t) != 0) {
    return {Code::kNotSupported,
            "atomic operation at an address that is no multiple of 8, which RoCE has not"};
  }
  if (result_addr == nullptr) {
    return {Code::kInvalidArgument, "atomic operation without room for its result"};
  }
  Status status =
      prepare(limits, peer, op, result_addr, local, remote_addr, remote, sizeof(uint64_t));
  if (!status) return status;
  op->kind = kind;
  op->compare_add = compare_add;
  op->swap = swap;
  peer->link().start(op);
  return Status::ok();
}

}  // namespace

Fragment* Transport::acquire(size_t bytes) { return impl_->core.fragments->acquire(bytes); }
void Transport::release(Fragment* fragment) { impl_->core.fragments->release(fragment); }
bool Transport::send(Endpoint* peer, Fragment* fragment) { return peer->link().send(fragment); }
int Transport::progress() { return impl_->poller.progress(); }

Status Transport::put(Endpoint* peer, Operation* op, const void* local_addr, Registration* local,
                      uint64_t remote_addr, const MemoryHandle& remote, size_t bytes) {
  const Limits& limits = impl_->core.limits;
  if (local == nullptr && bytes > limits.max_inline_bytes) {
    return {Code::kInvalidArgument, "put of " + std::to_string(bytes) +
                                        " bytes without registration; at most " +
                                        std::to_string(limits.max_inline_bytes)};
  }
  if (Status status = prepare(limits, peer, op, local_addr, local, remote_addr, remote, bytes);
      !status) {
    return status;
  }
  op->kind = Operation::Kind::kPut;
  peer->link().start(op);
  return Status::ok();
}

Status Transport::get(Endpoint* peer, Operation* op, void* local_addr, Registration* local,
                      uint64_t remote_addr, const MemoryHandle& remote, size_t bytes) {
  if (local == nullptr) {
    return {Code::kInvalidArgument, "get needs a registration of the local memory"};
  }
  if (Status status =
          prepare(impl_->core.limits, peer, op, local_addr, local, remote_addr, remote, bytes);
      !status) {
    return status;
  }
  op->kind = Operation::Kind::kGet;
  peer->link().start(op);
  return Status::ok();
}

Status Transport::fetch_add(Endpoint* peer, Operation* op, void* result_addr, Registration* local,
                            uint64_t remote_addr, const MemoryHandle& remote, uint64_t addend) {
  return start_atomic(impl_->core.limits, peer, op, Operation::Kind::kFetchAdd, result_addr, local,
                      remote_addr, remote, addend, 0);
}

Status Transport::compare_swap(Endpoint* peer, Operation* op, void* result_addr,
                               Registration* local, uint64_t remote_addr,
                               const MemoryHandle& remote, uint64_t compare, uint64_t swap) {
  return start_atomic(impl_->core.limits, peer, op, Operation::Kind::kCompareSwap, result_addr,
                      local, remote_addr, remote, compare, swap);
}

Status Transport::register_memory(void* base, size_t bytes, unsigned access, Registration* out) {
  Status status = impl_->core.rails.register_memory(base, bytes, access, out);
  impl_->core.counters.add(status ? Counter::registrations : Counter::registration_failures);
  return status;
}

void Transport::deregister_memory(Registration* registration) {
  impl_->core.rails.deregister_memory(registration);
}

}  // namespace roce::transport

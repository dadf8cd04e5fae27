// Puts, gets and atomics of one peer: RDMA WRITEs and READs in chunks, in turns between the
// operations. Atomics queue with the gets: the device counts both against max_rd_atomic.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "transport/connection_thread.h"
#include "transport/link.h"

namespace roce::transport {

void Link::start(Operation* operation) {
  operation->endpoint = &endpoint_;
  bool connect = false;
  {
    std::lock_guard guard(lock_);
    State state = endpoint_.state_.load(std::memory_order_relaxed);
    if (state == State::kFailed || state == State::kRemoved) {
      defer({.type = Event::Type::kOperation, .status = Code::kUnreachable, .object = operation});
      return;
    }
    if (operation->local == nullptr) {
      stand_in(operation);
      if (operation->local == nullptr) {
        defer({.type = Event::Type::kOperation,
               .status = Code::kOutOfResources,
               .object = operation});
        return;
      }
    }
    (operation->kind == Operation::Kind::kPut ? puts_ : gets_).push(operation);
    if (state == State::kReady) {
      post_operations();
      if (!puts_.empty() || !gets_.empty()) core_.connections->watch();
    } else if (state != State::kConnecting) {
      endpoint_.state_.store(State::kConnecting, std::memory_order_release);
      connect = true;
    }
  }
  if (connect) {
    core_.connections->connect(&endpoint_);
  }
}

/// Without registration, a fragment takes the place of the caller's memory: a put, which is small,
/// leaves from it, so that the caller may reuse its memory at once; an atomic's result arrives
/// there.
void Link::stand_in(Operation* operation) {
  Fragment* copy = core_.fragments->acquire(operation->bytes);
  if (copy == nullptr) {
    return;
  }
  if (operation->kind == Operation::Kind::kPut) {
    std::memcpy(copy->data, reinterpret_cast<const void*>(operation->local_addr), operation->bytes);
  }
  operation->copy = copy;
  operation->local = const_cast<Registration*>(&FragmentPool::registration(copy));
}

void Link::post_operations() {
  // Both in turn, whichever of them has something to post.
  for (bool more = true; more;) {
    const bool got = post_one_of(gets_);
    more = post_one_of(puts_) || got;
  }
}

/// Posts one chunk of the first operation that may go, which then waits for its next turn.
bool Link::post_one_of(Fifo<Operation>& operations) {
  if (operations.empty() || endpoint_.state_.load(std::memory_order_relaxed) != State::kReady) {
    return false;
  }
  Operation* operation = operations.front();
  auto bytes = static_cast<uint32_t>(std::min<uint64_t>(
      operation->kind == Operation::Kind::kPut ? put_chunk_bytes_ : rail_->chunk_bytes,
      operation->bytes - operation->posted_bytes));
  if (!may_post_chunk(operation, bytes)) {
    return false;
  }
  operations.pop();
  if (operation->posted_bytes + bytes < operation->bytes) {
    operations.push(operation);
  }
  post_chunk(operation, bytes);
  return true;
}

bool Link::may_post_chunk(const Operation* operation, uint32_t bytes) {
  if (sq_head_ - sq_tail_ >= sq_usable_) {
    ++queue_stalls_;
    return false;
  }
  if (operation->kind == Operation::Kind::kPut) {
    return window_.may_put(bytes);
  }
  return reads_outstanding_ < max_reads_ && rail_->gets.take(getter_, bytes);
}

void Link::post_chunk(Operation* operation, uint32_t bytes) {
  auto* region = static_cast<ibv_mr*>(operation->local->regions[rail_->index]);
  const uint64_t local_addr = operation->copy != nullptr
                                  ? reinterpret_cast<uintptr_t>(operation->copy->data)
                                  : operation->local_addr;
  ibv_sge sge{local_addr + operation->posted_bytes, bytes, region->lkey};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  const uint64_t remote_addr = operation->remote_addr + operation->posted_bytes;
  const uint32_t rkey = operation->remote.rkey[path_.remote_rail];
  Record::Kind kind = Record::Kind::kGet;
  switch (operation->kind) {
    case Operation::Kind::kPut:
      kind = Record::Kind::kPut;
      request.opcode = IBV_WR_RDMA_WRITE;
      request.send_flags = bytes <= inline_bytes_ ? IBV_SEND_INLINE : 0;
      request.wr.rdma = {remote_addr, rkey};
      window_.put_posted(bytes);
      break;
    case Operation::Kind::kGet:
      request.opcode = IBV_WR_RDMA_READ;
      request.wr.rdma = {remote_addr, rkey};
      break;
    case Operation::Kind::kFetchAdd:
      request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      request.wr.atomic = {remote_addr, operation->compare_add, 0, rkey};
      break;
    case Operation::Kind::kCompareSwap:
      request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
      request.wr.atomic = {remote_addr, operation->compare_add, operation->swap, rkey};
      break;
  }
  reads_outstanding_ += kind == Record::Kind::kGet ? 1 : 0;
  operation->posted_bytes += bytes;
  ++operation->pending_chunks;
  post(request, {kind, bytes, operation}, true);
}

}  // namespace roce::transport

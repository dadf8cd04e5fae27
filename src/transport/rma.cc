// Puts and gets of one peer: RDMA WRITEs and READs in chunks, in turns between the operations.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "transport/connection_thread.h"
#include "transport/endpoint.h"

namespace roce::transport {

void Endpoint::start(Operation* operation, const void* local_addr) {
  operation->endpoint = this;
  bool connect = false;
  {
    std::lock_guard guard(lock_);
    State state = state_.load(std::memory_order_relaxed);
    if (state == State::kFailed || state == State::kRemoved) {
      defer({.type = Event::Type::kOperation, .status = Code::kUnreachable, .object = operation});
      return;
    }
    if (operation->local == nullptr) {
      keep_copy(operation, local_addr);
      if (operation->local == nullptr) {
        defer({.type = Event::Type::kOperation,
               .status = Code::kOutOfResources,
               .object = operation});
        return;
      }
    }
    (operation->is_get ? gets_ : puts_).push(operation);
    if (state == State::kReady) {
      post_operations();
    } else if (state != State::kConnecting) {
      state_.store(State::kConnecting, std::memory_order_release);
      connect = true;
    }
  }
  if (connect) {
    core_.connections->connect(this);
  }
}

/// A put without registration is small: it leaves from a fragment, so that the caller may reuse its
/// memory at once.
void Endpoint::keep_copy(Operation* operation, const void* local_addr) {
  Fragment* copy = core_.fragments->acquire(operation->bytes);
  if (copy == nullptr) {
    return;
  }
  std::memcpy(copy->data, local_addr, operation->bytes);
  operation->copy = copy;
  operation->local_addr = reinterpret_cast<uintptr_t>(copy->data);
  operation->local = const_cast<Registration*>(&FragmentPool::registration(copy));
}

void Endpoint::post_operations() {
  // Both in turn, whichever of them has something to post.
  for (bool more = true; more;) {
    const bool got = post_one_of(gets_);
    more = post_one_of(puts_) || got;
  }
}

/// Posts one chunk of the first operation that may go, which then waits for its next turn.
bool Endpoint::post_one_of(Fifo<Operation>& operations) {
  if (operations.empty() || state_.load(std::memory_order_relaxed) != State::kReady) {
    return false;
  }
  Operation* operation = operations.front();
  auto bytes = static_cast<uint32_t>(
      std::min<uint64_t>(rail_->chunk_bytes, operation->bytes - operation->posted_bytes));
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

bool Endpoint::may_post_chunk(const Operation* operation, uint32_t bytes) {
  if (sq_head_ - sq_tail_ >= sq_usable_) {
    ++queue_stalls_;
    return false;
  }
  if (!operation->is_get) {
    return window_.may_put(bytes);
  }
  if (reads_outstanding_ >= max_reads_ || waiting_for_budget_) {
    return false;
  }
  waiting_for_budget_ = !rail_->get_budget.take(bytes, this);
  return !waiting_for_budget_;
}

void Endpoint::post_chunk(Operation* operation, uint32_t bytes) {
  auto* region = static_cast<ibv_mr*>(operation->local->regions[rail_->index]);
  ibv_sge sge{operation->local_addr + operation->posted_bytes, bytes, region->lkey};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = operation->remote_addr + operation->posted_bytes;
  request.wr.rdma.rkey = operation->remote.rkey[path_.remote_rail];
  if (operation->is_get) {
    request.opcode = IBV_WR_RDMA_READ;
    ++reads_outstanding_;
  } else {
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = bytes <= inline_bytes_ ? IBV_SEND_INLINE : 0;
    window_.put_posted(bytes);
  }
  operation->posted_bytes += bytes;
  ++operation->pending_chunks;
  post(request, {operation->is_get ? Record::Kind::kGet : Record::Kind::kPut, bytes, operation},
       true);
}

}  // namespace roce::transport

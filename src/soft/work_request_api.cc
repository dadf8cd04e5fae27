// ibv_wr_start, the builders and setters of work requests, ibv_wr_complete and ibv_wr_abort.
//
// A builder begins a request, setters add to it, and the next builder or ibv_wr_complete puts it
// into the send ring behind the ring's head, where nobody sees it; ibv_wr_complete moves the head
// over all of them at once. The first error makes the whole batch void and is what ibv_wr_complete
// returns (ibv_wr_post(3): "the entire posting will be aborted"):
//   EINVAL      malformed, a setter out of place, or an operation that creation did not ask for;
//   EOPNOTSUPP  an operation or flag that the device does not have;
//   ENOMEM      more requests than the send queue has room for;
//   EDEADLK     ibv_wr_start inside ibv_wr_start.
#include <cerrno>
#include <cstring>

#include "soft/posting.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

/// Value and place of what ibv_qp_to_qp_ex of libibverbs looks at: a mask right behind ibv_qp_ex
/// whose bit 1 says that the queue pair is one. Versions whose ibv_qp_ex has one member more look a
/// pointer further.
constexpr uint64_t kLibraryExtended = 2;

Qp& state_of(ibv_qp_ex* extended) { return *qp_of(&extended->qp_base); }

/// An address that no other living thread has.
const void* this_thread() {
  static thread_local char mark;
  return &mark;
}

void fail(SendBatch& batch, int error) {
  if (batch.error == 0) batch.error = error;
}

/// The request that was begun last goes into the ring.
void finish_request(Qp& qp, SendBatch& batch) {
  if (!batch.building) return;
  batch.building = false;
  if (qp.qp_type == IBV_QPT_UD && !batch.addressed) fail(batch, EINVAL);
  if (batch.error != 0) return;
  uint64_t length = 0;
  batch.error = check_send(qp, batch.request, &length);
  if (batch.error != 0) return;
  SendRing& ring = qp.sends;
  ring.lock.lock();
  const bool room = ring.make_room(batch.staged);
  const uint32_t position = ring.head + batch.staged;
  ring.lock.unlock();
  if (!room) return fail(batch, ENOMEM);
  batch.error = fill_slot(qp, position, batch.request, length);
  if (batch.error == 0) ++batch.staged;
}

ibv_send_wr& begin(ibv_qp_ex* extended, uint64_t operation, ibv_wr_opcode opcode) {
  Qp& qp = state_of(extended);
  SendBatch& batch = *qp.batch;
  finish_request(qp, batch);
  if ((batch.operations & operation) == 0) fail(batch, EINVAL);
  batch.request = ibv_send_wr{};
  batch.request.wr_id = extended->wr_id;
  batch.request.opcode = opcode;
  // Whether data is inline is the setter's to say.
  batch.request.send_flags = extended->wr_flags & ~unsigned{IBV_SEND_INLINE};
  batch.building = composed_here(batch);
  batch.addressed = batch.has_data = false;
  return batch.request;
}

void wr_send(ibv_qp_ex* qp) { begin(qp, IBV_QP_EX_WITH_SEND, IBV_WR_SEND); }

void wr_send_imm(ibv_qp_ex* qp, __be32 imm) {
  begin(qp, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM).imm_data = imm;
}

void wr_send_inv(ibv_qp_ex* qp, uint32_t rkey) {
  begin(qp, IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV).invalidate_rkey = rkey;
}

void wr_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr) {
  begin(qp, IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE).wr.rdma = {remote_addr, rkey};
}

void wr_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, __be32 imm) {
  ibv_send_wr& request = begin(qp, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM);
  request.wr.rdma = {remote_addr, rkey};
  request.imm_data = imm;
}

void wr_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr) {
  begin(qp, IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ).wr.rdma = {remote_addr, rkey};
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
                       uint64_t swap) {
  begin(qp, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP).wr.atomic = {
      remote_addr, compare, swap, rkey};
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, uint64_t add) {
  begin(qp, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD).wr.atomic = {
      remote_addr, add, 0, rkey};
}

void wr_set_ud_addr(ibv_qp_ex* extended, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  Qp& qp = state_of(extended);
  SendBatch& batch = *qp.batch;
  if (!batch.building || qp.qp_type != IBV_QPT_UD) return fail(batch, EINVAL);
  batch.request.wr.ud = {ah, qpn, qkey};
  batch.addressed = true;
}

/// Whether the request that is being built may get its data now.
bool takes_data(SendBatch& batch) {
  if (!batch.building || batch.has_data) {
    fail(batch, EINVAL);
    return false;
  }
  batch.has_data = true;
  return true;
}

void wr_set_sge_list(ibv_qp_ex* extended, size_t count, const ibv_sge* list) {
  Qp& qp = state_of(extended);
  SendBatch& batch = *qp.batch;
  if (!takes_data(batch)) return;
  if (count > batch.sges.size()) return fail(batch, EINVAL);
  // The program may use its list again before the request is complete.
  if (count != 0) std::memcpy(batch.sges.data(), list, count * sizeof(ibv_sge));
  batch.request.sg_list = batch.sges.data();
  batch.request.num_sge = static_cast<int>(count);
}

void wr_set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge sge = {address, length, lkey};
  wr_set_sge_list(qp, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex* extended, size_t count, const ibv_data_buf* list) {
  Qp& qp = state_of(extended);
  SendBatch& batch = *qp.batch;
  if (!takes_data(batch)) return;
  size_t length = 0;
  for (size_t i = 0; i < count; ++i) {
    if (list[i].length > batch.inline_bytes.size() - length) return fail(batch, EINVAL);
    if (list[i].length != 0) {
      std::memcpy(batch.inline_bytes.data() + length, list[i].addr, list[i].length);
    }
    length += list[i].length;
  }
  batch.sges[0] = {reinterpret_cast<uintptr_t>(batch.inline_bytes.data()),
                   static_cast<uint32_t>(length), 0};
  batch.request.sg_list = batch.sges.data();
  batch.request.num_sge = 1;
  batch.request.send_flags |= IBV_SEND_INLINE;
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, size_t length) {
  const ibv_data_buf data = {address, length};
  wr_set_inline_data_list(qp, 1, &data);
}

void wr_start(ibv_qp_ex* extended) {
  SendBatch& batch = *state_of(extended).batch;
  if (composed_here(batch)) return fail(batch, EDEADLK);
  batch.lock.lock();
  batch.composer.store(this_thread(), std::memory_order_relaxed);
  batch.building = false;
  batch.staged = 0;
  batch.error = Process::usable() == nullptr ? errno : 0;
}

void close(SendBatch& batch) {
  batch.building = false;
  batch.composer.store(nullptr, std::memory_order_relaxed);
  batch.lock.unlock();
}

int wr_complete(ibv_qp_ex* extended) {
  Qp& qp = state_of(extended);
  SendBatch& batch = *qp.batch;
  if (!composed_here(batch)) return EINVAL;
  finish_request(qp, batch);
  // The queue pair may have been reset since the requests were checked.
  if (qp.posting_state.load(std::memory_order_acquire) < IBV_QPS_RTS) fail(batch, EINVAL);
  const int error = batch.error;
  const bool posted = error == 0 && batch.staged != 0;
  if (posted) {
    qp.sends.lock.lock();
    qp.sends.head += batch.staged;
    qp.sends.publish();
    qp.sends.lock.unlock();
  }
  close(batch);
  if (posted) Process::instance().posted(qp);
  return error;
}

void wr_abort(ibv_qp_ex* extended) {
  SendBatch& batch = *state_of(extended).batch;
  if (composed_here(batch)) close(batch);
}

/// In the place of every builder and setter that the queue pair does not have.
template <typename... Arguments>
void refuse_request(ibv_qp_ex* extended, Arguments...) {
  Qp& qp = state_of(extended);
  if (qp.batch == nullptr) return;
  qp.batch->building = false;
  fail(*qp.batch, EOPNOTSUPP);
}

int refuse_complete(ibv_qp_ex*) { return EOPNOTSUPP; }

ibv_qp_ex& extended_of(Qp& qp) { return *reinterpret_cast<ibv_qp_ex*>(static_cast<ibv_qp*>(&qp)); }

}  // namespace

bool composed_here(const SendBatch& batch) {
  return batch.composer.load(std::memory_order_relaxed) == this_thread();
}

uint64_t supported_operations(ibv_qp_type type) {
  constexpr uint64_t kDatagram =
      uint64_t{IBV_QP_EX_WITH_SEND} | uint64_t{IBV_QP_EX_WITH_SEND_WITH_IMM};
  constexpr uint64_t kReliable =
      kDatagram | uint64_t{IBV_QP_EX_WITH_SEND_WITH_INV} | uint64_t{IBV_QP_EX_WITH_RDMA_WRITE} |
      uint64_t{IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM} | uint64_t{IBV_QP_EX_WITH_RDMA_READ} |
      uint64_t{IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP} | uint64_t{IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD};
  if (type == IBV_QPT_RC) return kReliable;
  return type == IBV_QPT_UD ? kDatagram : 0;
}

void refuse_work_requests(Qp& qp) {
  ibv_qp_ex& to = extended_of(qp);
  to.wr_atomic_cmp_swp = &refuse_request;
  to.wr_atomic_fetch_add = &refuse_request;
  to.wr_bind_mw = &refuse_request;
  to.wr_local_inv = &refuse_request;
  to.wr_rdma_read = &refuse_request;
  to.wr_rdma_write = &refuse_request;
  to.wr_rdma_write_imm = &refuse_request;
  to.wr_send = &refuse_request;
  to.wr_send_imm = &refuse_request;
  to.wr_send_inv = &refuse_request;
  to.wr_send_tso = &refuse_request;
  to.wr_set_ud_addr = &refuse_request;
  to.wr_set_xrc_srqn = &refuse_request;
  to.wr_set_inline_data = &refuse_request;
  to.wr_set_inline_data_list = &refuse_request;
  to.wr_set_sge = &refuse_request;
  to.wr_set_sge_list = &refuse_request;
  to.wr_start = &refuse_request;
  to.wr_complete = &refuse_complete;
  to.wr_abort = &refuse_request;
  to.wr_atomic_write = &refuse_request;
}

void enable_work_requests(Qp& qp, uint64_t operations) {
  auto batch = std::make_unique<SendBatch>();
  batch->operations = operations;
  batch->sges.resize(qp.sends.max_sge);
  batch->inline_bytes.resize(qp.sends.max_inline);
  ibv_qp_ex& to = extended_of(qp);
  to.wr_atomic_cmp_swp = &wr_atomic_cmp_swp;
  to.wr_atomic_fetch_add = &wr_atomic_fetch_add;
  to.wr_rdma_read = &wr_rdma_read;
  to.wr_rdma_write = &wr_rdma_write;
  to.wr_rdma_write_imm = &wr_rdma_write_imm;
  to.wr_send = &wr_send;
  to.wr_send_imm = &wr_send_imm;
  to.wr_send_inv = &wr_send_inv;
  to.wr_set_ud_addr = &wr_set_ud_addr;
  to.wr_set_inline_data = &wr_set_inline_data;
  to.wr_set_inline_data_list = &wr_set_inline_data_list;
  to.wr_set_sge = &wr_set_sge;
  to.wr_set_sge_list = &wr_set_sge_list;
  to.wr_start = &wr_start;
  to.wr_complete = &wr_complete;
  to.wr_abort = &wr_abort;
  qp.batch = std::move(batch);
  for (uint64_t& mask : qp.library_masks) mask = kLibraryExtended;
}

}  // namespace roce::soft

#include "soft/extended_cq.h"

#include <cerrno>

#include "soft/process.h"

namespace roce::soft {
namespace {

const ibv_wc& current(ibv_cq_ex* cq) { return static_cast<Cq*>(cq)->current; }

int next_poll(ibv_cq_ex* verbs) {
  Cq& cq = *static_cast<Cq*>(verbs);
  const int got = poll_cq(to_verbs(&cq), 1, &cq.current);
  if (got == 0) return ENOENT;
  if (got < 0) return EIO;
  if (cq.timestamps) cq.polled_at_ns = Process::now();
  cq.wr_id = cq.current.wr_id;
  cq.status = cq.current.status;
  return 0;
}

int start_poll(ibv_cq_ex* verbs, ibv_poll_cq_attr* attributes) {
  return attributes->comp_mask != 0 ? EINVAL : next_poll(verbs);
}

void end_poll(ibv_cq_ex*) {}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return current(cq).opcode; }
uint32_t read_vendor_err(ibv_cq_ex* cq) { return current(cq).vendor_err; }
uint32_t read_byte_len(ibv_cq_ex* cq) { return current(cq).byte_len; }
__be32 read_imm_data(ibv_cq_ex* cq) { return current(cq).imm_data; }
uint32_t read_qp_num(ibv_cq_ex* cq) { return current(cq).qp_num; }
uint32_t read_src_qp(ibv_cq_ex* cq) { return current(cq).src_qp; }
unsigned read_wc_flags(ibv_cq_ex* cq) { return current(cq).wc_flags; }
uint32_t read_slid(ibv_cq_ex*) { return 0; }
uint8_t read_sl(ibv_cq_ex* cq) { return current(cq).sl; }
uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }
uint64_t read_timestamp(ibv_cq_ex* cq) { return static_cast<Cq*>(cq)->polled_at_ns; }
uint16_t read_cvlan(ibv_cq_ex*) { return 0; }
uint32_t read_flow_tag(ibv_cq_ex*) { return 0; }
void read_tm_info(ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; }

constexpr uint64_t kSupportedFields =
    uint64_t{IBV_WC_STANDARD_FLAGS} | uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  const uint32_t known_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  if ((attributes->wc_flags & ~kSupportedFields) != 0 ||
      (attributes->comp_mask & ~known_mask) != 0 ||
      ((attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
       (attributes->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (attributes->cqe > kMaxCqEntries) {
    errno = EINVAL;
    return nullptr;
  }
  ibv_cq* plain = create_cq(context, static_cast<int>(attributes->cqe), attributes->cq_context,
                            attributes->channel, static_cast<int>(attributes->comp_vector));
  if (plain == nullptr) return nullptr;
  Cq* cq = cq_of(plain);
  cq->timestamps = (attributes->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0;
  cq->start_poll = &start_poll;
  cq->next_poll = &next_poll;
  cq->end_poll = &end_poll;
  cq->read_opcode = &read_opcode;
  cq->read_vendor_err = &read_vendor_err;
  cq->read_byte_len = &read_byte_len;
  cq->read_imm_data = &read_imm_data;
  cq->read_qp_num = &read_qp_num;
  cq->read_src_qp = &read_src_qp;
  cq->read_wc_flags = &read_wc_flags;
  cq->read_slid = &read_slid;
  cq->read_sl = &read_sl;
  cq->read_dlid_path_bits = &read_dlid_path_bits;
  cq->read_completion_ts = &read_timestamp;
  cq->read_cvlan = &read_cvlan;
  cq->read_flow_tag = &read_flow_tag;
  cq->read_tm_info = &read_tm_info;
  cq->read_completion_wallclock_ns = &read_timestamp;
  return cq;
}

}  // namespace roce::soft

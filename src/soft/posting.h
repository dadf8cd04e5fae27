// What both ways of posting send requests share: ibv_post_send (post.cc) and the calls between
// ibv_wr_start and ibv_wr_complete (work_request_api.cc).
#ifndef ROCE_SOFT_POSTING_H_
#define ROCE_SOFT_POSTING_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "soft/objects.h"

namespace roce::soft {

/// 0 and the request's length in bytes, or why it is refused: EOPNOTSUPP for operations and flags
/// that the device does not have, EINVAL for everything malformed, ENOMEM is not looked at.
int check_send(const Qp& qp, const ibv_send_wr& wr, uint64_t* length);

/// Copies a checked request, inline data too, into the ring's place `position`; that place must be
/// free and not yet visible to the holder of the progress lock. 0 or ENOMEM.
int fill_slot(Qp& qp, uint32_t position, const ibv_send_wr& wr, uint64_t length);

/// Whether the calling thread is between ibv_wr_start and ibv_wr_complete of this batch. For any
/// thread.
bool composed_here(const SendBatch& batch);

/// Operations (IBV_QP_EX_WITH_...) that queue pairs of a type have.
uint64_t supported_operations(ibv_qp_type type);

/// Every ibv_wr_ call of the queue pair refuses, with EOPNOTSUPP from ibv_wr_complete.
void refuse_work_requests(Qp& qp);
/// ibv_wr_ calls work for `operations`, which must be supported; ibv_qp_to_qp_ex finds them. Before
/// the program knows the queue pair. Throws std::bad_alloc.
void enable_work_requests(Qp& qp, uint64_t operations);

}  // namespace roce::soft

#endif  // ROCE_SOFT_POSTING_H_

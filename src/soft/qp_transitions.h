// Which attributes a queue pair transition requires and allows (InfiniBand specification volume
// 1, 11.2.5.2, table 96), by type.
#ifndef ROCE_SOFT_QP_TRANSITIONS_H_
#define ROCE_SOFT_QP_TRANSITIONS_H_

#include <infiniband/verbs.h>

namespace roce::soft {

struct Transition {
  ibv_qp_state from, to;
  int rc_required, rc_optional;  ///< Masks of enum ibv_qp_attr_mask, without IBV_QP_STATE.
  int ud_required, ud_optional;
  bool rc = true;  ///< Exists for RC (SQE does not).
};

/// nullptr: there is no such transition for that type.
const Transition* find_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to);

/// 0, or EINVAL if the transition does not exist, a required attribute is missing, or one is given
/// that it does not allow.
int check_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace roce::soft

#endif  // ROCE_SOFT_QP_TRANSITIONS_H_

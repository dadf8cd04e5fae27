#include "soft/qp_transitions.h"

#include <cerrno>

namespace roce::soft {
namespace {

constexpr int kPort = IBV_QP_PORT, kPkey = IBV_QP_PKEY_INDEX, kAccess = IBV_QP_ACCESS_FLAGS,
              kQkey = IBV_QP_QKEY, kAv = IBV_QP_AV, kAlt = IBV_QP_ALT_PATH, kCur = IBV_QP_CUR_STATE,
              kMig = IBV_QP_PATH_MIG_STATE, kRnrTimer = IBV_QP_MIN_RNR_TIMER,
              kTimeout = IBV_QP_TIMEOUT, kRetry = IBV_QP_RETRY_CNT, kRnrRetry = IBV_QP_RNR_RETRY,
              kRdAtomic = IBV_QP_MAX_QP_RD_ATOMIC, kDestRdAtomic = IBV_QP_MAX_DEST_RD_ATOMIC;

constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kPkey | kPort | kAccess, 0, kPkey | kPort | kQkey, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kPkey | kPort | kAccess, 0, kPkey | kPort | kQkey},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     kAv | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | kDestRdAtomic | kRnrTimer,
     kAlt | kAccess | kPkey, 0, kPkey | kQkey},
    {IBV_QPS_RTR, IBV_QPS_RTS, kTimeout | kRetry | kRnrRetry | IBV_QP_SQ_PSN | kRdAtomic,
     kCur | kAlt | kAccess | kRnrTimer | kMig, IBV_QP_SQ_PSN, kCur | kQkey},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kCur | kAccess | kAlt | kMig | kRnrTimer, 0, kCur | kQkey},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kCur | kAlt | kAccess | kRnrTimer | kMig, 0, kCur | kQkey},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     kPort | kAv | kTimeout | kRetry | kRnrRetry | kRdAtomic | kDestRdAtomic | kAlt | kAccess |
         kPkey | kRnrTimer | kMig,
     0, kPkey | kQkey},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, 0, 0, kCur | kQkey, false},
};

/// RESET and ERR may be entered from everywhere, with no attributes.
constexpr Transition kToReset = {IBV_QPS_UNKNOWN, IBV_QPS_RESET, 0, 0, 0, 0};
constexpr Transition kToError = {IBV_QPS_UNKNOWN, IBV_QPS_ERR, 0, 0, 0, 0};

}  // namespace

const Transition* find_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET) return &kToReset;
  if (to == IBV_QPS_ERR) return &kToError;
  for (const Transition& transition : kTransitions) {
    if (transition.from == from && transition.to == to) {
      return type == IBV_QPT_RC && !transition.rc ? nullptr : &transition;
    }
  }
  return nullptr;
}

int check_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
  const Transition* transition = find_transition(type, from, to);
  if (transition == nullptr) return EINVAL;
  const bool ud = type == IBV_QPT_UD;
  const int required = ud ? transition->ud_required : transition->rc_required;
  const int optional = ud ? transition->ud_optional : transition->rc_optional;
  if ((mask & required) != required) return EINVAL;
  return (mask & ~(required | optional | IBV_QP_STATE)) == 0 ? 0 : EINVAL;
}

}  // namespace roce::soft

// Queue pairs and shared receive queues.
#include "preload/next.h"

namespace soft = roce::soft;
using roce::preload::not_supported;

ROCE_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return soft::owns(pd->context) ? soft::create_srq(pd, attributes)
                                 : ROCE_NEXT(ibv_create_srq)(pd, attributes);
}

ROCE_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  return soft::owns(srq->context) ? soft::modify_srq(srq, attributes, mask)
                                  : ROCE_NEXT(ibv_modify_srq)(srq, attributes, mask);
}

ROCE_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  return soft::owns(srq->context) ? soft::query_srq(srq, attributes)
                                  : ROCE_NEXT(ibv_query_srq)(srq, attributes);
}

ROCE_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  return soft::owns(srq->context) ? soft::destroy_srq(srq) : ROCE_NEXT(ibv_destroy_srq)(srq);
}

ROCE_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return soft::owns(pd->context) ? soft::create_qp(pd, attributes)
                                 : ROCE_NEXT(ibv_create_qp)(pd, attributes);
}

ROCE_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  return soft::owns(qp->context) ? soft::modify_qp(qp, attributes, mask)
                                 : ROCE_NEXT(ibv_modify_qp)(qp, attributes, mask);
}

ROCE_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask,
                             ibv_qp_init_attr* init) {
  return soft::owns(qp->context) ? soft::query_qp(qp, attributes, mask, init)
                                 : ROCE_NEXT(ibv_query_qp)(qp, attributes, mask, init);
}

ROCE_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  return soft::owns(qp->context) ? soft::destroy_qp(qp) : ROCE_NEXT(ibv_destroy_qp)(qp);
}

ROCE_EXPORT int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, uint32_t flags) {
  return soft::owns(qp->context) ? 0 : ROCE_NEXT(ibv_query_qp_data_in_order)(qp, opcode, flags);
}

ROCE_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  return soft::owns(qp->context) ? not_supported() : ROCE_NEXT(ibv_set_ece)(qp, ece);
}

ROCE_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  return soft::owns(qp->context) ? not_supported() : ROCE_NEXT(ibv_query_ece)(qp, ece);
}

ROCE_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return soft::owns(qp->context) ? not_supported() : ROCE_NEXT(ibv_attach_mcast)(qp, gid, lid);
}

ROCE_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return soft::owns(qp->context) ? not_supported() : ROCE_NEXT(ibv_detach_mcast)(qp, gid, lid);
}

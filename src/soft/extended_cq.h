// The extended completion queue: start_poll, next_poll and field readers over the same ring.
#ifndef ROCE_SOFT_EXTENDED_CQ_H_
#define ROCE_SOFT_EXTENDED_CQ_H_

#include <infiniband/verbs.h>

namespace roce::soft {

/// As ibv_create_cq_ex, for the standard fields and completion timestamps (host clock, nanoseconds,
/// at the time of polling).
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);

}  // namespace roce::soft

#endif  // ROCE_SOFT_EXTENDED_CQ_H_

// libroce-verbs.so: the software device for unmodified verbs programs, by LD_PRELOAD.
//
// Each file defines ibv_ functions that stand in front of libibverbs; device_file.cc some of the C
// library's. Invariants:
// - an object of a soft device, told by its context, goes to src/soft; every other one goes to
//   libibverbs untouched, and nothing behind its public structure is read;
// - every exported function of libibverbs that takes an object is defined here, so that no soft
//   object ever reaches libibverbs; but ibv_qp_to_qp_ex, which only reads what soft queue pairs
//   have;
// - what the soft device does not have answers EOPNOTSUPP;
// - nothing but these functions is exported, and no ibv_ function is called from here.
#ifndef ROCE_PRELOAD_NEXT_H_
#define ROCE_PRELOAD_NEXT_H_

#include <infiniband/verbs.h>

#include <cerrno>

#include "soft/soft.h"

// verbs.h makes these names macros; here the functions are meant.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define ROCE_EXPORT extern "C" __attribute__((visibility("default")))

namespace roce::preload {

/// Address of the next function of this name; ends the program with a message if there is none, as
/// nothing that called it could go on.
void* find_next(const char* name);

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(find_next(name));
}

inline int not_supported() { return errno = EOPNOTSUPP; }
inline std::nullptr_t none_supported() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace roce::preload

/// The function of this name that libibverbs or the C library has.
#define ROCE_NEXT(name)                                                       \
  ([] {                                                                       \
    static auto* const function = roce::preload::next<decltype(name)>(#name); \
    return function;                                                          \
  }())

#endif  // ROCE_PRELOAD_NEXT_H_

// Protection domains, memory regions and address handles.
#include "preload/next.h"

namespace soft = roce::soft;
using roce::preload::none_supported;
using roce::preload::not_supported;

ROCE_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return soft::owns(context) ? soft::alloc_pd(context) : ROCE_NEXT(ibv_alloc_pd)(context);
}

ROCE_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  return soft::owns(pd->context) ? soft::dealloc_pd(pd) : ROCE_NEXT(ibv_dealloc_pd)(pd);
}

ROCE_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return soft::owns(pd->context) ? soft::reg_mr(pd, address, length, access)
                                 : ROCE_NEXT(ibv_reg_mr)(pd, address, length, access);
}

ROCE_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                    int access) {
  return soft::owns(pd->context) ? soft::reg_mr_iova(pd, address, length, iova, access)
                                 : ROCE_NEXT(ibv_reg_mr_iova)(pd, address, length, iova, access);
}

ROCE_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                     unsigned int access) {
  // Optional access flags are those that a device may ignore.
  const int required = static_cast<int>(access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE));
  return soft::owns(pd->context) ? soft::reg_mr_iova(pd, address, length, iova, required)
                                 : ROCE_NEXT(ibv_reg_mr_iova2)(pd, address, length, iova, access);
}

ROCE_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova,
                                      int fd, int access) {
  return soft::owns(pd->context)
             ? none_supported()
             : ROCE_NEXT(ibv_reg_dmabuf_mr)(pd, offset, length, iova, fd, access);
}

ROCE_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length,
                             int access) {
  return soft::owns(mr->context) ? soft::rereg_mr(mr, flags, pd, address, length, access)
                                 : ROCE_NEXT(ibv_rereg_mr)(mr, flags, pd, address, length, access);
}

ROCE_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  return soft::owns(mr->context) ? soft::dereg_mr(mr) : ROCE_NEXT(ibv_dereg_mr)(mr);
}

ROCE_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  return soft::owns(pd->context) ? none_supported() : ROCE_NEXT(ibv_import_mr)(pd, handle);
}

ROCE_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  if (!soft::owns(mr->context)) ROCE_NEXT(ibv_unimport_mr)(mr);
}

ROCE_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  return soft::owns(context) ? none_supported() : ROCE_NEXT(ibv_import_pd)(context, handle);
}

ROCE_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  if (!soft::owns(pd->context)) ROCE_NEXT(ibv_unimport_pd)(pd);
}

ROCE_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
  return soft::owns(context) ? none_supported() : ROCE_NEXT(ibv_import_dm)(context, handle);
}

ROCE_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
  if (!soft::owns(dm->context)) ROCE_NEXT(ibv_unimport_dm)(dm);
}

ROCE_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  return soft::owns(pd->context) ? soft::create_ah(pd, attributes)
                                 : ROCE_NEXT(ibv_create_ah)(pd, attributes);
}

ROCE_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                    ibv_ah_attr* attributes) {
  return soft::owns(context) ? soft::init_ah_from_wc(context, port, wc, grh, attributes)
                             : ROCE_NEXT(ibv_init_ah_from_wc)(context, port, wc, grh, attributes);
}

ROCE_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  if (!soft::owns(pd->context)) return ROCE_NEXT(ibv_create_ah_from_wc)(pd, wc, grh, port);
  ibv_ah_attr attributes{};
  if (soft::init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0) return nullptr;
  return soft::create_ah(pd, &attributes);
}

ROCE_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  return soft::owns(ah->context) ? soft::destroy_ah(ah) : ROCE_NEXT(ibv_destroy_ah)(ah);
}

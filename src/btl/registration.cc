// Registration of memory through Open MPI's cache.
#include <cstddef>
#include <new>

#include "btl/messages.h"
#include "btl/module.h"

namespace roce::btl {
namespace {

using transport::Registration;

/// What the cache keeps for a region. Open MPI's handle is the address of `registration`, whose
/// first bytes are what peers need.
struct CachedRegistration {
  mca_rcache_base_registration_t base;
  Registration registration;
};
static_assert(offsetof(Registration, handle) == 0);

unsigned access_of(int32_t flags) {
  unsigned access = 0;
  // Whoever may write from outside writes into memory that must be writable here too. Nothing is
  // added for reads: pages of constants have to stay registrable.
  if ((flags & MCA_RCACHE_ACCESS_LOCAL_WRITE) != 0) access |= transport::kLocalWrite;
  if ((flags & MCA_RCACHE_ACCESS_REMOTE_READ) != 0) access |= transport::kRemoteRead;
  if ((flags & MCA_RCACHE_ACCESS_REMOTE_WRITE) != 0) {
    access |= transport::kRemoteWrite | transport::kLocalWrite;
  }
  if ((flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC) != 0) access |= transport::kRemoteAtomic;
  return access;
}

// The two callbacks of the cache. Deregistration may run inside free() or munmap(): it allocates
// nothing and takes no lock of ours.
int cache_register(void* context, void* base, size_t bytes,
                   mca_rcache_base_registration_t* cached) noexcept {
  Module& module = *static_cast<Module*>(context);
  auto* registration =
      new (&reinterpret_cast<CachedRegistration*>(cached)->registration) Registration{};
  const Status status =
      module.transport->register_memory(base, bytes, access_of(cached->access_flags), registration);
  if (status) return OPAL_SUCCESS;
  say_verbose(1, "memory of " + std::to_string(bytes) + " bytes not registered: " + status.text());
  // Out of resources: the cache evicts another region and tries again.
  return status.code() == Code::kOutOfResources ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERROR;
}

int cache_deregister(void* context, mca_rcache_base_registration_t* cached) noexcept {
  Module& module = *static_cast<Module*>(context);
  module.transport->deregister_memory(&reinterpret_cast<CachedRegistration*>(cached)->registration);
  return OPAL_SUCCESS;
}

}  // namespace

void open_registration_cache(void* context) {
  Module& module = *static_cast<Module*>(context);
  if ((module.btl_flags & (MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET)) == 0) return;
  char cache_name[] = "roce";  // copied by the cache
  mca_rcache_base_resources_t resources = {};
  resources.cache_name = cache_name;
  resources.reg_data = &module;
  resources.sizeof_reg = sizeof(CachedRegistration);
  resources.register_mem = cache_register;
  resources.deregister_mem = cache_deregister;
  module.rcache = mca_rcache_base_module_create("grdma", &module, &resources);
  if (module.rcache == nullptr) {
    say_verbose(1, "no registration cache (rcache grdma): large messages go by send");
  }
}

mca_btl_base_registration_handle_t* register_mem(mca_btl_base_module_t* btl,
                                                 mca_btl_base_endpoint_t*, void* base, size_t bytes,
                                                 uint32_t flags) noexcept {
  Module& module = Module::of(btl);
  if (module.rcache == nullptr) return nullptr;
  mca_rcache_base_registration_t* cached = nullptr;
  const int access = static_cast<int>(flags & MCA_BTL_REG_FLAG_ACCESS_ANY);
  const int rc = module.rcache->rcache_register(module.rcache, base, bytes, 0, access, &cached);
  if (rc != OPAL_SUCCESS || cached == nullptr) return nullptr;
  return reinterpret_cast<mca_btl_base_registration_handle_t*>(
      &reinterpret_cast<CachedRegistration*>(cached)->registration);
}

int deregister_mem(mca_btl_base_module_t* btl,
                   mca_btl_base_registration_handle_t* handle) noexcept {
  Module& module = Module::of(btl);
  auto* cached = reinterpret_cast<CachedRegistration*>(reinterpret_cast<char*>(handle) -
                                                       offsetof(CachedRegistration, registration));
  (void)module.rcache->rcache_deregister(module.rcache, &cached->base);
  return OPAL_SUCCESS;
}

}  // namespace roce::btl

// Registration of memory through Open MPI's cache, put and get.
#include <cstddef>
#include <new>

#include "btl/messages.h"
#include "btl/module.h"

namespace roce::btl {
namespace {

using transport::MemoryHandle;
using transport::Operation;
using transport::Registration;

/// What the cache keeps for a region. Open MPI's handle is the address of `registration`, whose
/// first bytes are what peers need.
struct CachedRegistration {
  mca_rcache_base_registration_t base;
  Registration registration;
};
static_assert(offsetof(Registration, handle) == 0);

Registration* registration_of(mca_btl_base_registration_handle_t* handle) {
  return reinterpret_cast<Registration*>(handle);
}

unsigned access_of(int32_t flags) {
  unsigned access = 0;
  // Whoever may write from outside writes into memory that must be writable here too. Nothing is
  // added for reads: pages of constants have to stay registrable.
  if ((flags & MCA_RCACHE_ACCESS_LOCAL_WRITE) != 0) access |= transport::kLocalWrite;
  if ((flags & MCA_RCACHE_ACCESS_REMOTE_READ) != 0) access |= transport::kRemoteRead;
  if ((flags & MCA_RCACHE_ACCESS_REMOTE_WRITE) != 0) {
    access |= transport::kRemoteWrite | transport::kLocalWrite;
  }
  // MCA_RCACHE_ACCESS_REMOTE_ATOMIC is a part of "any access", but no atomics are offered and not
  // every device has them.
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

/// A put or get under way with what its callback needs.
struct Transfer : Operation {
  Module* module;
  mca_btl_base_endpoint_t* peer;
  void* local_address;
  mca_btl_base_registration_handle_t* local_handle;
  mca_btl_base_rdma_completion_fn_t callback;
  void* callback_context;
  void* callback_data;
};

/// Operation::complete.
void transfer_complete(Operation* operation, Code status) {
  const Transfer transfer = *static_cast<Transfer*>(operation);
  delete static_cast<Transfer*>(operation);
  // Open MPI's one-sided code does not look at the status and would use data that never came. A
  // failed peer is reported by the error callback instead, which ends the job.
  if (status != Code::kOk || transfer.callback == nullptr) return;
  transfer.callback(transfer.module, transfer.peer, transfer.local_address, transfer.local_handle,
                    transfer.callback_context, transfer.callback_data, OPAL_SUCCESS);
}

int code_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return OPAL_SUCCESS;
    case Code::kOutOfResources:
      return OPAL_ERR_OUT_OF_RESOURCE;
    case Code::kInvalidArgument:
      return OPAL_ERR_BAD_PARAM;
    case Code::kNotSupported:
      return OPAL_ERR_NOT_SUPPORTED;
    case Code::kUnreachable:
      return OPAL_ERR_UNREACH;
    default:
      return OPAL_ERROR;
  }
}

struct TransferArguments {
  mca_btl_base_endpoint_t* endpoint;
  void* local_address;
  uint64_t remote_address;
  mca_btl_base_registration_handle_t* local_handle;
  mca_btl_base_registration_handle_t* remote_handle;
  size_t bytes;
  mca_btl_base_rdma_completion_fn_t callback;
  void* context;
  void* data;
};

/// Starts a transfer. Never returns a positive value: ob1 takes one for an error of put, and for a
/// get it would wait for ever.
int start(Module& module, const TransferArguments& arguments, bool is_get) {
  if (arguments.endpoint == nullptr || arguments.remote_handle == nullptr) {
    return OPAL_ERR_BAD_PARAM;
  }
  auto* transfer = new (std::nothrow) Transfer{};
  if (transfer == nullptr) return OPAL_ERR_OUT_OF_RESOURCE;
  transfer->complete = transfer_complete;
  transfer->module = &module;
  transfer->peer = arguments.endpoint;
  transfer->local_address = arguments.local_address;
  transfer->local_handle = arguments.local_handle;
  transfer->callback = arguments.callback;
  transfer->callback_context = arguments.context;
  transfer->callback_data = arguments.data;
  // It comes out of a message, with any alignment.
  MemoryHandle remote;
  std::memcpy(&remote, arguments.remote_handle, sizeof remote);
  Registration* local = registration_of(arguments.local_handle);
  transport::Endpoint* peer = arguments.endpoint->peer;
  const Status status =
      is_get ? module.transport->get(peer, transfer, arguments.local_address, local,
                                     arguments.remote_address, remote, arguments.bytes)
             : module.transport->put(peer, transfer, arguments.local_address, local,
                                     arguments.remote_address, remote, arguments.bytes);
  if (!status) delete transfer;
  return code_of(status);
}

}  // namespace

void open_registration_cache(Module& module) {
  constexpr uint32_t kRdmaFlags = MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET;
  if ((module.btl_flags & kRdmaFlags) == 0) return;  // turned off by the user
  char cache_name[] = "roce";                        // copied by the cache
  mca_rcache_base_resources_t resources = {};
  resources.cache_name = cache_name;
  resources.reg_data = &module;
  resources.sizeof_reg = sizeof(CachedRegistration);
  resources.register_mem = cache_register;
  resources.deregister_mem = cache_deregister;
  module.rcache = mca_rcache_base_module_create("grdma", &module, &resources);
  if (module.rcache != nullptr) return;
  module.btl_flags &= ~kRdmaFlags;
  say_verbose(1, "no registration cache (rcache grdma): large messages go by send");
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

int put(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
        uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
        mca_btl_base_registration_handle_t* remote_handle, size_t bytes, int, int,
        mca_btl_base_rdma_completion_fn_t callback, void* context, void* data) noexcept {
  // Without a local registration the data must fit into the work request.
  if (local_handle == nullptr && bytes > btl->btl_put_local_registration_threshold) {
    return OPAL_ERR_BAD_PARAM;
  }
  return start(Module::of(btl),
               {endpoint, local_address, remote_address, local_handle, remote_handle, bytes,
                callback, context, data},
               false);
}

int get(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
        uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
        mca_btl_base_registration_handle_t* remote_handle, size_t bytes, int, int,
        mca_btl_base_rdma_completion_fn_t callback, void* context, void* data) noexcept {
  if (local_handle == nullptr) return OPAL_ERR_BAD_PARAM;
  return start(Module::of(btl),
               {endpoint, local_address, remote_address, local_handle, remote_handle, bytes,
                callback, context, data},
               true);
}

}  // namespace roce::btl

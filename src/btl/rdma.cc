// Put, get and atomics.
#include <new>

#include "btl/module.h"

namespace roce::btl {
namespace {

using transport::Endpoint;
using transport::MemoryHandle;
using transport::Operation;
using transport::Registration;
using transport::Transport;

Registration* registration_of(mca_btl_base_registration_handle_t* handle) {
  return reinterpret_cast<Registration*>(handle);
}

/// A transfer under way with what its callback needs.
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

/// What Open MPI hands over with every transfer.
struct TransferArguments {
  mca_btl_base_endpoint_t* endpoint;
  void* local_address;
  uint64_t remote_address;
  mca_btl_base_registration_handle_t* local_handle;
  mca_btl_base_registration_handle_t* remote_handle;
  mca_btl_base_rdma_completion_fn_t callback;
  void* context;
  void* data;
};

/// Starts a transfer: `post` hands it to the transport. Never returns a positive value: ob1 takes
/// one for an error of put, for a get it would wait for ever.
template <typename Post>
int start(Module& module, const TransferArguments& arguments, Post post) {
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
  const Status status = post(*module.transport, peer_of(arguments.endpoint), transfer,
                             registration_of(arguments.local_handle), remote);
  if (!status) delete transfer;
  return code_of(status);
}

}  // namespace

int put(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
        uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
        mca_btl_base_registration_handle_t* remote_handle, size_t bytes, int, int,
        mca_btl_base_rdma_completion_fn_t callback, void* context, void* data) noexcept {
  // Without a local registration the data must fit into the work request.
  if (local_handle == nullptr && bytes > btl->btl_put_local_registration_threshold) {
    return OPAL_ERR_BAD_PARAM;
  }
  return start(Module::of(btl),
               {endpoint, local_address, remote_address, local_handle, remote_handle, callback,
                context, data},
               [&](Transport& transport, Endpoint* peer, Operation* transfer, Registration* local,
                   const MemoryHandle& remote) {
                 return transport.put(peer, transfer, local_address, local, remote_address, remote,
                                      bytes);
               });
}

int get(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
        uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
        mca_btl_base_registration_handle_t* remote_handle, size_t bytes, int, int,
        mca_btl_base_rdma_completion_fn_t callback, void* context, void* data) noexcept {
  if (local_handle == nullptr) return OPAL_ERR_BAD_PARAM;
  return start(Module::of(btl),
               {endpoint, local_address, remote_address, local_handle, remote_handle, callback,
                context, data},
               [&](Transport& transport, Endpoint* peer, Operation* transfer, Registration* local,
                   const MemoryHandle& remote) {
                 return transport.get(peer, transfer, local_address, local, remote_address, remote,
                                      bytes);
               });
}

int atomic_fop(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
               uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
               mca_btl_base_registration_handle_t* remote_handle, mca_btl_base_atomic_op_t op,
               uint64_t operand, int flags, int, mca_btl_base_rdma_completion_fn_t callback,
               void* context, void* data) noexcept {
  if (op != MCA_BTL_ATOMIC_ADD || flags != 0) return OPAL_ERR_NOT_SUPPORTED;
  return start(Module::of(btl),
               {endpoint, local_address, remote_address, local_handle, remote_handle, callback,
                context, data},
               [&](Transport& transport, Endpoint* peer, Operation* transfer, Registration* local,
                   const MemoryHandle& remote) {
                 return transport.fetch_add(peer, transfer, local_address, local, remote_address,
                                            remote, operand);
               });
}

int atomic_cswap(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
                 uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
                 mca_btl_base_registration_handle_t* remote_handle, uint64_t compare,
                 uint64_t value, int flags, int, mca_btl_base_rdma_completion_fn_t callback,
                 void* context, void* data) noexcept {
  if (flags != 0) return OPAL_ERR_NOT_SUPPORTED;
  return start(Module::of(btl),
               {endpoint, local_address, remote_address, local_handle, remote_handle, callback,
                context, data},
               [&](Transport& transport, Endpoint* peer, Operation* transfer, Registration* local,
                   const MemoryHandle& remote) {
                 return transport.compare_swap(peer, transfer, local_address, local, remote_address,
                                               remote, compare, value);
               });
}

}  // namespace roce::btl

// The Open MPI component `roce`: a thin adapter between Open MPI's byte transfer layer (BTL) and
// roce::transport.
//
// - component.cc   what the MCA calls: register, open, init, progress
// - settings.cc    MCA variables, their ranges, and whether the user named roce
// - messages.cc    what is printed, and how often
// - module.cc      peers, errors, the end
// - fragment.cc    descriptors: alloc, prepare, send, receive
// - registration.cc  memory, through Open MPI's registration cache
// - rdma.cc        put, get, atomics
//
// Invariants:
// - one module per process; rails are the transport's business;
// - nothing throws across a function that Open MPI calls;
// - callbacks of Open MPI run without any lock of ours held: they come back into send, put, get,
//   alloc, register and progress.
#ifndef ROCE_BTL_MODULE_H_
#define ROCE_BTL_MODULE_H_

#include <memory>
#include <string>

#include "btl/ompi_compat.h"
#include "roce/transport.h"
#include "transport/params.h"

namespace roce::btl {

/// Open MPI's endpoint is the transport's under another name, never looked into; its context is the
/// opal_proc_t of the peer, null unless add_procs has been called for it.
inline transport::Endpoint* peer_of(mca_btl_base_endpoint_t* endpoint) {
  return reinterpret_cast<transport::Endpoint*>(endpoint);
}
inline mca_btl_base_endpoint_t* handle_of(transport::Endpoint* peer) {
  return reinterpret_cast<mca_btl_base_endpoint_t*>(peer);
}

/// The module and its state. Made by component init, deleted by btl_finalize.
struct Module : mca_btl_base_module_t {
  explicit Module(const mca_btl_base_module_t& values) : mca_btl_base_module_t(values) {}
  ~Module();  ///< Closes the registration cache, then the transport.
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  transport::ProcessName name;
  transport::Params params;
  std::unique_ptr<transport::Transport> transport;
  mca_rcache_base_module_t* rcache = nullptr;  ///< Null: put and get are not offered.
  mca_btl_base_module_error_cb_fn_t error_callback = nullptr;

  static Module& of(mca_btl_base_module_t* btl) { return *static_cast<Module*>(btl); }
};

// component.cc
/// The exported component.
mca_btl_base_component_3_0_0_t& component();
/// Progress has no module to work on from here on.
void forget_module();

// module.cc
int add_procs(mca_btl_base_module_t* btl, size_t count, opal_proc_t** procs,
              mca_btl_base_endpoint_t** endpoints, opal_bitmap_t* reachable) noexcept;
int del_procs(mca_btl_base_module_t* btl, size_t count, opal_proc_t** procs,
              mca_btl_base_endpoint_t** endpoints) noexcept;
int finalize(mca_btl_base_module_t* btl) noexcept;
int register_error(mca_btl_base_module_t* btl, mca_btl_base_module_error_cb_fn_t callback) noexcept;
void dump(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, int verbose) noexcept;
/// Options::error of the transport.
void peer_failed(void* module, transport::Endpoint* peer, const std::string& text);

// fragment.cc
mca_btl_base_descriptor_t* alloc(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                                 uint8_t order, size_t bytes, uint32_t flags) noexcept;
int free_descriptor(mca_btl_base_module_t* btl, mca_btl_base_descriptor_t* descriptor) noexcept;
mca_btl_base_descriptor_t* prepare_src(mca_btl_base_module_t* btl,
                                       mca_btl_base_endpoint_t* endpoint,
                                       opal_convertor_t* convertor, uint8_t order, size_t reserve,
                                       size_t* bytes, uint32_t flags) noexcept;
int send(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
         mca_btl_base_descriptor_t* descriptor, mca_btl_base_tag_t tag) noexcept;
/// A message whose data the caller may reuse at once; queued where it cannot leave now. `unsent`
/// may be null.
int sendi(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
          opal_convertor_t* convertor, void* header, size_t header_bytes, size_t payload_bytes,
          uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
          mca_btl_base_descriptor_t** unsent) noexcept;
/// Room that a Fragment must have for the adapter's descriptor.
size_t descriptor_bytes();
/// Options::receive of the transport.
void receive(void* module, transport::Endpoint* from, uint8_t tag, uint8_t* data, uint32_t bytes);

// registration.cc
/// Options::before_threads of the transport: makes the registration cache, unless the user has
/// turned put and get off.
void open_registration_cache(void* module);
mca_btl_base_registration_handle_t* register_mem(mca_btl_base_module_t* btl,
                                                 mca_btl_base_endpoint_t* endpoint, void* base,
                                                 size_t bytes, uint32_t flags) noexcept;
int deregister_mem(mca_btl_base_module_t* btl, mca_btl_base_registration_handle_t* handle) noexcept;

// rdma.cc
int put(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
        uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
        mca_btl_base_registration_handle_t* remote_handle, size_t bytes, int flags, int order,
        mca_btl_base_rdma_completion_fn_t callback, void* context, void* data) noexcept;
int get(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
        uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
        mca_btl_base_registration_handle_t* remote_handle, size_t bytes, int flags, int order,
        mca_btl_base_rdma_completion_fn_t callback, void* context, void* data) noexcept;
/// ADD of 8 bytes; everything else is refused with OPAL_ERR_NOT_SUPPORTED, upon which osc/rdma uses
/// compare-and-swap, or a lock, get and put.
int atomic_fop(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
               uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
               mca_btl_base_registration_handle_t* remote_handle, mca_btl_base_atomic_op_t op,
               uint64_t operand, int flags, int order, mca_btl_base_rdma_completion_fn_t callback,
               void* context, void* data) noexcept;
int atomic_cswap(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, void* local_address,
                 uint64_t remote_address, mca_btl_base_registration_handle_t* local_handle,
                 mca_btl_base_registration_handle_t* remote_handle, uint64_t compare,
                 uint64_t value, int flags, int order, mca_btl_base_rdma_completion_fn_t callback,
                 void* context, void* data) noexcept;

}  // namespace roce::btl

#endif  // ROCE_BTL_MODULE_H_

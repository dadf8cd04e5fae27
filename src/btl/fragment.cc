// Descriptors: what Open MPI fills and sends. A descriptor lives in the adapter's room of a
// transport fragment, its one segment is the fragment's message.
#include <algorithm>
#include <cstring>
#include <new>

#include "btl/messages.h"
#include "btl/module.h"
#include "transport/counters.h"

namespace roce::btl {
namespace {

using transport::Fragment;

struct Descriptor : mca_btl_base_descriptor_t {
  mca_btl_base_segment_t segment;
  Fragment* fragment;
  Module* module;
  mca_btl_base_endpoint_t* endpoint;  ///< Set by send.

  static Descriptor& of(mca_btl_base_descriptor_t* base) { return *static_cast<Descriptor*>(base); }
};

/// Room of a descriptor that is known to have been made by us bears this mark in Fragment::context;
/// what is in the room of a new fragment is not known.
char constructed_mark;

void construct(Fragment* fragment, Module& module) {
  auto* descriptor = new (fragment->adapter) Descriptor{};
  auto* base = static_cast<mca_btl_base_descriptor_t*>(descriptor);
  OBJ_CONSTRUCT(base, mca_btl_base_descriptor_t);
  descriptor->fragment = fragment;
  descriptor->module = &module;
  fragment->context = &constructed_mark;
}

/// Null if the pool cannot grow: ob1 queues the request and tries again.
Fragment* acquire_fragment(Module& module, size_t bytes) {
  try {
    return module.transport->acquire(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Descriptor* acquire(Module& module, size_t bytes, uint32_t flags) {
  Fragment* fragment = acquire_fragment(module, bytes);
  if (fragment == nullptr) return nullptr;
  if (fragment->context != &constructed_mark) construct(fragment, module);
  auto* descriptor = static_cast<Descriptor*>(fragment->adapter);
  descriptor->segment.seg_addr.pval = fragment->data;
  descriptor->segment.seg_len = bytes;
  descriptor->des_segments = &descriptor->segment;
  descriptor->des_segment_count = 1;
  descriptor->des_cbfunc = nullptr;
  descriptor->des_flags = flags;
  descriptor->order = MCA_BTL_NO_ORDER;
  return descriptor;
}

/// Calls the sender's callback and frees the descriptor if that is ours to do. What must be known
/// afterwards is read before: the callback may free the descriptor.
void call_back(Descriptor& descriptor, uint32_t flags, int status) {
  Module& module = *descriptor.module;
  Fragment* fragment = descriptor.fragment;
  descriptor.des_cbfunc(&module, descriptor.endpoint, &descriptor, status);
  if ((flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0) module.transport->release(fragment);
}

/// Fragment::complete: the send has been acknowledged, or its peer has failed.
void send_complete(Fragment* fragment, Code status) {
  auto& descriptor = *static_cast<Descriptor*>(fragment->adapter);
  if (status == Code::kOk) {
    call_back(descriptor, descriptor.des_flags, OPAL_SUCCESS);
  } else if (kDeliverSendErrors) {
    call_back(descriptor, descriptor.des_flags, OPAL_ERR_UNREACH);
  } else if ((descriptor.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0) {
    // The error callback ends the job; an error here would make ob1 end it without a reason.
    descriptor.module->transport->release(fragment);
  }
}

/// Fragment::complete after sendi: nobody waits for it.
void immediate_complete(Fragment* fragment, Code) {
  static_cast<Descriptor*>(fragment->adapter)->module->transport->release(fragment);
}

/// Packs up to `*bytes` of the convertor's data; `*bytes` becomes what was packed.
bool pack(opal_convertor_t* convertor, uint8_t* to, size_t* bytes) {
  if (*bytes == 0) return true;
  iovec target = {to, *bytes};
  uint32_t targets = 1;
  return opal_convertor_pack(convertor, &target, &targets, bytes) >= 0;
}

}  // namespace

size_t descriptor_bytes() { return sizeof(Descriptor); }

mca_btl_base_descriptor_t* alloc(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t*, uint8_t,
                                 size_t bytes, uint32_t flags) noexcept {
  return acquire(Module::of(btl), bytes, flags);
}

int free_descriptor(mca_btl_base_module_t* btl, mca_btl_base_descriptor_t* base) noexcept {
  Module::of(btl).transport->release(Descriptor::of(base).fragment);
  return OPAL_SUCCESS;
}

mca_btl_base_descriptor_t* prepare_src(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t*,
                                       opal_convertor_t* convertor, uint8_t, size_t reserve,
                                       size_t* bytes, uint32_t flags) noexcept {
  Module& module = Module::of(btl);
  if (reserve > module.btl_max_send_size) return nullptr;
  size_t packed = std::min(*bytes, module.btl_max_send_size - reserve);
  Descriptor* descriptor = acquire(module, reserve + packed, flags);
  if (descriptor == nullptr) return nullptr;
  if (!pack(convertor, descriptor->fragment->data + reserve, &packed)) {
    module.transport->release(descriptor->fragment);
    return nullptr;
  }
  descriptor->segment.seg_len = reserve + packed;
  *bytes = packed;
  return descriptor;
}

int send(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
         mca_btl_base_descriptor_t* base, mca_btl_base_tag_t tag) noexcept {
  Module& module = Module::of(btl);
  Descriptor& descriptor = Descriptor::of(base);
  Fragment* fragment = descriptor.fragment;
  const uint64_t bytes = descriptor.des_segments->seg_len;  // as the sender left it
  if (bytes > fragment->capacity) return OPAL_ERR_BAD_PARAM;
  const uint32_t flags = descriptor.des_flags;
  fragment->length = static_cast<uint32_t>(bytes);
  fragment->tag = tag;
  fragment->complete = send_complete;
  descriptor.endpoint = endpoint;
  // Before send, because another thread's progress may complete it before send returns.
  descriptor.des_flags = flags | MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
  if (!module.transport->send(peer_of(endpoint), fragment)) return OPAL_SUCCESS;

  descriptor.des_flags = flags;
  if ((flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) != 0) {
    call_back(descriptor, flags, OPAL_SUCCESS);
  } else if ((flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0) {
    module.transport->release(fragment);
  }
  return 1;
}

int sendi(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
          opal_convertor_t* convertor, void* header, size_t header_bytes, size_t payload_bytes,
          uint8_t, uint32_t flags, mca_btl_base_tag_t tag,
          mca_btl_base_descriptor_t** unsent) noexcept {
  Module& module = Module::of(btl);
  if (unsent != nullptr) *unsent = nullptr;
  const size_t bytes = header_bytes + payload_bytes;
  if (bytes > module.btl_max_send_size) return OPAL_ERR_BAD_PARAM;
  Descriptor* descriptor = acquire(module, bytes, flags);
  if (descriptor == nullptr) return OPAL_ERR_OUT_OF_RESOURCE;
  Fragment* fragment = descriptor->fragment;
  std::memcpy(fragment->data, header, header_bytes);
  size_t packed = payload_bytes;
  if (!pack(convertor, fragment->data + header_bytes, &packed) || packed != payload_bytes) {
    module.transport->release(fragment);
    return OPAL_ERROR;
  }
  fragment->length = static_cast<uint32_t>(bytes);
  fragment->tag = tag;
  fragment->complete = immediate_complete;
  if (module.transport->send(peer_of(endpoint), fragment)) module.transport->release(fragment);
  return OPAL_SUCCESS;
}

void receive(void* context, transport::Endpoint* from, uint8_t tag, uint8_t* data, uint32_t bytes) {
  auto& module = *static_cast<Module*>(context);
  if (!deliver(&module, handle_of(from), tag, data, bytes)) {
    module.transport->counters().add(transport::Counter::bad_messages);
    say_verbose(1, "message of " + std::to_string(bytes) + " bytes with the unknown tag " +
                       std::to_string(tag) + " dropped");
  }
}

}  // namespace roce::btl

// Devices and contexts.
#include <cstdlib>
#include <cstring>

#include "preload/next.h"

namespace soft = roce::soft;
using roce::preload::not_supported;

namespace {

/// What ibv_get_device_list returns points at `devices`; libibverbs' own list goes with it, to be
/// freed together.
struct DeviceList {
  ibv_device** system;
  ibv_device* devices[];
};

DeviceList* list_of(ibv_device** devices) {
  return reinterpret_cast<DeviceList*>(reinterpret_cast<char*>(devices) -
                                       offsetof(DeviceList, devices));
}

ibv_device** merge(ibv_device** ours, size_t our_count, ibv_device** system, size_t system_count) {
  auto* list = static_cast<DeviceList*>(
      std::calloc(1, sizeof(DeviceList) + (our_count + system_count + 1) * sizeof(ibv_device*)));
  if (list == nullptr) return nullptr;
  list->system = system;
  if (system_count != 0) {
    std::memcpy(list->devices, system, system_count * sizeof(ibv_device*));
  }
  if (our_count != 0) {
    std::memcpy(list->devices + system_count, ours, our_count * sizeof(ibv_device*));
  }
  return list->devices;
}

}  // namespace

ROCE_EXPORT ibv_device** ibv_get_device_list(int* count) {
  // Where the kernel has no RDMA, libibverbs refuses: then there are no system devices.
  int system_count = 0;
  ibv_device** system = ROCE_NEXT(ibv_get_device_list)(&system_count);
  int our_count = 0;
  ibv_device** ours = soft::get_device_list(&our_count);
  ibv_device** merged = merge(ours, static_cast<size_t>(our_count), system,
                              system != nullptr ? static_cast<size_t>(system_count) : 0);
  if (ours != nullptr) soft::free_device_list(ours);
  if (merged == nullptr) {
    if (system != nullptr) ROCE_NEXT(ibv_free_device_list)(system);
    errno = ENOMEM;
    system_count = our_count = 0;
  }
  if (count != nullptr) *count = system_count + our_count;
  return merged;
}

ROCE_EXPORT void ibv_free_device_list(ibv_device** devices) {
  if (devices == nullptr) return;
  DeviceList* list = list_of(devices);
  if (list->system != nullptr) ROCE_NEXT(ibv_free_device_list)(list->system);
  std::free(list);
}

ROCE_EXPORT const char* ibv_get_device_name(ibv_device* device) {
  return soft::owns(device) ? soft::get_device_name(device)
                            : ROCE_NEXT(ibv_get_device_name)(device);
}

ROCE_EXPORT int ibv_get_device_index(ibv_device* device) {
  return soft::owns(device) ? -1 : ROCE_NEXT(ibv_get_device_index)(device);
}

ROCE_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  return soft::owns(device) ? soft::get_device_guid(device)
                            : ROCE_NEXT(ibv_get_device_guid)(device);
}

ROCE_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  return soft::owns(device) ? soft::open_device(device) : ROCE_NEXT(ibv_open_device)(device);
}

// A kernel frees what a program has left in the context, and perftest's ib_send_bw counts on it.
// With us a context that is still in use stays until the process ends.
ROCE_EXPORT int ibv_close_device(ibv_context* context) {
  if (!soft::owns(context)) return ROCE_NEXT(ibv_close_device)(context);
  const int error = soft::close_device(context);
  return error == EBUSY ? 0 : error;
}

ROCE_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return soft::owns(context) ? soft::query_device(context, attributes)
                             : ROCE_NEXT(ibv_query_device)(context, attributes);
}

ROCE_EXPORT int ibv_query_port(ibv_context* context, uint8_t port,
                               _compat_ibv_port_attr* attributes) {
  if (!soft::owns(context)) return ROCE_NEXT(ibv_query_port)(context, port, attributes);
  ibv_port_attr full;
  const int error = soft::query_port(context, port, &full);
  // The structure of this call ends where later versions of verbs.h added fields.
  if (error == 0) std::memcpy(attributes, &full, offsetof(ibv_port_attr, port_cap_flags2));
  return error;
}

ROCE_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  return soft::owns(context) ? soft::query_gid(context, port, index, gid)
                             : ROCE_NEXT(ibv_query_gid)(context, port, index, gid);
}

ROCE_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                                  ibv_gid_entry* entry, uint32_t flags, size_t entry_size) {
  if (!soft::owns(context)) {
    return ROCE_NEXT(_ibv_query_gid_ex)(context, port, index, entry, flags, entry_size);
  }
  return soft::query_gid_ex(context, port, index, entry, flags, entry_size);
}

ROCE_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                         size_t max_entries, uint32_t flags, size_t entry_size) {
  return soft::owns(context)
             ? soft::query_gid_table(context, entries, max_entries, flags, entry_size)
             : ROCE_NEXT(_ibv_query_gid_table)(context, entries, max_entries, flags, entry_size);
}

/// Exported by libibverbs for its own tools, without a declaration in verbs.h. The type is 0 for
/// InfiniBand and RoCE v1, 1 for RoCE v2.
ROCE_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index,
                                   int* type);
ROCE_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index,
                                   int* type) {
  if (!soft::owns(context)) return ROCE_NEXT(ibv_query_gid_type)(context, port, index, type);
  ibv_gid gid;
  *type = 1;
  return soft::query_gid(context, port, static_cast<int>(index), &gid);
}

ROCE_EXPORT int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  return soft::owns(context) ? soft::query_pkey(context, port, index, pkey)
                             : ROCE_NEXT(ibv_query_pkey)(context, port, index, pkey);
}

ROCE_EXPORT int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  if (!soft::owns(context)) return ROCE_NEXT(ibv_get_pkey_index)(context, port, pkey);
  uint16_t only;
  return soft::query_pkey(context, port, 0, &only) == 0 && only == pkey ? 0 : -1;
}

ROCE_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attributes,
                                            uint8_t mac[ETHERNET_LL_SIZE], uint16_t* vlan) {
  return soft::owns(context)
             ? not_supported()
             : ROCE_NEXT(ibv_resolve_eth_l2_from_gid)(context, attributes, mac, vlan);
}

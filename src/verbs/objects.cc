// Context, protection domain, memory region, address handle.
#include "verbs/objects.h"

#include <cerrno>
#include <cstring>

#include "verbs/gid.h"

namespace roce::verbs {

Result<Context> Context::open(const Table& table, const std::string& device) {
  int count = 0;
  errno = 0;
  ibv_device** list = table.get_device_list(&count);
  if (list == nullptr) {
    return call_failed(table.name, "listing devices to open \"" + device + "\"", errno, "");
  }
  ibv_device* found = nullptr;
  std::string names;
  for (int i = 0; i < count; ++i) {
    const std::string name = table.get_device_name(list[i]);
    if (name == device) found = list[i];
    names += (names.empty() ? "" : ", ") + name;
  }
  if (found == nullptr) {
    table.free_device_list(list);
    return Status(Code::kUnavailable, "device \"" + device + "\" does not exist; " + table.name +
                                          " has: " + (names.empty() ? "none" : names) + ".");
  }
  errno = 0;
  ibv_context* context = table.open_device(found);
  const int error = errno;
  table.free_device_list(list);
  if (context == nullptr) {
    return call_failed(device, "open_device", error,
                       error == EACCES || error == EPERM
                           ? "Give this user read and write access to /dev/infiniband/uverbs*."
                           : "");
  }
  return Context(table, context);
}

Result<ibv_device_attr> Context::query_device() const {
  ibv_device_attr attributes{};
  const int error = table().query_device(get(), &attributes);
  if (error != 0) return call_failed(name(), "query_device", error, "");
  return attributes;
}

bool Context::has_pci_atomics() const {
  ibv_device_attr_ex attributes{};
  if (table().query_device_ex(get(), nullptr, &attributes) != 0) return false;
  const ibv_pci_atomic_caps& caps = attributes.pci_atomic_caps;
  return (caps.fetch_add & caps.compare_swap & IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP) != 0;
}

Result<ibv_port_attr> Context::query_port(uint8_t port) const {
  ibv_port_attr attributes{};
  const int error = table().query_port(get(), port, &attributes);
  if (error != 0) {
    return call_failed(name(), "query_port(port " + std::to_string(port) + ")", error, "");
  }
  return attributes;
}

Result<ProtectionDomain> ProtectionDomain::create(const Context& context) {
  errno = 0;
  ibv_pd* pd = context.table().alloc_pd(context.get());
  if (pd == nullptr) {
    return call_failed(context.name(), "alloc_pd", errno,
                       "Another program may hold all protection domains of the device.");
  }
  return ProtectionDomain(context.table(), pd);
}

Result<MemoryRegion> MemoryRegion::create(const ProtectionDomain& pd, void* address, size_t bytes,
                                          int access) {
  errno = 0;
  ibv_mr* mr = pd.table().reg_mr(pd.get(), address, bytes, access);
  if (mr == nullptr) {
    const int error = errno;
    char call[96];
    std::snprintf(call, sizeof call, "reg_mr(address %p, %zu bytes, access 0x%x)", address, bytes,
                  static_cast<unsigned>(access));
    std::string remedy;
    if (error == ENOMEM || error == EAGAIN || error == EPERM) {
      remedy = memlock_remedy(pd.table(), bytes);
    } else if (error == EFAULT) {
      remedy = "Part of the range is not mapped, or read-only although write access was asked.";
    }
    return call_failed(device_name(pd.table(), pd.get()->context), call, error, remedy);
  }
  return MemoryRegion(pd.table(), mr);
}

ibv_ah_attr global_address(uint8_t port, uint8_t local_gid_index, const uint8_t peer_gid[16],
                           uint8_t traffic_class, uint8_t hop_limit, uint8_t service_level,
                           uint32_t flow_label) {
  ibv_ah_attr address{};
  std::memcpy(address.grh.dgid.raw, peer_gid, 16);
  address.grh.flow_label = flow_label;
  address.grh.sgid_index = local_gid_index;
  address.grh.hop_limit = hop_limit;
  address.grh.traffic_class = traffic_class;
  address.sl = service_level;
  address.is_global = 1;
  address.port_num = port;
  return address;
}

Result<AddressHandle> AddressHandle::create(const ProtectionDomain& pd, ibv_ah_attr attributes) {
  errno = 0;
  ibv_ah* ah = pd.table().create_ah(pd.get(), &attributes);
  if (ah == nullptr) {
    return call_failed(device_name(pd.table(), pd.get()->context),
                       "create_ah(" + address_text(attributes) + ")", errno,
                       "Check that the peer's address answers (ping) and that the local GID index "
                       "still exists.");
  }
  return AddressHandle(pd.table(), ah);
}

}  // namespace roce::verbs

// Devices: one per usable network interface; their ports and GID tables.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "soft/environment.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

/// FNV-1a, for identifiers that must be the same in every process of a host and differ between
/// hosts.
uint64_t hash_text(const std::string& text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

uint64_t make_guid(const std::string& interface_name) {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  const uint64_t hash = hash_text(boot_id + interface_name);
  // Locally administered (bit 1 of the first byte), so that it cannot collide with a NIC's.
  return htobe64((hash & 0xFCFFFFFFFFFFFFFFu) | 0x0200000000000000u);
}

void merge_gids(Device& device, const Interface& fresh, bool* changed) {
  *changed = false;
  const auto in_fresh = [&](const ibv_gid& gid) {
    return std::any_of(fresh.gids.begin(), fresh.gids.end(), [&](const Gid& other) {
      return std::memcmp(gid.raw, other.bytes, 16) == 0;
    });
  };
  const ibv_gid none{};
  const auto is_free = [&](const ibv_gid& gid) {
    return std::memcmp(&gid, &none, sizeof gid) == 0;
  };
  for (ibv_gid& gid : device.gids) {
    if (!is_free(gid) && !in_fresh(gid)) {
      gid = none;
      *changed = true;
    }
  }
  for (const Gid& gid : fresh.gids) {
    const auto same = [&](const ibv_gid& entry) {
      return std::memcmp(entry.raw, gid.bytes, 16) == 0;
    };
    if (std::any_of(device.gids.begin(), device.gids.end(), same)) continue;
    const auto place = std::find_if(device.gids.begin(), device.gids.end(), is_free);
    if (place == device.gids.end()) break;
    std::memcpy(place->raw, gid.bytes, 16);
    *changed = true;
  }
}

Device* make_device(const Interface& interface, size_t number) {
  auto* device = new Device();
  device->node_type = IBV_NODE_CA;
  device->transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device->name, sizeof device->name, "rocesw%zu", number);
  std::snprintf(device->dev_name, sizeof device->dev_name, "%s", device->name);
  // Where topology libraries look for ".../device" and its NUMA node.
  std::snprintf(device->ibdev_path, sizeof device->ibdev_path, "/sys/class/net/%.200s",
                interface.name.c_str());
  device->ifindex = interface.ifindex;
  device->interface_name = interface.name;
  device->guid = make_guid(interface.name);
  device->state = interface;
  bool changed = false;
  merge_gids(*device, interface, &changed);
  return device;
}

/// Speed as verbs tell it: lanes times a rate per lane. The largest that the link reaches; 10 Gb/s
/// where the driver does not tell.
void set_speed(uint64_t mbps, ibv_port_attr* attributes) {
  struct Rate {
    uint64_t mbps;
    uint8_t width, speed;
  };
  // enum of active_width: 1: 1x, 2: 4x, 4: 8x; of active_speed: 1 SDR 2.5, 4 QDR 10, 32 EDR 25, 64
  // HDR 50, 128 NDR 100 Gb/s per lane.
  static constexpr Rate kRates[] = {{800'000, 4, 128}, {400'000, 2, 128}, {200'000, 2, 64},
                                    {100'000, 2, 32},  {50'000, 1, 64},   {40'000, 2, 4},
                                    {25'000, 1, 32},   {10'000, 1, 4},    {0, 1, 1}};
  if (mbps == 0) mbps = 10'000;
  for (const Rate& rate : kRates) {
    if (mbps < rate.mbps) continue;
    attributes->active_width = rate.width;
    attributes->active_speed = rate.speed;
    return;
  }
}

}  // namespace

bool refresh_device(Device& device, bool* running, bool* state_changed, bool* gids_changed) {
  const Interface fresh = read_interface(device.ifindex);
  std::lock_guard guard(device.mutex);
  *running = fresh.running;
  *state_changed = fresh.running != device.state.running;
  device.state.running = fresh.running;
  if (fresh.mtu_bytes != 0) {
    device.state.mtu_bytes = fresh.mtu_bytes;
    device.state.speed_mbps = fresh.speed_mbps;
  }
  device.state.gids = fresh.gids;
  merge_gids(device, fresh, gids_changed);
  return *state_changed || *gids_changed;
}

uint32_t largest_segment(Device& device) {
  constexpr uint32_t kHeaders = 80, kUnit = 64;
  std::lock_guard guard(device.mutex);
  const uint32_t mtu = std::max(device.state.mtu_bytes, 256 + kHeaders);
  return std::min((mtu - kHeaders) / kUnit * kUnit, kMaxSoftMtu);
}

bool owns(const ibv_device* device) {
  Process* process = Process::usable();
  if (process == nullptr) return false;
  std::lock_guard guard(process->devices_mutex());
  const std::vector<Device*>& devices = process->devices();
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

ibv_device** get_device_list(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  Process* process = Process::usable();
  if (process == nullptr) return nullptr;
  const Options options = process->options();
  std::vector<std::string> refusals;
  const std::vector<Interface> interfaces = list_interfaces(&refusals);
  std::vector<Device*> usable;
  std::lock_guard guard(process->devices_mutex());
  std::vector<Device*>& devices = process->devices();
  for (const Interface& interface : interfaces) {
    if (!interface_allowed(options, interface)) continue;
    const auto known = std::find_if(devices.begin(), devices.end(), [&](const Device* device) {
      return device->ifindex == interface.ifindex && device->interface_name == interface.name;
    });
    if (known != devices.end()) {
      usable.push_back(*known);
    } else {
      devices.push_back(make_device(interface, devices.size()));
      usable.push_back(devices.back());
    }
  }
  auto** list = static_cast<ibv_device**>(std::calloc(usable.size() + 1, sizeof(ibv_device*)));
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  std::copy(usable.begin(), usable.end(), list);
  if (num_devices != nullptr) *num_devices = static_cast<int>(usable.size());
  if (usable.empty()) errno = ENODEV;
  return list;
}

void free_device_list(ibv_device** list) { std::free(list); }
const char* get_device_name(ibv_device* device) { return device->name; }
uint64_t get_device_guid(ibv_device* device) { return device_of(device)->guid; }

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) {
  if (port != 1) return EINVAL;
  Device& device = *context_of(context)->device_state;
  std::lock_guard guard(device.mutex);
  const Interface& state = device.state;
  *attributes = ibv_port_attr{};
  attributes->state = state.running ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->phys_state = state.running ? 5 : 3;  // LinkUp, Disabled.
  attributes->max_mtu = IBV_MTU_4096;
  const int mtu = wire::mtu_enum_for_interface(state.mtu_bytes);
  attributes->active_mtu = static_cast<ibv_mtu>(std::max(mtu, static_cast<int>(IBV_MTU_256)));
  attributes->gid_tbl_len = kGidTableLength;
  attributes->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attributes->max_msg_sz = 1u << 31;
  attributes->pkey_tbl_len = 1;
  attributes->max_vl_num = 1;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes->flags = 1;  // IBV_QPF_GRH_REQUIRED: every address vector needs a global route.
  set_speed(state.speed_mbps, attributes);
  return 0;
}

int query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  if (port != 1 || index < 0 || index >= kGidTableLength) {
    errno = EINVAL;
    return -1;
  }
  Device& device = *context_of(context)->device_state;
  std::lock_guard guard(device.mutex);
  *gid = device.gids[static_cast<size_t>(index)];
  return 0;
}

namespace {

/// Callers of another version may have larger entries; what they have beyond ours becomes zero.
void write_entry(const Device& device, size_t index, void* to, size_t entry_size) {
  ibv_gid_entry entry{};
  entry.gid = device.gids[index];
  entry.gid_index = static_cast<uint32_t>(index);
  entry.port_num = 1;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  entry.ndev_ifindex = device.ifindex;
  std::memset(to, 0, entry_size);
  std::memcpy(to, &entry, sizeof entry);
}

bool is_empty(const ibv_gid& gid) {
  return gid.global.interface_id == 0 && gid.global.subnet_prefix == 0;
}

}  // namespace

int query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                 uint32_t flags, size_t entry_size) {
  const bool bad =
      port != 1 || index >= kGidTableLength || flags != 0 || entry_size < sizeof(ibv_gid_entry);
  if (bad) return EINVAL;
  Device& device = *context_of(context)->device_state;
  std::lock_guard guard(device.mutex);
  if (is_empty(device.gids[index])) return ENODATA;
  write_entry(device, index, entry, entry_size);
  return 0;
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                        uint32_t flags, size_t entry_size) {
  if (flags != 0 || entry_size < sizeof(ibv_gid_entry)) return -EINVAL;
  Device& device = *context_of(context)->device_state;
  std::lock_guard guard(device.mutex);
  size_t count = 0;
  for (size_t i = 0; i < device.gids.size(); ++i) {
    if (is_empty(device.gids[i])) continue;
    if (count == max_entries) return -EINVAL;
    write_entry(device, i, reinterpret_cast<uint8_t*>(entries) + count * entry_size, entry_size);
    ++count;
  }
  return static_cast<ssize_t>(count);
}

int query_pkey(ibv_context*, uint8_t port, int index, uint16_t* pkey) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = wire::kDefaultPkey;
  return 0;
}

}  // namespace roce::soft

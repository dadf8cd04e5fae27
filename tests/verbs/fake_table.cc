#include "fake_table.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace roce::verbs {
namespace {

struct Opened {
  ibv_context context{};  // First: a context is cast back to the Opened around it.
  ibv_device device{};
  const FakeDevice* fake = nullptr;
};

std::vector<std::unique_ptr<Opened>>& storage() {
  static std::vector<std::unique_ptr<Opened>> all;
  return all;
}

Opened* of(ibv_context* context) { return reinterpret_cast<Opened*>(context); }

ibv_device** get_device_list(int* num_devices) {
  const FakeWorld& world = fake_world();
  if (world.list_error != 0) {
    errno = world.list_error;
    return nullptr;
  }
  auto** list = new ibv_device*[world.devices.size() + 1]();
  for (size_t i = 0; i < world.devices.size(); ++i) {
    auto opened = std::make_unique<Opened>();
    opened->fake = &world.devices[i];
    opened->device.transport_type = world.devices[i].transport;
    std::strncpy(opened->device.name, world.devices[i].name.c_str(),
                 sizeof opened->device.name - 1);
    opened->context.device = &opened->device;
    list[i] = &opened->device;
    storage().push_back(std::move(opened));
  }
  if (num_devices != nullptr) *num_devices = static_cast<int>(world.devices.size());
  return list;
}

void free_device_list(ibv_device** list) {
  delete[] list;
  ++fake_world().lists_freed;
}

const char* get_device_name(ibv_device* device) { return device->name; }

ibv_context* open_device(ibv_device* device) {
  for (const auto& opened : storage()) {
    if (&opened->device != device) continue;
    if (opened->fake->open_error != 0) {
      errno = opened->fake->open_error;
      return nullptr;
    }
    ++fake_world().opened;
    return &opened->context;
  }
  errno = ENODEV;
  return nullptr;
}

int close_device(ibv_context*) {
  ++fake_world().closed;
  return 0;
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = static_cast<uint8_t>(of(context)->fake->ports.size());
  attributes->max_qp_wr = 1000;
  attributes->max_sge = 4;
  attributes->max_qp = 77;
  attributes->max_cqe = 5000;
  return 0;
}

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) {
  const FakePort& fake = of(context)->fake->ports.at(port - 1u);
  *attributes = {};
  attributes->link_layer = fake.link_layer;
  attributes->state = fake.state;
  attributes->active_mtu = static_cast<ibv_mtu>(fake.active_mtu);
  attributes->active_speed = fake.active_speed;
  attributes->active_width = fake.active_width;
  return 0;
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries, uint32_t,
                        size_t entry_size) {
  if (entry_size != sizeof(ibv_gid_entry)) return -EINVAL;
  size_t count = 0;
  const std::vector<FakePort>& ports = of(context)->fake->ports;
  for (size_t port = 0; port < ports.size(); ++port) {
    for (const Gid& gid : ports[port].gids) {
      if (count == max_entries) return -EINVAL;
      ibv_gid_entry& entry = entries[count++];
      std::copy(gid.bytes.begin(), gid.bytes.end(), entry.gid.raw);
      entry.gid_index = gid.index;
      entry.port_num = static_cast<uint32_t>(port + 1);
      entry.gid_type = static_cast<uint32_t>(gid.type);
      entry.ndev_ifindex = gid.ifindex;
    }
  }
  return static_cast<ssize_t>(count);
}

// One object of each kind is enough: only its context is read.
template <typename T>
T* create(ibv_context* context) {
  if (fake_world().create_error != 0) {
    errno = fake_world().create_error;
    return nullptr;
  }
  static T object;
  object = {};
  object.context = context;
  return &object;
}

ibv_pd* alloc_pd(ibv_context* context) {
  ibv_pd* pd = create<ibv_pd>(context);
  fake_world().pds += pd != nullptr;
  return pd;
}
int dealloc_pd(ibv_pd*) {
  --fake_world().pds;
  return 0;
}

}  // namespace

FakeWorld& fake_world() {
  static FakeWorld world;
  return world;
}

const Table& fake_table() {
  static const Table table = [] {
    Table out = system_table();
    out.name = "fake";
    out.get_device_list = get_device_list;
    out.free_device_list = free_device_list;
    out.get_device_name = get_device_name;
    out.open_device = open_device;
    out.close_device = close_device;
    out.query_device = query_device;
    out.query_port = query_port;
    out.query_gid_table = query_gid_table;
    out.alloc_pd = alloc_pd;
    out.dealloc_pd = dealloc_pd;
    out.reg_mr = [](ibv_pd* pd, void*, size_t, int) { return create<ibv_mr>(pd->context); };
    out.dereg_mr = [](ibv_mr*) { return 0; };
    out.create_cq = [](ibv_context* context, int, void*, ibv_comp_channel*, int) {
      return create<ibv_cq>(context);
    };
    out.destroy_cq = [](ibv_cq*) { return 0; };
    out.create_ah = [](ibv_pd* pd, ibv_ah_attr*) { return create<ibv_ah>(pd->context); };
    out.destroy_ah = [](ibv_ah*) { return 0; };
    out.create_qp = [](ibv_pd* pd, ibv_qp_init_attr*) { return create<ibv_qp>(pd->context); };
    out.destroy_qp = [](ibv_qp*) { return 0; };
    out.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return fake_world().modify_error; };
    return out;
  }();
  return table;
}

}  // namespace roce::verbs

// Devices that exist only as answers to control calls: what discovery and the messages of objects
// are tested with.
#ifndef ROCE_TESTS_VERBS_FAKE_TABLE_H_
#define ROCE_TESTS_VERBS_FAKE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "verbs/gid.h"
#include "verbs/table.h"

namespace roce::verbs {

struct FakePort {
  uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  ibv_port_state state = IBV_PORT_ACTIVE;
  int active_mtu = 5;
  uint8_t active_speed = 32, active_width = 2;
  std::vector<Gid> gids;
};

struct FakeDevice {
  std::string name;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  int open_error = 0;
  std::vector<FakePort> ports = {};
};

/// What the fake table answers; a test sets it and resets it.
struct FakeWorld {
  std::vector<FakeDevice> devices;
  int list_error = 0;    ///< get_device_list gives a null list with this errno.
  int create_error = 0;  ///< Every creation fails with this errno.
  int modify_error = 0;
  int lists_freed = 0, opened = 0, closed = 0, pds = 0;  ///< Counts; pds: alive.
};
FakeWorld& fake_world();
const Table& fake_table();

}  // namespace roce::verbs

#endif  // ROCE_TESTS_VERBS_FAKE_TABLE_H_

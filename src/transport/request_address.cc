#include "transport/request_address.h"

#include <string>
#include <utility>

namespace roce::transport {

std::vector<uint8_t> encode_for_request(const Address& own, const PathPair& path) {
  // What is left of the smallest packet after header, offer, and the blob's other fields.
  constexpr size_t kHostNameRoom = 50;
  Address part = own;
  part.host_name = own.host_name.substr(0, kHostNameRoom);
  part.rails = {own.rails[path.local_rail]};
  part.rails[0].gids = {own.rails[path.local_rail].gids[path.local_gid]};
  return encode(part);
}

Result<Address> decode_from_request(std::span<const uint8_t> blob, const PathPair& path) {
  auto address = decode(blob);
  if (!address) {
    return address;
  }
  if (address->rails.size() != 1 || address->rails[0].gids.size() != 1 ||
      path.local_rail >= kMaxRails || path.local_gid >= kMaxGidsPerRail) {
    return Status(Code::kProtocol, "connection request: rail " + std::to_string(path.local_rail) +
                                       ", GID " + std::to_string(path.local_gid) + ", blob with " +
                                       std::to_string(address->rails.size()) +
                                       " rails; expected one rail with one GID");
  }
  RailAddress rail = std::move(address->rails[0]);
  GidAddress gid = rail.gids[0];
  rail.gids.assign(path.local_gid + size_t{1}, {});
  rail.gids.back() = gid;
  address->rails.assign(path.local_rail + size_t{1}, {});
  address->rails.back() = std::move(rail);
  return address;
}

bool same_end(const Address& address, const Address& other, const PathPair& path) {
  auto end_of = [&path](const Address& of) -> std::pair<const RailAddress*, const GidAddress*> {
    if (path.remote_rail >= of.rails.size()) return {};
    const RailAddress& rail = of.rails[path.remote_rail];
    if (path.remote_gid >= rail.gids.size()) return {};
    return {&rail, &rail.gids[path.remote_gid]};
  };
  auto [rail, gid] = end_of(address);
  auto [other_rail, other_gid] = end_of(other);
  return gid != nullptr && other_gid != nullptr && gid->gid == other_gid->gid &&
         rail->control_qpn == other_rail->control_qpn &&
         rail->control_qkey == other_rail->control_qkey;
}

}  // namespace roce::transport

#include "transport/kept_address.h"

#include <algorithm>

#include "transport/field_bytes.h"

namespace roce::transport {
namespace {

// Of most GIDs only the last bytes say something: those of IPv4 and of link-local addresses are
// kept without their first ones.
constexpr std::array<uint8_t, 12> kIpv4Start = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr std::array<uint8_t, 8> kLinkLocalStart = {0xFE, 0x80};
constexpr uint8_t kLoopback = 1, kIpv4 = 2, kLinkLocal = 4;

std::span<const uint8_t> start_of(uint8_t flags) {
  if ((flags & kIpv4) != 0) return kIpv4Start;
  if ((flags & kLinkLocal) != 0) return kLinkLocalStart;
  return {};
}

void write_gid(Writer& writer, const GidAddress& gid) {
  const auto starts_with = [&gid](std::span<const uint8_t> start) {
    return std::equal(start.begin(), start.end(), gid.gid.begin());
  };
  uint8_t flags = gid.loopback ? kLoopback : 0;
  flags |= starts_with(kIpv4Start) ? kIpv4 : starts_with(kLinkLocalStart) ? kLinkLocal : 0;
  const size_t left_out = start_of(flags).size();
  writer.integer(flags);
  writer.integer(gid.type);
  writer.integer(gid.prefix_length);
  writer.bytes(gid.gid.data() + left_out, gid.gid.size() - left_out);
}

GidAddress read_gid(Reader& reader) {
  GidAddress gid;
  const auto flags = reader.integer<uint8_t>();
  gid.loopback = (flags & kLoopback) != 0;
  gid.type = reader.integer<uint8_t>();
  gid.prefix_length = reader.integer<uint8_t>();
  const std::span<const uint8_t> start = start_of(flags);
  std::copy(start.begin(), start.end(), gid.gid.begin());
  reader.bytes(gid.gid.data() + start.size(), gid.gid.size() - start.size());
  return gid;
}

void write_rail(Writer& writer, const RailAddress& rail) {
  writer.integer(rail.mtu_bytes);
  writer.integer(rail.traffic_class);
  writer.integer(rail.control_qpn);
  writer.integer(rail.control_qkey);
  writer.integer(rail.udp_port);
  writer.integer(rail.device_kind);
  writer.integer(rail.capabilities);
  writer.integer(rail.receive_budget_bytes);
  writer.integer(rail.speed_mbps);
  writer.integer(static_cast<uint8_t>(rail.gids.size()));
  for (const GidAddress& gid : rail.gids) write_gid(writer, gid);
}

RailAddress read_rail(Reader& reader) {
  RailAddress rail;
  rail.mtu_bytes = reader.integer<uint32_t>();
  rail.traffic_class = reader.integer<uint8_t>();
  rail.control_qpn = reader.integer<uint32_t>();
  rail.control_qkey = reader.integer<uint32_t>();
  rail.udp_port = reader.integer<uint16_t>();
  rail.device_kind = reader.integer<uint8_t>();
  rail.capabilities = reader.integer<uint32_t>();
  rail.receive_budget_bytes = reader.integer<uint32_t>();
  rail.speed_mbps = reader.integer<uint32_t>();
  rail.gids.resize(reader.integer<uint8_t>());
  for (GidAddress& gid : rail.gids) gid = read_gid(reader);
  return rail;
}

}  // namespace

KeptAddress::KeptAddress(const Address& address, const Address& own) {
  Writer writer;
  writer.integer(static_cast<uint8_t>(same_network_host(own, address)));
  writer.integer(address.pid);
  writer.integer(static_cast<uint8_t>(address.host_name.size()));
  writer.bytes(address.host_name.data(), address.host_name.size());
  writer.integer(static_cast<uint8_t>(address.rails.size()));
  for (const RailAddress& rail : address.rails) write_rail(writer, rail);
  const std::vector<uint8_t> bytes = writer.finish();
  size_ = static_cast<uint32_t>(bytes.size());
  data_ = std::make_unique_for_overwrite<uint8_t[]>(size_);
  std::copy(bytes.begin(), bytes.end(), data_.get());
}

Address KeptAddress::get(const Address& own) const {
  Reader reader({data_.get(), size_});
  Address address;
  address.job_cookie = own.job_cookie;
  if (reader.integer<uint8_t>() != 0) {
    address.boot_id = own.boot_id;
    address.netns_inode = own.netns_inode;
  }
  address.pid = reader.integer<uint32_t>();
  address.host_name.resize(reader.integer<uint8_t>());
  reader.bytes(address.host_name.data(), address.host_name.size());
  address.rails.resize(reader.integer<uint8_t>());
  for (RailAddress& rail : address.rails) rail = read_rail(reader);
  return address;
}

}  // namespace roce::transport

#include "transport/address.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "transport/field_bytes.h"

namespace roce::transport {
namespace {

// Layout, all integers little-endian:
//   u32 magic, u16 version, u16 bytes of the whole blob, u64 job cookie, 16 B boot id, u64 netns
//   inode, u32 pid, u8 length of the host name, host name, u8 rails; then for each rail: u32 MTU,
//   u8 traffic class, u32 control QPN, u32 control Q_Key, u16 UDP port, u8 device kind, u32
//   capabilities, u32 receive budget, u32 speed, u8 GIDs; then for each GID: 16 B GID, u8 type, u8
//   prefix length, u8 flags (bit 0: loopback).
// A change of the layout is a new version; magic, version and length stay where they are.
constexpr uint32_t kMagic = 0x45434F52;  // "ROCE"
constexpr uint8_t kLoopbackFlag = 1;
constexpr size_t kLengthOffset = 6;

Status malformed(const std::string& what) {
  return {Code::kProtocol, "peer address blob: " + what};
}

Status truncated(size_t size) {
  return malformed("ends after " + std::to_string(size) + " bytes, in the middle of its fields");
}

/// A field whose value must lie in [min, max].
Status field_range(const char* field, uint64_t value, uint64_t min, uint64_t max) {
  if (value >= min && value <= max) return Status::ok();
  return malformed(std::string(field) + " is " + std::to_string(value) + ", allowed are " +
                   std::to_string(min) + ".." + std::to_string(max));
}

Status read_gid(Reader& reader, GidAddress& gid, size_t size) {
  reader.bytes(gid.gid.data(), gid.gid.size());
  gid.type = reader.integer<uint8_t>();
  gid.prefix_length = reader.integer<uint8_t>();
  const auto flags = reader.integer<uint8_t>();
  gid.loopback = (flags & kLoopbackFlag) != 0;
  if (reader.past_end()) return truncated(size);
  if (Status s = field_range("GID type (RoCE version)", gid.type, 1, 2); !s) return s;
  if (Status s = field_range("GID prefix length", gid.prefix_length, 0, 128); !s) return s;
  return field_range("GID flags", flags, 0, kLoopbackFlag);
}

Status read_rail(Reader& reader, RailAddress& rail, size_t size) {
  rail.mtu_bytes = reader.integer<uint32_t>();
  rail.traffic_class = reader.integer<uint8_t>();
  rail.control_qpn = reader.integer<uint32_t>();
  rail.control_qkey = reader.integer<uint32_t>();
  rail.udp_port = reader.integer<uint16_t>();
  rail.device_kind = reader.integer<uint8_t>();
  rail.capabilities = reader.integer<uint32_t>();
  rail.receive_budget_bytes = reader.integer<uint32_t>();
  rail.speed_mbps = reader.integer<uint32_t>();
  const auto gids = reader.integer<uint8_t>();
  if (reader.past_end()) return truncated(size);
  if (Status s = field_range("MTU", rail.mtu_bytes, kMinMtuBytes, kMaxMtuBytes); !s) return s;
  if (Status s = field_range("control QPN", rail.control_qpn, 0, 0xFFFFFF); !s) return s;
  if (Status s = field_range("device kind", rail.device_kind, 0, 1); !s) return s;
  if (Status s = field_range("number of GIDs", gids, 1, kMaxGidsPerRail); !s) return s;
  rail.gids.resize(gids);
  for (GidAddress& gid : rail.gids) {
    if (Status s = read_gid(reader, gid, size); !s) return s;
  }
  return Status::ok();
}

Status read_host_name(Reader& reader, std::string& name, size_t size) {
  const auto length = reader.integer<uint8_t>();
  if (reader.past_end()) return truncated(size);
  if (Status s = field_range("length of the host name", length, 0, kMaxHostNameBytes); !s) return s;
  name.resize(length);
  reader.bytes(name.data(), length);
  // It ends up in messages on somebody's terminal.
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < 0x21 || c > 0x7E; }, '?');
  return Status::ok();
}

/// Magic, version and length: what every version has in the same place.
Status read_start(Reader& reader, Address& address, size_t size) {
  const auto magic = reader.integer<uint32_t>();
  address.version = reader.integer<uint16_t>();
  const auto bytes = reader.integer<uint16_t>();
  if (reader.past_end()) return truncated(size);
  if (magic != kMagic) return malformed("does not begin with the mark of mpi-roce");
  if (address.version != kAddressVersion) {
    return malformed("has version " + std::to_string(address.version) + ", this process has " +
                     std::to_string(kAddressVersion) +
                     "; use the same release of mpi-roce on all hosts");
  }
  if (bytes != size) {
    return malformed("says that it has " + std::to_string(bytes) + " bytes, but has " +
                     std::to_string(size));
  }
  return Status::ok();
}

std::array<uint8_t, 16> read_boot_id() {
  std::array<uint8_t, 16> id{};
  std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file == nullptr) return id;
  char text[64] = {};
  const size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  size_t digits = 0;
  for (size_t i = 0; i < length && digits < 32; ++i) {
    const char c = text[i];
    int value = -1;
    if (c >= '0' && c <= '9') value = c - '0';
    if (c >= 'a' && c <= 'f') value = c - 'a' + 10;
    if (value < 0) continue;  // the dashes of the UUID
    id[digits / 2] = static_cast<uint8_t>(id[digits / 2] << 4 | value);
    ++digits;
  }
  return id;
}

}  // namespace

std::vector<uint8_t> encode(const Address& address) {
  Writer writer;
  writer.integer(kMagic);
  writer.integer(address.version);
  writer.integer(uint16_t{0});  // the length
  writer.integer(address.job_cookie);
  writer.bytes(address.boot_id.data(), address.boot_id.size());
  writer.integer(address.netns_inode);
  writer.integer(address.pid);
  const size_t host_bytes = std::min(address.host_name.size(), kMaxHostNameBytes);
  writer.integer(static_cast<uint8_t>(host_bytes));
  writer.bytes(address.host_name.data(), host_bytes);
  const size_t rails = std::min<size_t>(address.rails.size(), kMaxRails);
  writer.integer(static_cast<uint8_t>(rails));
  for (size_t r = 0; r < rails; ++r) {
    const RailAddress& rail = address.rails[r];
    writer.integer(rail.mtu_bytes);
    writer.integer(rail.traffic_class);
    writer.integer(rail.control_qpn);
    writer.integer(rail.control_qkey);
    writer.integer(rail.udp_port);
    writer.integer(rail.device_kind);
    writer.integer(rail.capabilities);
    writer.integer(rail.receive_budget_bytes);
    writer.integer(rail.speed_mbps);
    const size_t gids = std::min<size_t>(rail.gids.size(), kMaxGidsPerRail);
    writer.integer(static_cast<uint8_t>(gids));
    for (size_t g = 0; g < gids; ++g) {
      const GidAddress& gid = rail.gids[g];
      writer.bytes(gid.gid.data(), gid.gid.size());
      writer.integer(gid.type);
      writer.integer(gid.prefix_length);
      writer.integer(gid.loopback ? kLoopbackFlag : uint8_t{0});
    }
  }
  std::vector<uint8_t> out = writer.finish();
  out[kLengthOffset] = static_cast<uint8_t>(out.size());
  out[kLengthOffset + 1] = static_cast<uint8_t>(out.size() >> 8);
  return out;
}

Result<Address> decode(std::span<const uint8_t> blob) {
  const size_t size = blob.size();
  Reader reader(blob);
  Address address;
  if (Status s = read_start(reader, address, size); !s) return s;
  address.job_cookie = reader.integer<uint64_t>();
  reader.bytes(address.boot_id.data(), address.boot_id.size());
  address.netns_inode = reader.integer<uint64_t>();
  address.pid = reader.integer<uint32_t>();
  if (Status s = read_host_name(reader, address.host_name, size); !s) return s;
  const auto rails = reader.integer<uint8_t>();
  if (reader.past_end()) return truncated(size);
  if (Status s = field_range("number of rails", rails, 1, kMaxRails); !s) return s;
  address.rails.resize(rails);
  for (RailAddress& rail : address.rails) {
    if (Status s = read_rail(reader, rail, size); !s) return s;
  }
  if (reader.position() != size) {
    return malformed("has " + std::to_string(size) + " bytes, its fields take " +
                     std::to_string(reader.position()));
  }
  return address;
}

Address local_identity() {
  Address address;
  address.boot_id = read_boot_id();
  struct stat info = {};
  if (stat("/proc/self/ns/net", &info) == 0) address.netns_inode = info.st_ino;
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0) address.host_name = name;
  address.host_name.resize(std::min(address.host_name.size(), kMaxHostNameBytes));
  address.pid = static_cast<uint32_t>(getpid());
  return address;
}

bool same_network_host(const Address& a, const Address& b) {
  // Zero means "could not be read": then nothing is known, and loopback would be a guess.
  const bool known = a.netns_inode != 0 && a.boot_id != std::array<uint8_t, 16>{};
  return known && a.boot_id == b.boot_id && a.netns_inode == b.netns_inode;
}

}  // namespace roce::transport

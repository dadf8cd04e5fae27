#include "soft/kept_packets.h"

#include <cstring>
#include <new>

namespace roce::soft {

KeptPackets::~KeptPackets() {
  for (const auto& [key, packet] : packets_) budget_.give(cost(packet.payload_length));
}

bool KeptPackets::keep(engine::Keep kind, const wire::Header& header,
                       std::span<const uint8_t> payload) {
  const auto length = static_cast<uint32_t>(payload.size());
  const std::pair key{kind, header.psn};
  if (packets_.contains(key) || !budget_.take(cost(length))) return false;
  try {
    KeptPacket& packet = packets_[key];
    packet.header = header;
    if (length != 0) {
      packet.payload.reset(new uint8_t[length]);
      std::memcpy(packet.payload.get(), payload.data(), length);
    }
    packet.payload_length = length;
    return true;
  } catch (const std::bad_alloc&) {
    packets_.erase(key);
    budget_.give(cost(length));
    return false;
  }
}

bool KeptPackets::take(engine::Keep kind, uint32_t psn, KeptPacket& out) {
  const auto found = packets_.find({kind, psn});
  if (found == packets_.end()) return false;
  out = std::move(found->second);
  packets_.erase(found);
  budget_.give(cost(out.payload_length));
  return true;
}

}  // namespace roce::soft

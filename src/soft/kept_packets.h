// Packets of a queue pair that came before their turn.
#ifndef ROCE_SOFT_KEPT_PACKETS_H_
#define ROCE_SOFT_KEPT_PACKETS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "engine/types.h"

namespace roce::soft {

/// Bounds what the kept packets of all queue pairs of a process take; used by the holder of the
/// progress lock only.
class KeptBudget {
 public:
  static constexpr size_t kMaxBytes = size_t{32} << 20;

  bool take(size_t bytes) {
    if (used_ + bytes > kMaxBytes) return false;
    used_ += bytes;
    return true;
  }
  void give(size_t bytes) { used_ -= bytes; }

 private:
  size_t used_ = 0;
};

struct KeptPacket {
  wire::Header header;
  uint32_t payload_length = 0;
  std::unique_ptr<uint8_t[]> payload;
};

class KeptPackets {
 public:
  explicit KeptPackets(KeptBudget& budget) : budget_(budget) {}
  ~KeptPackets();
  KeptPackets(const KeptPackets&) = delete;
  KeptPackets& operator=(const KeptPackets&) = delete;

  /// False: no memory left for it.
  bool keep(engine::Keep kind, const wire::Header& header, std::span<const uint8_t> payload);
  /// False: not there.
  bool take(engine::Keep kind, uint32_t psn, KeptPacket& out);

 private:
  static size_t cost(uint32_t payload_length) { return sizeof(KeptPacket) + payload_length; }

  KeptBudget& budget_;
  std::map<std::pair<engine::Keep, uint32_t>, KeptPacket> packets_;
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_KEPT_PACKETS_H_

// A UD queue pair: every message is one packet, nothing is acknowledged or sent again.
//
// Invariant: a send request is finished as soon as its packet has been given out; its scatter list
// stays valid until poll_completion has reported it and another request takes its place.
#ifndef ROCE_ENGINE_DATAGRAM_H_
#define ROCE_ENGINE_DATAGRAM_H_

#include <cstdint>

#include "engine/core.h"
#include "engine/send_ring.h"

namespace roce::engine {

inline constexpr uint32_t kGrhBytes = 40;

class Datagram {
 public:
  explicit Datagram(Core& core);

  int post(const SendRequest& request);
  void start(uint32_t psn) { psn_ = psn & wire::kPsnMask; }
  void reset() { ring_.reset(); }

  void handle_packet(const wire::Header& header, uint32_t payload_length, Effects& effects);
  void handle_gather_fault(uint32_t psn);

  bool poll_packet(OutPacket& out);
  SendRing& ring() { return ring_; }
  const SendRing& ring() const { return ring_; }
  size_t bytes() const { return sizeof *this + ring_.bytes(); }
  uint32_t next_psn() const { return psn_; }

 private:
  Core& core_;
  SendRing ring_;
  uint32_t psn_ = 0;
};

}  // namespace roce::engine

#endif  // ROCE_ENGINE_DATAGRAM_H_

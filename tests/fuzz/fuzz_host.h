// A queue pair that lives on what a fuzzer makes up: a byte string is a story of packets, pauses
// and posts.
//
// Format: records one after the other, each begun by a byte whose two lower bits tell its kind:
//   0  packet: 16 bits of length (little-endian), then that many bytes from BTH to the payload's
//   pad 1  packet, its PSN moved near to the one that is next (so that mutations get past the PSN
//   check) 2  pause of 2^n ns: one byte n, modulo 32 3  post: one byte, see FuzzHost::post
// What ends in the middle is taken as far as it goes. There is no ICRC: whoever can damage packets
// unnoticed has computed it anew.
#ifndef ROCE_TESTS_FUZZ_FUZZ_HOST_H_
#define ROCE_TESTS_FUZZ_FUZZ_HOST_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tests/engine/network.h"

namespace roce::engine::test {

enum class Record : uint8_t { kPacket, kNearPacket, kPause, kPost };

/// Prints what was violated and ends the process, which is how a fuzzer learns of it.
void require(bool condition, const char* what);

class FuzzHost : public Host {
 public:
  static constexpr uint32_t kMtu = 256;
  static constexpr uint32_t kFirstPsn = 0xFFFFF8;  ///< Both directions; wraps early.
  static constexpr uint8_t kSelective = 1, kLazyAck = 2;

  /// flavour: bits of the constants above.
  explicit FuzzHost(uint8_t flavour);

  /// Everything of a story, then the error state; every invariant is checked.
  void play(std::span<const uint8_t> story);

  /// choice: bits 0-2 the operation (0 to 6 of the send queue, 7 a receive), 3-5 a length, 6 not
  /// signaled, 7 fence.
  void post(uint8_t choice);
  void pause(uint8_t exponent);
  void receive_packet(std::span<const uint8_t> datagram);
  /// Lets out what may leave now, at most 64 packets.
  std::vector<Frame> pump();

  bool to_frame(const OutPacket& packet, Frame& frame) override;
  bool from_frame(const Frame& frame, TimeNs now) override;

 private:
  void place(const Placement& placement, const uint8_t* from);
  void gather(const PayloadRef& ref, uint8_t* out);
  void move_near(std::vector<uint8_t>& datagram) const;
  void drain_completions();
  void finish();

  struct Posted {
    bool is_recv;
    bool signaled;
  };
  uint32_t granted_, read_only_, local_, hidden_;  ///< Keys.
  std::map<uint64_t, Posted> posted_;              ///< By wr_id, until completed.
  uint64_t next_wr_id_ = 1;
  TimeNs now_ = 1'000'000;
};

}  // namespace roce::engine::test

#endif  // ROCE_TESTS_FUZZ_FUZZ_HOST_H_

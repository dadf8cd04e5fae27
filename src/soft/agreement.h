// What is known of the peer of a connection: told by the program (set_peer_hints), or asked of the
// peer by HELLO and ANSWER (wire/hello.h). Until it is known the peer may be any device.
//
// A queue pair whose peer's number looks like a software device's asks when it gets its route, and
// again a few times. Whoever gets a HELLO for a queue pair of its own answers, and if that queue
// pair is connected to the one that asks, takes over what the HELLO tells: so each side knows
// before it needs to be known to know. Nothing depends on both sides having heard: selective
// acknowledgements are understood always (as sequence NAKs at least), and what was not acknowledged
// unasked is sent again.
#ifndef ROCE_SOFT_AGREEMENT_H_
#define ROCE_SOFT_AGREEMENT_H_

#include <cstdint>
#include <span>

#include "engine/types.h"
#include "wire/packet.h"

namespace roce::soft {

struct Qp;
struct ReceivedBuffer;
class Process;

/// A queue pair's questions to its peer. [P]
struct Agreement {
  uint64_t nonce = 0;  ///< Of the HELLO that was sent; an ANSWER has to know it.
  engine::TimeNs next_hello = engine::kNever;
  uint32_t hellos = 0;        ///< Sent so far.
  uint32_t resends = 0;       ///< The engine's resends in a row, as last seen.
  uint64_t newest_grant = 0;  ///< The nonce of the last GRANT taken.
  bool heard = false;         ///< A valid packet has come from the peer.
};

/// Segments, windows and ways of acknowledging that the peer is known to take; for the holder of
/// the progress lock. 0 or ENOMEM.
int apply_peer(Process& process, Qp& qp);
/// The queue pair's share of this process's receive memory is another.
void grant(Process& process, Qp& qp, engine::TimeNs now);
/// Begins to ask, if the program has told nothing and the peer may know the answer.
void begin_asking(Process& process, Qp& qp, engine::TimeNs now);
/// Sends the next HELLO if it is due.
void ask_again(Process& process, Qp& qp, engine::TimeNs now);
/// A datagram to this process's queue pair number for HELLOs whose ICRC is right.
void receive_hello(Process& process, const ReceivedBuffer& buffer, const wire::Header& header,
                   std::span<const uint8_t> payload);
/// After the engine's timer: a peer that has not answered may be a NIC whose queue pair number
/// looks like ours, and NICs listen on port 4791.
void after_timer(Process& process, Qp& qp);

}  // namespace roce::soft

#endif  // ROCE_SOFT_AGREEMENT_H_

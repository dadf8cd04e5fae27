// What the verbs programs of tests/netns share: the device of an address of this host, the meeting
// of two processes over TCP, and the connection of a queue pair.
#ifndef ROCE_TESTS_NETNS_MEETING_H_
#define ROCE_TESTS_NETNS_MEETING_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "soft/soft.h"

namespace roce::test {

/// Prints the text, after the program's name, and ends the process.
[[noreturn]] void die(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// Ends the process unless error is 0.
void expect(int error, const char* what);

struct Port {
  ibv_context* context = nullptr;
  int gid_index = -1;
  ibv_gid gid{};
};
/// Opens the software device whose interface has this IPv4 address.
Port open_port(const std::string& own);

/// What a peer must know of a queue pair.
struct QpName {
  uint32_t qpn, psn;
  ibv_gid gid;
  soft::PeerHints hints;
};
QpName name_of(const ibv_qp& qp, const Port& port);

/// What the sides know of each other.
enum class Knowledge : uint32_t {
  kTold,     ///< The program tells it (set_peer_hints).
  kAsked,    ///< Plain verbs: the devices ask each other.
  kForeign,  ///< Nothing, as of a device that is not mpi-roce's own.
};
/// Of "plain" (kAsked) or "foreign".
Knowledge knowledge_of(const std::string& text);

struct PathChoice {
  Knowledge knowledge = Knowledge::kTold;
  uint8_t timeout = 17, retry_cnt = 7;
};
/// RESET to INIT, for peers that may write and read.
void initialize(ibv_qp* qp);
/// INIT to RTS.
void connect_qp(ibv_qp* qp, const Port& port, const QpName& own, const QpName& peer,
                const PathChoice& path);

/// TCP between the two processes. All of it ends the process if the peer is not there.
int listen_at(const std::string& own);
int accept_from(int listener);
int connect_to(const std::string& server);
void tell(int fd, const void* data, size_t bytes);
void hear(int fd, void* data, size_t bytes);

}  // namespace roce::test

#endif  // ROCE_TESTS_NETNS_MEETING_H_

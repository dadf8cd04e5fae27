// Verbs programs under load and disturbance; every byte that arrives is checked.
//
//   survive one OWN SENDERS send|write|read BYTES MILLISECONDS [plain|foreign]
//   survive sender OWN ONE
//   survive flow OWN SERVER recovered|reported TIMEOUT RETRIES [plain|foreign]
//   survive serve OWN
//
// one: takes the messages of SENDERS processes at once, or reads from them. flow: SENDs, WRITEs and
// READs, which a disturbance delays (recovered) or ends with IBV_WC_RETRY_EXC_ERR (reported);
// TIMEOUT and RETRIES as in ibv_modify_qp. plain: by verbs alone; foreign: as towards a device that
// is not mpi-roce's own.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "disturb.h"
#include "incast.h"

namespace {

using namespace roce::test;

constexpr unsigned kSecondsAtMost = 30;

uint32_t number_of(const char* text, long most) {
  const long value = std::atol(text);
  if (value < 1 || value > most) die("a number from 1 to %ld, not %s", most, text);
  return static_cast<uint32_t>(value);
}

Load::Kind kind_of(const std::string& text) {
  if (text == "send") return Load::kSend;
  if (text == "write") return Load::kWrite;
  if (text == "read") return Load::kRead;
  die("send, write or read, not %s", text.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  alarm(kSecondsAtMost);
  if (role == "one" && (argc == 7 || argc == 8)) {
    const Load load{kind_of(argv[4]), number_of(argv[5], 1 << 20), number_of(argv[6], 20'000),
                    argc == 8 ? knowledge_of(argv[7]) : Knowledge::kTold};
    run_one(argv[2], number_of(argv[3], 64), load);
  } else if (role == "sender" && argc == 4) {
    run_sender(argv[2], argv[3]);
  } else if (role == "flow" && (argc == 7 || argc == 8)) {
    const PathChoice path{argc == 8 ? knowledge_of(argv[7]) : Knowledge::kTold,
                          static_cast<uint8_t>(number_of(argv[5], 31)),
                          static_cast<uint8_t>(number_of(argv[6], 7))};
    run_flow(argv[2], argv[3], {std::string(argv[4]) == "reported", path});
  } else if (role == "serve" && argc == 3) {
    run_server(argv[2]);
  } else {
    die("usage: see the first lines of tests/netns/survive.cc");
  }
}

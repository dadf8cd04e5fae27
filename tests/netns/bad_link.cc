// Two processes on two hosts with a bad link between them: every byte of SEND, RDMA WRITE and READ
// is checked, and the guard areas around and between the buffers.
//
//   bad_link serve OWN_ADDRESS
//   bad_link mixed|spin OWN_ADDRESS SERVER OPERATIONS [plain|foreign]
//
// mixed: SEND, WRITE with immediate and READ of 8 B to 1 MiB. spin: WRITEs of several packets to a
// reader that spins on the last byte. plain: by verbs alone, so that the devices ask each other
// what they can (path MTU 1024). foreign: as towards a device that is not mpi-roce's own
// (go-back-N).
#include <cstdlib>
#include <cstring>
#include <random>

#include "bad_link_side.h"

namespace {

using namespace roce::test;

constexpr uint32_t kSpinBytes = 3000;
constexpr uint32_t kEnd = 0xFFFFFFFF;
constexpr unsigned kSecondsAtMost = 100;

struct Operation {
  enum Kind : uint32_t { kSend, kWrite, kRead } kind;
  uint32_t bytes;
};

/// Both sides draw the same operations.
class Plan {
 public:
  Operation next() {
    static constexpr uint32_t kSizes[] = {8, 64, 1000, 4096, 30000, 65536, kSlotBytes};
    Operation out;
    out.kind = static_cast<Operation::Kind>(random_() % 3);
    out.bytes = kSizes[random_() % std::size(kSizes)];
    return out;
  }

 private:
  std::mt19937 random_{20240701};
};

uint8_t pattern(uint32_t id, uint32_t at) {
  return static_cast<uint8_t>(id * 131 + at * 7 + (at >> 8) * 13 + 1);
}

void fill(uint8_t* to, uint32_t id, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) to[i] = pattern(id, i);
}

void check(const uint8_t* at, uint32_t id, uint32_t bytes, const char* what) {
  for (uint32_t i = 0; i < bytes; ++i) {
    if (at[i] == pattern(id, i)) continue;
    die("%s %u of %u bytes: byte %u is %u, should be %u", what, id, bytes, i, at[i],
        pattern(id, i));
  }
}

/// What a READ finds in a slot of the server.
uint32_t source_id(uint32_t slot) { return 1000 + slot; }

void client_mixed(Side& side, uint32_t operations) {
  Plan plan;
  Operation ops[kSlots];
  bool busy[kSlots] = {};
  uint32_t finished = 0, posted = 0;
  while (finished < operations) {
    const uint32_t slot = posted % kSlots;
    if (posted < operations && !busy[slot]) {
      const Operation op = ops[slot] = plan.next();
      busy[slot] = true;
      if (op.kind == Operation::kRead) {
        std::memset(side.received.slot(slot), 0, op.bytes);
        side.post_read(posted, slot, op.bytes);
      } else {
        fill(side.source.slot(slot), posted, op.bytes);
        side.post_send(op.kind == Operation::kWrite, posted, slot, op.bytes);
      }
      ++posted;
      continue;
    }
    const ibv_wc wc = side.wait();
    uint32_t id = 0;
    if (wc.opcode == IBV_WC_RDMA_READ) {
      id = static_cast<uint32_t>(wc.wr_id);
      check(side.received.slot(id), source_id(id % kSlots), ops[id % kSlots].bytes, "READ");
    } else if ((wc.opcode & IBV_WC_RECV) != 0) {
      id = side.number(wc);
      side.post_receive(0, nullptr);
    } else {
      continue;
    }
    busy[id % kSlots] = false;
    ++finished;
  }
}

void serve_mixed(Side& side) {
  Plan plan;
  uint32_t next = 0;  // Operation that the plan gives next.
  for (uint32_t message = 0;; ++message) {
    ibv_wc wc = side.wait();
    while ((wc.opcode & IBV_WC_RECV) == 0) wc = side.wait();
    const uint32_t id = side.number(wc);
    if (id == kEnd) break;
    Operation op = plan.next();
    for (++next; op.kind == Operation::kRead; ++next) op = plan.next();
    if (id != next - 1) die("message %u came instead of %u", id, next - 1);
    const uint8_t* at =
        op.kind == Operation::kSend ? side.received.slot(message) : side.target.slot(id);
    if (wc.byte_len != op.bytes)
      die("operation %u has %u bytes instead of %u", id, wc.byte_len, op.bytes);
    check(at, id, op.bytes, op.kind == Operation::kSend ? "SEND" : "WRITE");
    side.post_receive(message, side.received.slot(message));
    side.post_number(id);
  }
}

void client_spin(Side& side, uint32_t operations) {
  for (uint32_t i = 0; i < operations; ++i) {
    std::memset(side.source.slot(0), static_cast<int>(i % 250 + 1), kSpinBytes);
    side.post_write(0, kSpinBytes);
    while ((side.wait().opcode & IBV_WC_RECV) == 0) {
    }
    side.post_receive(0, nullptr);
  }
}

void serve_spin(Side& side, uint32_t operations) {
  uint8_t* data = side.target.slot(0);
  volatile uint8_t* last = data + kSpinBytes - 1;
  uint8_t before = *last;
  for (uint32_t i = 0; i < operations; ++i) {
    const auto tag = static_cast<uint8_t>(i % 250 + 1);
    uint8_t now = before;
    while (now == before) now = *last;
    if (now != tag) die("WRITE %u: the last byte became %u, should be %u", i, now, tag);
    for (uint32_t k = 0; k < kSpinBytes; ++k) {
      if (data[k] != tag)
        die("WRITE %u: byte %u is %u although the last one is %u", i, k, data[k], tag);
    }
    before = tag;
    side.post_number(i);
    side.drop_completions();
  }
}

uint32_t operations_of(const char* text) {
  const long value = std::atol(text);
  if (value < 1 || value > 10'000'000) die("OPERATIONS is 1 to 10000000, not %s", text);
  return static_cast<uint32_t>(value);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  const bool serve = role == "serve" && argc == 3;
  const bool client = (role == "mixed" || role == "spin") && (argc == 5 || argc == 6);
  if (!serve && !client)
    die("usage: bad_link serve OWN | mixed|spin OWN SERVER OPERATIONS [plain|foreign]");
  alarm(kSecondsAtMost);
  Task task;
  if (client) {
    task.operations = operations_of(argv[4]);
    task.spin = role == "spin";
    if (argc == 6) task.knowledge = knowledge_of(argv[5]);
  }
  Side side(argv[2], client ? argv[3] : "", task);
  for (uint32_t i = 0; i < kSlots; ++i) fill(side.source.slot(i), source_id(i), kSlotBytes);
  side.meet();
  if (serve) {
    side.task().spin ? serve_spin(side, side.task().operations) : serve_mixed(side);
  } else {
    task.spin ? client_spin(side, task.operations) : client_mixed(side, task.operations);
    if (!task.spin) side.post_number(kEnd);
  }
  side.target.check_guards();
  side.source.check_guards();
  side.received.check_guards();
  side.finish();
  std::printf("%s: %u operations, all bytes right;", role.c_str(), side.task().operations);
  for (const char* name : {"resent_packets", "kept_packets", "repairs", "udp_rx_bad_icrc"}) {
    std::printf(" %s %llu", name, static_cast<unsigned long long>(roce::soft::counter(name)));
  }
  std::printf("\n");
  const bool agreed = roce::soft::counter("peers_agreed") != 0;
  if (agreed != (side.task().knowledge == Knowledge::kAsked)) die("agreed: %d", agreed);
}

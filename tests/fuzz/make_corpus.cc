// Writes first inputs for the fuzzers: stories of two queue pairs that work with each other over a
// network that loses some packets, and one packet of each kind.
//
//   make_corpus DIR      makes files in DIR/packet, DIR/responder and DIR/requester, which exist
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "fuzz_host.h"

namespace {

using namespace roce::engine::test;
using Bytes = std::vector<uint8_t>;

void write_file(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  require(out.good(), path.c_str());
}

void add(Bytes& story, Record kind, uint8_t value) {
  story.push_back(static_cast<uint8_t>(kind));
  story.push_back(value);
}

void add_packet(Bytes& story, const Bytes& datagram) {
  const size_t bytes = datagram.size() - roce::wire::kIcrcBytes;
  story.push_back(static_cast<uint8_t>(Record::kPacket));
  story.push_back(static_cast<uint8_t>(bytes));
  story.push_back(static_cast<uint8_t>(bytes >> 8));
  story.insert(story.end(), datagram.begin(), datagram.begin() + static_cast<ptrdiff_t>(bytes));
}

/// The story, and for each of its packets one in which that packet is longer or shorter.
void write_story(const std::string& path, const Bytes& story) {
  write_file(path, story);
  for (size_t at = 1, packet = 0; at < story.size(); ++packet) {
    if (story[at] != static_cast<uint8_t>(Record::kPacket)) {
      at += 2;
      continue;
    }
    for (const uint8_t change : {4, 8}) {
      Bytes changed = story;
      changed[at] |= change;
      write_file(path + (change == 4 ? "_longer" : "_shorter") + std::to_string(packet), changed);
    }
    at += 3 + story[at + 1] + story[at + 2] * size_t{256};
  }
}

/// One side posts, the other answers; both stories are written.
void converse(const std::string& dir, uint8_t flavour, double loss) {
  std::mt19937_64 random(flavour);
  std::bernoulli_distribution lost(loss);
  FuzzHost requester(flavour), responder(flavour);
  Bytes asked = {flavour}, answered = {flavour};
  for (int i = 0; i < 8; ++i) responder.post(i % 2 == 0 ? 0x3F : 0x2F);
  for (uint8_t operation = 0; operation < 7; ++operation) requester.post(operation | 0x28);
  std::vector<Frame> to_responder = requester.pump();
  std::vector<Frame> to_requester;
  const auto deliver = [&](FuzzHost& to, Bytes& story, std::vector<Frame>& frames,
                           std::vector<Frame>& answers) {
    for (const Frame& frame : std::exchange(frames, {})) {
      if (lost(random)) continue;
      add_packet(story, frame.datagram);
      to.receive_packet({frame.datagram.data(), frame.datagram.size() - roce::wire::kIcrcBytes});
      for (Frame& answer : to.pump()) answers.push_back(std::move(answer));
    }
  };
  for (int round = 0; round < 12; ++round) {
    deliver(responder, answered, to_responder, to_requester);
    deliver(requester, asked, to_requester, to_responder);
    const uint8_t exponent = to_responder.empty() ? 22 : 12;
    for (auto [host, story, out] : {std::tuple(&requester, &asked, &to_responder),
                                    std::tuple(&responder, &answered, &to_requester)}) {
      add(*story, Record::kPause, exponent);
      host->pause(exponent);
      for (Frame& frame : host->pump()) out->push_back(std::move(frame));
    }
  }
  const std::string name =
      "/flavour" + std::to_string(flavour) + (loss > 0 ? "_with_loss" : "_without_loss");
  write_story(dir + "/requester" + name, asked);
  write_story(dir + "/responder" + name, answered);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus DIR\n");
    return 2;
  }
  const std::string dir = argv[1];
  for (uint8_t flavour = 0; flavour < 4; ++flavour) {
    for (const double loss : {0.0, 0.15}) converse(dir, flavour, loss);
  }
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (!roce::wire::opcode_info(static_cast<uint8_t>(opcode)).known) continue;
    roce::wire::Header header;
    header.opcode = static_cast<roce::wire::Opcode>(opcode);
    header.dest_qpn = 0x11;
    const uint32_t payload = roce::wire::opcode_info(header.opcode).payload ? 5 : 0;
    Bytes datagram(roce::wire::kMaxHeaderBytes);
    datagram.resize(roce::wire::build(header, payload, datagram.data()));
    datagram.resize(roce::wire::datagram_bytes(header.opcode, payload), 0x77);
    char name[32];
    std::snprintf(name, sizeof name, "/packet/opcode_%02x", opcode);
    write_file(dir + name, datagram);
  }
  return 0;
}

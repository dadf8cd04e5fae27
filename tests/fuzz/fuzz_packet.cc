// The parsers of packets and of HELLOs: whatever the bytes, they read none beyond them, and what
// they take can be built again.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "fuzz_host.h"
#include "wire/hello.h"

using roce::engine::test::require;
using namespace roce::wire;

namespace {

void check_hello(std::span<const uint8_t> payload) {
  const auto hello = parse_hello(payload);
  if (!hello) return;
  uint8_t built[kHelloBytes];
  build_hello(*hello, built);
  const auto again = parse_hello(built);
  require(again && again->kind == hello->kind && again->udp_port == hello->udp_port &&
              again->capabilities == hello->capabilities &&
              again->receive_budget_bytes == hello->receive_budget_bytes &&
              again->from_qpn == hello->from_qpn && again->to_qpn == hello->to_qpn &&
              again->nonce == hello->nonce,
          "parsing the HELLO that was built gives the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Of exactly this size, so that the address sanitizer sees a read of one byte too many.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[size]);
  std::copy_n(data, size, bytes.get());
  check_hello({bytes.get(), size});
  const Parsed parsed = parse({bytes.get(), size});
  if (parsed.error != ParseError::kNone) return 0;
  require(parsed.payload_offset + parsed.payload_length + parsed.pad + kIcrcBytes == size,
          "headers, payload, pad and ICRC are the datagram");
  require(datagram_bytes(parsed.header.opcode, parsed.payload_length) == size,
          "its size follows from opcode and payload");
  uint8_t headers[kMaxHeaderBytes];
  const size_t built = build(parsed.header, parsed.payload_length, headers);
  require(built == parsed.payload_offset, "built headers have the parsed length");
  std::vector<uint8_t> again(headers, headers + built);
  again.resize(size);
  const Parsed second = parse(again);
  require(second.error == ParseError::kNone && second.header.psn == parsed.header.psn &&
              second.header.dest_qpn == parsed.header.dest_qpn &&
              second.header.va == parsed.header.va && second.header.imm == parsed.header.imm &&
              second.payload_length == parsed.payload_length,
          "parsing what was built gives the same packet");
  return 0;
}

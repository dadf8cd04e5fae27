// A queue pair with one request of each kind under way, as a target of any packets. First byte:
// FuzzHost's flavour.
#include "fuzz_host.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using roce::engine::test::FuzzHost;
  if (size == 0) return 0;
  FuzzHost host(data[0]);
  for (uint8_t operation = 0; operation < 7; ++operation)
    host.post(operation | 0x28);  // 600 bytes.
  host.pump();
  host.play({data + 1, size - 1});
  return 0;
}

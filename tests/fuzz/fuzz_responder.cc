// A queue pair with receives posted, as a target of any packets. First byte: FuzzHost's flavour.
#include "fuzz_host.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using roce::engine::test::FuzzHost;
  if (size == 0) return 0;
  FuzzHost host(data[0]);
  for (int i = 0; i < 8; ++i) host.post(i % 2 == 0 ? 0x3F : 0x2F);  // 2048 and 600 bytes.
  host.play({data + 1, size - 1});
  return 0;
}

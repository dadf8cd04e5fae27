// One-way bandwidth between pairs of ranks with a window of messages in flight.
//
//   mpirun -np 2 --mca btl roce,self bandwidth                  1 B to 4 MiB, 64 in flight
//   mpirun -np 2 --mca btl roce,self bandwidth -m 1M:64M -W 16  large messages
//   mpirun -np 2 --mca btl roce,self bandwidth -d vector -c     with gaps, every message checked
//
// Prints MB/s (10^6 bytes of payload) over all pairs; rank i sends to rank i + np/2. An iteration
// is one window and a 4-byte answer. One checked window goes before and one after the timed loop;
// with -c every message is checked, outside the clock. -b multiple gives each message of a window
// its own buffers. Options: -m -i -x -c -W -d -b (see --help). Status: 0 good, 1 wrong data, 2
// wrong use.
#include "windowed.h"

int main(int argc, char** argv) {
  using namespace examples;
  MPI_Init(&argc, &argv);
  const Options options = parse_options(argc, argv, "bandwidth", "mixcWdb");
  Windowed windowed("bandwidth", options);
  print_header("bandwidth: one way, sum over pairs", "Bandwidth (MB/s)");
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = next_size(bytes)) {
    const double rate = windowed.messages_per_second(bytes);
    if (!windowed.verdict().agree()) break;
    print_row(bytes, rate * static_cast<double>(bytes) / 1e6);
  }
  return windowed.verdict().finish();
}

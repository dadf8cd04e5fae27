// Messages per second between pairs of ranks with a window of messages in flight.
//
//   mpirun -np 2 --mca btl roce,self message_rate               1 B to 4 MiB, 64 in flight
//   mpirun -np 4 --mca btl roce,self message_rate -m 8:8        two pairs, one size
//
// Prints the sum over all pairs; rank i sends to rank i + np/2. An iteration is one window and a
// 4-byte answer. One checked window goes before and one after the timed loop; with -c every message
// is checked, outside the clock. Options: -m -i -x -c -W -d -b (see --help). Status: 0 good, 1
// wrong data, 2 wrong use.
#include "windowed.h"

int main(int argc, char** argv) {
  using namespace examples;
  MPI_Init(&argc, &argv);
  const Options options = parse_options(argc, argv, "message_rate", "mixcWdb");
  Windowed windowed("message_rate", options);
  print_header("message rate: one way, sum over pairs", "Messages/s");
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = next_size(bytes)) {
    const double rate = windowed.messages_per_second(bytes);
    if (!windowed.verdict().agree()) break;
    print_row(bytes, rate);
  }
  return windowed.verdict().finish();
}

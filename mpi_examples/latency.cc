// Ping-pong latency between pairs of ranks, as MPI programs see it.
//
//   mpirun -np 2 --mca btl roce,self latency                    1 B to 4 MiB
//   mpirun -np 2 --mca btl roce,self latency -m 8:8 -i 20000    one size
//   mpirun -np 2 --mca btl roce,self latency -d vector -c       with gaps, every message checked
//
// Prints half the round trip in microseconds, the mean over the iterations and over all pairs (rank
// i talks to rank i + np/2). One checked exchange goes before and one after the timed loop; with -c
// every message is checked, outside the clock. Options: -m -i -x -c -d (see --help). Status: 0
// good, 1 wrong data, 2 wrong use.
#include "common.h"

namespace {

using namespace examples;

constexpr int kTag = 1;

struct Exchange {
  const Layout& layout;
  const Pair& pair;
  std::byte* send;
  std::byte* receive;
  Verdict& verdict;

  double round_trip() const {
    const double start = MPI_Wtime();
    if (pair.first) MPI_Send(send, layout.count(), layout.type(), pair.peer, kTag, MPI_COMM_WORLD);
    MPI_Recv(receive, layout.count(), layout.type(), pair.peer, kTag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (!pair.first) MPI_Send(send, layout.count(), layout.type(), pair.peer, kTag, MPI_COMM_WORLD);
    return MPI_Wtime() - start;
  }

  double checked_round_trip(std::uint64_t number) const {
    layout.fill(send, message_seed(world_rank(), layout.bytes(), number));
    layout.clear(receive);
    // The peer's preparation must not count as latency.
    MPI_Sendrecv(nullptr, 0, MPI_BYTE, pair.peer, kTag, nullptr, 0, MPI_BYTE, pair.peer, kTag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double seconds = round_trip();
    verdict.wrong_data(layout.check(receive, message_seed(pair.peer, layout.bytes(), number)),
                       layout.bytes(), pair.peer);
    return seconds;
  }
};

double half_round_trip_us(const Exchange& exchange, const Options& options) {
  const int iterations = iterations_for(options, exchange.layout.bytes(), 10000, 1000);
  const int warmup = warmup_for(options, iterations);
  exchange.checked_round_trip(0);
  double seconds = 0;
  if (options.validate) {
    for (int i = -warmup; i < iterations; ++i) {
      const double each = exchange.checked_round_trip(static_cast<std::uint64_t>(warmup + i + 1));
      if (i >= 0) seconds += each;
    }
  } else {
    for (int i = 0; i < warmup; ++i) exchange.round_trip();
    const double start = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) exchange.round_trip();
    seconds = MPI_Wtime() - start;
  }
  exchange.checked_round_trip(static_cast<std::uint64_t>(warmup + iterations + 1));
  return seconds * 1e6 / iterations / 2;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options = parse_options(argc, argv, "latency", "mixcd");
  const Pair pair = pair_up("latency");
  const bool strided = options.datatype == "vector";
  const Memory send = allocate(Layout(options.max_bytes, strided).span());
  const Memory receive = allocate(Layout(options.max_bytes, strided).span());
  Verdict verdict("latency");

  print_header("latency: half round trip, mean", "Latency (us)");
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = next_size(bytes)) {
    const Layout layout(bytes, strided);
    MPI_Barrier(MPI_COMM_WORLD);
    const double own =
        half_round_trip_us({layout, pair, send.get(), receive.get(), verdict}, options);
    double sum = pair.first ? own : 0;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (!verdict.agree()) break;
    print_row(bytes, sum / pair.pairs);
  }
  return verdict.finish();
}

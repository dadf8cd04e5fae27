// A message travels round all ranks; every rank checks what it gets and passes on something new.
//
//   mpirun -np 4 --mca btl roce,self ring                       1 B to 4 MiB
//   mpirun -np 4 --mca btl roce,self ring -m 64K:64K -i 50      one size, 50 laps
//
// Prints the mean time of one hop in microseconds, checks included. Every message is always
// checked. Options: -m -i -d (see --help). Status: 0 good, 1 wrong data, 2 wrong use.
#include "common.h"

namespace {

using namespace examples;

// One lap started by rank 0. The content depends on the hop, so a rank that passed on what it got,
// or got what another hop sent, is found.
void lap(const Layout& layout, std::byte* buffer, std::uint64_t number, Verdict* verdict) {
  const int rank = world_rank();
  const int size = world_size();
  const int left = (rank + size - 1) % size;
  const int right = (rank + 1) % size;
  const auto receive = [&] {
    layout.clear(buffer);
    MPI_Recv(buffer, layout.count(), layout.type(), left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    verdict->wrong_data(layout.check(buffer, message_seed(left, layout.bytes(), number)),
                        layout.bytes(), left);
  };
  if (rank != 0) receive();
  layout.fill(buffer, message_seed(rank, layout.bytes(), number));
  MPI_Send(buffer, layout.count(), layout.type(), right, 1, MPI_COMM_WORLD);
  if (rank == 0) receive();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options = parse_options(argc, argv, "ring", "mid");
  if (world_size() < 2) leave(2, "ring: needs at least 2 ranks");
  const bool strided = options.datatype == "vector";
  const Memory buffer = allocate(Layout(options.max_bytes, strided).span());
  Verdict verdict("ring");

  print_header("ring: one hop, mean", "Hop (us)");
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = next_size(bytes)) {
    const Layout layout(bytes, strided);
    const int laps = iterations_for(options, bytes, 200, 20);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < laps; ++i) {
      lap(layout, buffer.get(), static_cast<std::uint64_t>(i), &verdict);
    }
    const double seconds = MPI_Wtime() - start;
    if (!verdict.agree()) break;
    print_row(bytes, seconds * 1e6 / laps / world_size());
  }
  return verdict.finish();
}

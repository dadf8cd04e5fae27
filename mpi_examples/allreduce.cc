// MPI_Allreduce of doubles: mean time and exact results.
//
//   mpirun -np 4 --mca btl roce,self allreduce                  8 B to 4 MiB
//   mpirun -np 4 --mca btl roce,self allreduce -m 1M -c         up to 1 MiB, every result checked
//
// Prints microseconds, the mean over iterations and ranks. The terms are small integers, so the sum
// is exact in any order and every element is compared with it. The first and the last result of
// each size are checked; with -c all are, outside the clock. Options: -m -i -x -c (see --help).
// Status: 0 good, 1 wrong data, 2 wrong use.
#include <vector>

#include "common.h"

namespace {

using namespace examples;

double term(std::size_t element, std::uint64_t number) {
  return static_cast<double>((element * 7 + number * 13) % 1021);
}

double one(std::vector<double>* in, std::vector<double>* out, std::size_t count) {
  const double start = MPI_Wtime();
  MPI_Allreduce(in->data(), out->data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM,
                MPI_COMM_WORLD);
  return MPI_Wtime() - start;
}

double checked(std::vector<double>* in, std::vector<double>* out, std::size_t count,
               std::uint64_t number, Verdict* verdict) {
  const double ranks = world_size();
  for (std::size_t i = 0; i < count; ++i) {
    (*in)[i] = (world_rank() + 1) * term(i, number);
    (*out)[i] = -1;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = one(in, out, count);
  for (std::size_t i = 0; i < count; ++i) {
    const double expected = ranks * (ranks + 1) / 2 * term(i, number);
    if ((*out)[i] == expected) continue;
    char text[256];
    std::snprintf(text, sizeof text,
                  "wrong sum in a vector of %zu bytes: [%zu] is %.17g, should be %.17g", 8 * count,
                  i, (*out)[i], expected);
    verdict->fail(text);
    break;
  }
  return seconds;
}

double mean_seconds(std::vector<double>* in, std::vector<double>* out, std::size_t count,
                    const Options& options, Verdict* verdict) {
  const int iterations = iterations_for(options, 8 * count, 1000, 100);
  const int warmup = warmup_for(options, iterations);
  checked(in, out, count, 0, verdict);
  double seconds = 0;
  for (int i = -warmup; i < iterations; ++i) {
    if (i == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      seconds = 0;
    }
    seconds += options.validate
                   ? checked(in, out, count, static_cast<std::uint64_t>(warmup + i + 1), verdict)
                   : one(in, out, count);
  }
  checked(in, out, count, static_cast<std::uint64_t>(warmup + iterations + 1), verdict);
  return seconds / iterations;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options defaults;
  defaults.min_bytes = sizeof(double);
  Options options = parse_options(argc, argv, "allreduce", "mixc", defaults);
  if (options.max_bytes / sizeof(double) > INT_MAX) {
    leave(2, "allreduce: at most 2147483647 elements");
  }
  options.min_bytes = std::max(options.min_bytes, sizeof(double));
  std::vector<double> in(options.max_bytes / sizeof(double));
  std::vector<double> out(in.size());
  Verdict verdict("allreduce");

  print_header("allreduce: sum of doubles, mean over ranks", "Time (us)");
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = next_size(bytes)) {
    double seconds = mean_seconds(&in, &out, bytes / sizeof(double), options, &verdict);
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (!verdict.agree()) break;
    print_row(bytes, seconds * 1e6 / world_size());
  }
  return verdict.finish();
}

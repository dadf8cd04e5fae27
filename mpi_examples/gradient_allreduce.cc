// Allreduce of gradients as in data-parallel training: ring, recursive doubling, MPI_Allreduce.
//
//   mpirun -np 4 --mca btl roce,self gradient_allreduce              1 MiB to 256 MiB of floats
//   mpirun -np 4 --mca btl roce,self gradient_allreduce -m 4M:16M -c every result checked
//
// The first two are written here with point-to-point calls (gradient_algorithms.h) and work with
// any number of ranks n. Prints for each size, of each: milliseconds, the mean of the slowest rank,
// and bus bandwidth in MB/s, which is 2 (n - 1) / n * bytes / time / 10^6: what each rank has to
// send at least, in an allreduce that sends as little as possible, by the time. It compares with
// the bandwidth of one direction of a link, whatever n is. The gradients are small integers, so the
// sums are exact in any order and every element is compared. The first and the last result are
// checked; with -c all are, outside the clock. Options: -m -i -x -c (see --help). Status: 0 good, 1
// wrong data, 2 wrong use.
#include <cstdint>
#include <limits>
#include <vector>

#include "common.h"
#include "gradient_algorithms.h"

namespace {

using namespace examples;

constexpr int kTermLimit = 251;
constexpr float kNoResult = std::numeric_limits<float>::quiet_NaN();

// Ranks have different gradients: this times one more than the rank modulo 8.
float term(int element, std::uint64_t number) {
  return static_cast<float>(pattern_word(number << 40, static_cast<std::uint64_t>(element)) %
                            kTermLimit);
}

int weight(int rank) { return 1 + rank % 8; }

int sum_of_weights() {
  int sum = 0;
  for (int rank = 0; rank < world_size(); ++rank) sum += weight(rank);
  return sum;
}

struct Algorithm {
  const char* name;
  void (*run)(const Gradients&);
};

void mpi_allreduce(const Gradients& gradients) {
  MPI_Allreduce(gradients.in, gradients.out, gradients.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

constexpr Algorithm kAlgorithms[] = {{"ring", ring_allreduce},
                                     {"recursive doubling", doubling_allreduce},
                                     {"MPI_Allreduce", mpi_allreduce}};

class Run {
 public:
  Run(const Options& options, Verdict* verdict)
      : options_(options),
        verdict_(verdict),
        in_(options.max_bytes / sizeof(float)),
        out_(in_.size()),
        scratch_(in_.size()) {}

  // Collective; seconds, the mean over the iterations, of the slowest rank.
  double seconds(const Algorithm& algorithm, std::size_t bytes) {
    const Gradients gradients = {in_.data(), out_.data(), scratch_.data(),
                                 static_cast<int>(bytes / sizeof(float))};
    const int iterations = options_.iterations > 0 ? options_.iterations : 5;
    const int warmup = warmup_for(options_, iterations);
    double sum = 0;
    std::uint64_t number = 0;
    for (int i = -warmup; i < iterations; ++i, ++number) {
      const bool check = options_.validate || i == -warmup || i + 1 == iterations;
      if (check) prepare(gradients.count, number);
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      algorithm.run(gradients);
      const double seconds = MPI_Wtime() - start;
      if (i >= 0) sum += seconds;
      if (check) compare(algorithm, gradients.count, number);
    }
    sum /= iterations;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return sum;
  }

 private:
  void prepare(int count, std::uint64_t number) {
    const auto own = static_cast<float>(weight(world_rank()));
    for (int i = 0; i < count; ++i) in_[static_cast<std::size_t>(i)] = own * term(i, number);
    std::fill(out_.begin(), out_.begin() + count, kNoResult);
  }

  void compare(const Algorithm& algorithm, int count, std::uint64_t number) {
    const auto weights = static_cast<float>(sum_of_weights());
    for (int i = 0; i < count; ++i) {
      const float expected = weights * term(i, number);
      const float seen = out_[static_cast<std::size_t>(i)];
      if (seen == expected) continue;
      char text[256];
      std::snprintf(text, sizeof text, "wrong sum by %s of %zu bytes: [%d] is %.9g, should be %.9g",
                    algorithm.name, sizeof(float) * static_cast<std::size_t>(count), i,
                    static_cast<double>(seen), static_cast<double>(expected));
      return verdict_->fail(text);
    }
  }

  Options options_;
  Verdict* verdict_;
  std::vector<float> in_, out_, scratch_;
};

double bus_bandwidth(std::size_t bytes, double seconds) {
  const double n = world_size();
  return 2 * (n - 1) / n * static_cast<double>(bytes) / seconds / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options defaults;
  defaults.min_bytes = std::size_t{1} << 20;
  defaults.max_bytes = std::size_t{256} << 20;
  Options options = parse_options(argc, argv, "gradient_allreduce", "mixc", defaults);
  if (options.max_bytes / sizeof(float) > INT_MAX) {
    leave(2, "gradient_allreduce: at most 2147483647 elements");
  }
  if (sum_of_weights() > (1 << std::numeric_limits<float>::digits) / kTermLimit) {
    leave(2, "gradient_allreduce: too many ranks for exact sums");
  }
  options.max_bytes = std::max(options.max_bytes, sizeof(float));
  options.min_bytes = std::clamp(options.min_bytes, sizeof(float), options.max_bytes);
  Verdict verdict("gradient_allreduce");
  Run run(options, &verdict);

  if (world_rank() == 0) {
    std::printf(
        "# gradient_allreduce: sum of floats, %d ranks: time (ms) and bus bandwidth (MB/s)\n",
        world_size());
    std::printf("# %-10s", "Size");
    for (const Algorithm& each : kAlgorithms) std::printf("  %19s", each.name);
    std::printf("\n");
    std::fflush(stdout);
  }
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = next_size(bytes)) {
    std::string row;
    for (const Algorithm& each : kAlgorithms) {
      const double seconds = run.seconds(each, bytes);
      char text[64];
      std::snprintf(text, sizeof text, "  %10.3f %8.1f", seconds * 1e3,
                    bus_bandwidth(bytes, seconds));
      row += text;
    }
    if (!verdict.agree()) break;
    if (world_rank() == 0) {
      std::printf("%-12zu%s\n", bytes, row.c_str());
      std::fflush(stdout);
    }
  }
  return verdict.finish();
}

// Passive target: rank 0 computes for a while without calling MPI; every other rank puts, gets and
// adds meanwhile, and each flush has to return before the target calls MPI again.
//
//   mpirun -np 2 --mca btl roce,self --mca osc rdma passive_target [SECONDS]     3 if not given
//
// Prints the first and the longest other time of a put with its flush in microseconds, and "all
// good".
#include <algorithm>
#include <cstdlib>

#include "one_sided.h"

namespace {

using namespace one_sided;

/// Neither MPI nor the system is called but for the time.
void compute(double seconds) {
  const double end = MPI_Wtime() + seconds;
  volatile double value = 1;
  while (MPI_Wtime() < end) {
    for (int i = 0; i < 10000; ++i) value = value * 1.0000001 + 1e-9;
  }
}

struct Times {
  double first = 0, longest = 0;
  int count = 0;
  void add(double seconds) {
    (count++ == 0 ? first : longest) = count == 1 ? seconds : std::max(longest, seconds);
  }
};

Times origin(const Window& window, double seconds) {
  Times times;
  const double end = MPI_Wtime() + seconds;
  const size_t own = 64 * static_cast<size_t>(rank());
  for (int64_t i = 1; MPI_Wtime() < end; ++i) {
    const double start = MPI_Wtime();
    MPI_Put(&i, 1, MPI_INT64_T, 0, window.at(0, own), 1, MPI_INT64_T, window.get());
    MPI_Win_flush(0, window.get());
    times.add(MPI_Wtime() - start);
    int64_t seen = 0, before = 0;
    const int64_t one = 1;
    MPI_Get(&seen, 1, MPI_INT64_T, 0, window.at(0, own), 1, MPI_INT64_T, window.get());
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, window.at(0, own + 8), MPI_SUM, window.get());
    MPI_Win_flush(0, window.get());
    check_equal(seen, i, "read back");
    check_equal(before, i - 1, "counted");
    // Of about 1,000 rounds; the target's core may be this one.
    const double pause = MPI_Wtime() + 0.002;
    while (MPI_Wtime() < pause) {
    }
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
  {
    Window window(Kind::kCreate, 64 * static_cast<size_t>(size()));
    MPI_Win_lock_all(0, window.get());
    MPI_Barrier(MPI_COMM_WORLD);
    Times times;
    if (rank() == 0) {
      compute(seconds);
    } else {
      times = origin(window, 0.8 * seconds);
    }
    // What is left of the target's time tells that no flush waited for it.
    const double done = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() != 0) {
      check(times.count >= 100, "only " + std::to_string(times.count) + " rounds");
      check(MPI_Wtime() - done > 0.05 * seconds, "the target had to end before the last flush");
      std::printf("rank %d: first %.0f us, longest other %.0f us, %d rounds\n", rank(),
                  times.first * 1e6, times.longest * 1e6, times.count);
    }
    MPI_Win_unlock_all(window.get());
  }
  return finish();
}

// Many ranks on few cores: a ring, then all to all and allreduce, every value checked.
//
//   mpirun -np 64 --oversubscribe --mca mpi_yield_when_idle 1 --mca btl roce,self scale [ring|pool]
//
// With "ring" nothing but the ring, for which each rank needs two peers; with "pool" all others
// send to rank 0, which begins to receive when its buffers are full. Prints the growth of rank 0's
// memory by the all to all, bytes for each peer that is new in it, and "all good".
#include <mpi.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

int failures = 0;

void check(bool good, int rank, const char* what) {
  if (!good && ++failures <= 3) std::fprintf(stderr, "rank %d: FAILED: %s\n", rank, what);
}

long resident_bytes() {
  long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
  if (file != nullptr) std::fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

void ring(int rank, int size) {
  for (int round = 0; round < 20; ++round) {
    const int64_t out = rank * 1000 + round;
    int64_t in = -1;
    const int before = (rank + size - 1) % size;
    MPI_Sendrecv(&out, 1, MPI_INT64_T, (rank + 1) % size, round, &in, 1, MPI_INT64_T, before, round,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(in == before * 1000 + round, rank, "ring");
  }
}

void all_to_all(int rank, int size, int each) {
  const auto total = static_cast<size_t>(size) * static_cast<size_t>(each);
  std::vector<int32_t> out(total), in(total, -1);
  for (size_t i = 0; i < total; ++i) out[i] = rank * 100000 + static_cast<int>(i);
  MPI_Alltoall(out.data(), each, MPI_INT32_T, in.data(), each, MPI_INT32_T, MPI_COMM_WORLD);
  bool good = true;
  for (int from = 0; from < size; ++from) {
    for (int k = 0; k < each; ++k) {
      good = good && in[static_cast<size_t>(from * each + k)] == from * 100000 + rank * each + k;
    }
  }
  check(good, rank, "alltoall");
}

void allreduce(int rank, int size, int count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = int64_t{rank} * (i + 1);
  MPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  bool good = true;
  for (int i = 0; i < count; ++i) {
    good = good && values[static_cast<size_t>(i)] == int64_t{size} * (size - 1) / 2 * (i + 1);
  }
  check(good, rank, "allreduce");
}

void pool(int rank, int size) {
  constexpr int kMessages = 40, kMost = 500;  // All of them eager.
  std::vector<int32_t> data(kMost);
  auto length_of = [](int message) { return 1 + message * 37 % kMost; };
  if (rank != 0) {
    for (int message = 0; message < kMessages; ++message) {
      for (int i = 0; i < kMost; ++i)
        data[static_cast<size_t>(i)] = rank * 100000 + message * 1000 + i;
      MPI_Send(data.data(), length_of(message), MPI_INT32_T, 0, 0, MPI_COMM_WORLD);
    }
    return;
  }
  usleep(300'000);
  std::vector<int> next(static_cast<size_t>(size), 0);
  for (int n = 0; n < kMessages * (size - 1); ++n) {
    MPI_Status status;
    int count = 0;
    MPI_Recv(data.data(), kMost, MPI_INT32_T, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT32_T, &count);
    const int message = next[static_cast<size_t>(status.MPI_SOURCE)]++;
    bool good = count == length_of(message);
    for (int i = 0; i < count; ++i) {
      good =
          good && data[static_cast<size_t>(i)] == status.MPI_SOURCE * 100000 + message * 1000 + i;
    }
    check(good, rank, "message");
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string only = argc < 2 ? "" : argv[1];
  if (only == "pool") {
    pool(rank, size);
  } else {
    ring(rank, size);
  }
  if (only.empty()) {
    const long before = resident_bytes();
    all_to_all(rank, size, 16);
    if (rank == 0) {
      std::printf("memory: %ld bytes a peer\n", (resident_bytes() - before) / (size - 3));
    }
    all_to_all(rank, size, 1024);
    for (int count : {1, 1000, 100000}) allreduce(rank, size, count);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0 && failures == 0) std::printf("all good\n");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}

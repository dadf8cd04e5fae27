// Gathers the host name of every rank on rank 0 and prints them in rank order.
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::array<char, 65> name{};
  gethostname(name.data(), name.size() - 1);
  std::vector<std::array<char, 65>> names(static_cast<std::size_t>(size));
  MPI_Gather(name.data(), name.size(), MPI_CHAR, names.data(), name.size(), MPI_CHAR, 0,
             MPI_COMM_WORLD);
  for (int r = 0; rank == 0 && r < size; ++r)
    std::printf("rank %d of %d on %s\n", r, size, names[static_cast<std::size_t>(r)].data());
  MPI_Finalize();
  return 0;
}

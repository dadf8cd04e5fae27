// Dynamic processes: spawns a child, exchanges messages with it, disconnects; and connects two
// halves of the world through a port. Both many times in a row; memory and endpoints must not grow.
//
//   mpirun -np 2 --mca btl roce,self dynamic [ROUNDS]     100 if not given
//
// Prints "all good", and the growth of rank 0's memory over the second half of the rounds.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

int failures = 0;

void check(bool good, const std::string& what) {
  if (!good && ++failures <= 10) std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

/// Short and long messages both ways; `low` starts.
void exchange(MPI_Comm peers, int peer, bool low, int round) {
  for (size_t bytes : {size_t{8}, size_t{200000}}) {
    std::vector<unsigned char> out(bytes), in(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      out[i] = static_cast<unsigned char>(i + static_cast<size_t>(round) + (low ? 0 : 101));
    }
    const int count = static_cast<int>(bytes);
    MPI_Request request;
    MPI_Irecv(in.data(), count, MPI_BYTE, peer, round, peers, &request);
    MPI_Send(out.data(), count, MPI_BYTE, peer, round, peers);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bool same = true;
    for (size_t i = 0; i < bytes; ++i) {
      same = same && in[i] == static_cast<unsigned char>(out[i] + (low ? 101 : -101));
    }
    check(same, "round " + std::to_string(round) + ", " + std::to_string(bytes) + " bytes");
  }
}

int child(MPI_Comm parent) {
  int round = 0;
  MPI_Bcast(&round, 1, MPI_INT, 0, parent);
  int size = 0;
  MPI_Comm_remote_size(parent, &size);
  for (int peer = 0; peer < size; ++peer) exchange(parent, peer, false, round);
  MPI_Comm_disconnect(&parent);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}

/// One child of all ranks, which talks to each of them.
void spawn(const char* program, int round) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm children;
  int error = MPI_ERR_OTHER;
  MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, &error);
  check(error == MPI_SUCCESS, "spawn");
  MPI_Bcast(&round, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
  exchange(children, 0, true, round);
  MPI_Comm_disconnect(&children);
}

/// Even and odd ranks meet through a port.
void meet(int round) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool accepts = rank % 2 == 0;
  MPI_Comm half, peers;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  char port[MPI_MAX_PORT_NAME] = {};
  if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (accepts) {
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &peers);
  } else {
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &peers);
  }
  int peer = 0, size = 0;
  MPI_Comm_rank(half, &peer);
  MPI_Comm_remote_size(peers, &size);
  if (peer < size) exchange(peers, peer, accepts, round);
  MPI_Comm_disconnect(&peers);
  if (rank == 0) MPI_Close_port(port);
  MPI_Comm_free(&half);
}

/// Resident memory, KiB.
long resident() {
  long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
  if (file != nullptr) std::fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm parent;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) return child(parent);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  long middle = 0;
  for (int round = 0; round < rounds; ++round) {
    if (round == rounds / 2) middle = resident();
    spawn(argv[0], round);
    meet(round);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    std::printf("%d rounds, memory of rank 0: %ld KiB, %ld KiB in the middle\n", rounds, resident(),
                middle);
  }
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && failures == 0) std::printf("all good\n");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}

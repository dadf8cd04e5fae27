// Messages from memory that comes and goes, for the cache of registrations. Two ranks; rank 0
// sends.
//
//   mpirun -np 2 --mca btl roce,self registration reuse|remap|many|churn [ROUNDS]     100 if not
//   given
//
//   reuse  the same two buffers of 1 MiB every time
//   remap  1 MiB that is unmapped after each message and mapped anew at the same address
//   many   64 buffers of 1 MiB in turns
//   churn  malloc, realloc, mmap, madvise, large pages, fork, sizes from 1 B to 8 MiB, at random
//
// Every byte of every message is checked. Prints "all good".
#include <mpi.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;
int failures = 0;
int rank = 0;

void fill(unsigned char* data, size_t bytes, int round) {
  for (size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<unsigned char>(i * 13 + i / 255 + static_cast<size_t>(round) * 7);
  }
}

/// Sends `bytes` from the memory of rank 0 to that of rank 1, and compares there.
void transfer(unsigned char* data, size_t bytes, int round) {
  const int count = static_cast<int>(bytes);
  if (rank == 0) {
    fill(data, bytes, round);
    MPI_Send(data, count, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    return;
  }
  std::memset(data, 0xEE, bytes);
  MPI_Recv(data, count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::vector<unsigned char> expected(bytes);
  fill(expected.data(), bytes, round);
  if (std::memcmp(data, expected.data(), bytes) != 0 && ++failures <= 10) {
    std::fprintf(stderr, "FAILED: round %d, %zu bytes\n", round, bytes);
  }
}

unsigned char* map(size_t bytes, void* where = nullptr) {
  void* data = mmap(where, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | (where != nullptr ? MAP_FIXED : 0), -1, 0);
  if (data == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 2);
  return static_cast<unsigned char*>(data);
}

void reuse(int rounds) {
  unsigned char* data = map(2 * kMiB);
  for (int round = 0; round < rounds; ++round) transfer(data + round % 2 * kMiB, kMiB, round);
  munmap(data, 2 * kMiB);
}

void remap(int rounds) {
  unsigned char* data = map(kMiB);
  for (int round = 0; round < rounds; ++round) {
    transfer(data, kMiB, round);
    munmap(data, kMiB);
    map(kMiB, data);
  }
  munmap(data, kMiB);
}

void many(int rounds) {
  constexpr int kBuffers = 64;
  unsigned char* data = map(kBuffers * kMiB);
  for (int round = 0; round < rounds; ++round)
    transfer(data + round % kBuffers * kMiB, kMiB, round);
  munmap(data, kBuffers * kMiB);
}

/// A child that uses and frees inherited memory, which must not matter to the parent.
void fork_and_touch(unsigned char* data, size_t bytes) {
  const pid_t child = fork();
  if (child == 0) {
    std::memset(data, 0, bytes);
    munmap(data, bytes);
    _exit(0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
}

/// Memory of one round, of a kind and size that both ranks draw alike.
class Memory {
 public:
  Memory(int kind, size_t bytes) : mapped_(kind == 1 || kind == 3), bytes_(bytes) {
    switch (kind) {
      case 1:
        data_ = map(bytes);
        break;
      case 3:
        data_ = map(bytes + 4 * kMiB);
        bytes_ += 4 * kMiB;
        madvise(data_, bytes_, MADV_HUGEPAGE);
        break;
      case 2:
        data_ = static_cast<unsigned char*>(std::realloc(std::malloc(bytes / 2 + 1), bytes));
        break;
      default:
        data_ = static_cast<unsigned char*>(std::malloc(bytes));
        break;
    }
    if (data_ == nullptr) MPI_Abort(MPI_COMM_WORLD, 2);
  }
  ~Memory() { mapped_ ? static_cast<void>(munmap(data_, bytes_)) : std::free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  unsigned char* data() const { return data_; }
  bool mapped() const { return mapped_; }
  size_t bytes() const { return bytes_; }

 private:
  bool mapped_;
  size_t bytes_;
  unsigned char* data_ = nullptr;
};

void churn(int rounds) {
  std::mt19937 random(4711);
  for (int round = 0; round < rounds; ++round) {
    const size_t bytes = 1 + random() % (size_t{1} << (random() % 24));
    Memory memory(static_cast<int>(random() % 4), bytes);
    transfer(memory.data(), bytes, round);
    if (memory.mapped()) {
      if (round % 8 == 0) fork_and_touch(memory.data(), memory.bytes());
      // The pages go, the mapping stays.
      if (round % 3 == 0) madvise(memory.data(), memory.bytes(), MADV_DONTNEED);
    }
    transfer(memory.data(), bytes, round + 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string mode = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  if (mode == "reuse") {
    reuse(rounds);
  } else if (mode == "remap") {
    remap(rounds);
  } else if (mode == "many") {
    many(rounds);
  } else if (mode == "churn") {
    churn(rounds);
  } else {
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && failures == 0) std::printf("all good\n");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}

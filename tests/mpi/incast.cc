// Everybody sends to rank 0 at once: what each gets of its link, and what it is together.
//
//   mpirun -np N --mca btl roce,self incast contiguous|vector|put [BYTES]      8 MiB if not given
//
// contiguous: MPI_Isend; vector: the same with every other 64 bytes; put: MPI_Put and flush. All
// bytes are checked. Prints "KIND bytes N jain J seconds S MBps R": Jain's index of the senders'
// rates, and the rate at which rank 0 got the payload of all (MB/s, 10^6).
#include <cstdlib>
#include <cstring>

#include "one_sided.h"

namespace {

using namespace one_sided;

constexpr int kBlock = 64;

uint8_t byte_of(int sender, size_t at) {
  return static_cast<uint8_t>((at * 2654435761u >> 13) + static_cast<size_t>(sender) * 37);
}

/// The memory of one sender's message: `gaps` times its payload.
std::vector<uint8_t> filled(int sender, size_t bytes, size_t gaps) {
  std::vector<uint8_t> memory(bytes * gaps);
  for (size_t i = 0; i < bytes; ++i) {
    memory[i / kBlock * kBlock * gaps + i % kBlock] = byte_of(sender, i);
  }
  return memory;
}

struct Type {
  Type(size_t bytes, size_t gaps) {
    MPI_Type_vector(static_cast<int>(bytes / kBlock), kBlock, kBlock * static_cast<int>(gaps),
                    MPI_BYTE, &type);
    MPI_Type_commit(&type);
  }
  ~Type() { MPI_Type_free(&type); }
  MPI_Datatype type;
};

/// Seconds that each sender took, at rank 0 (index 0 is unused).
std::vector<double> messages(size_t bytes, size_t gaps) {
  std::vector<double> seconds(static_cast<size_t>(size()), 0);
  const Type type(bytes, gaps);
  if (rank() != 0) {
    const auto memory = filled(rank(), bytes, gaps);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(memory.data(), 1, type.type, 0, 1, MPI_COMM_WORLD);
    return seconds;
  }
  std::vector<std::vector<uint8_t>> memory(seconds.size());
  std::vector<MPI_Request> requests(seconds.size(), MPI_REQUEST_NULL);
  for (int k = 1; k < size(); ++k) {
    memory[k].assign(bytes * gaps, 0);
    MPI_Irecv(memory[k].data(), 1, type.type, k, 1, MPI_COMM_WORLD, &requests[k]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int left = size() - 1; left > 0;) {
    int done = 0;
    std::vector<int> indices(requests.size());
    MPI_Waitsome(size(), requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; i < done; ++i) seconds[indices[i]] = MPI_Wtime() - start;
    left -= done;
  }
  for (int k = 1; k < size(); ++k) {
    check(memory[k] == filled(k, bytes, gaps), "bytes of rank " + std::to_string(k));
  }
  return seconds;
}

std::vector<double> puts(size_t bytes) {
  std::vector<uint8_t> memory(rank() == 0 ? bytes * static_cast<size_t>(size()) : 0);
  MPI_Win window;
  MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size()), 1, MPI_INFO_NULL,
                 MPI_COMM_WORLD, &window);
  MPI_Win_lock_all(0, window);
  const auto own = filled(rank(), bytes, 1);
  if (rank() != 0) {  // the connection is made before the time starts
    MPI_Put(own.data(), 1, MPI_BYTE, 0, rank() * static_cast<MPI_Aint>(bytes), 1, MPI_BYTE, window);
    MPI_Win_flush(0, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  double took = 0;
  if (rank() != 0) {
    MPI_Put(own.data(), static_cast<int>(bytes), MPI_BYTE, 0, rank() * static_cast<MPI_Aint>(bytes),
            static_cast<int>(bytes), MPI_BYTE, window);
    MPI_Win_flush(0, window);
    took = MPI_Wtime() - start;
  }
  std::vector<double> seconds(static_cast<size_t>(size()), 0);
  MPI_Gather(&took, 1, MPI_DOUBLE, seconds.data(), 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  for (int k = 1; rank() == 0 && k < size(); ++k) {
    const auto expected = filled(k, bytes, 1);
    check(std::memcmp(&memory[bytes * static_cast<size_t>(k)], expected.data(), bytes) == 0,
          "bytes of rank " + std::to_string(k));
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::string kind = argc > 1 ? argv[1] : "";
  const size_t bytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : size_t{8} << 20;
  if (size() < 2 || bytes == 0 || bytes % kBlock != 0 ||
      (kind != "contiguous" && kind != "vector" && kind != "put")) {
    if (rank() == 0) {
      std::fprintf(
          stderr,
          "usage: incast contiguous|vector|put [BYTES], a multiple of %d; at least 2 ranks\n",
          kBlock);
    }
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (kind != "put") (void)messages(kBlock, 1);  // connects
  const auto seconds = kind == "put" ? puts(bytes) : messages(bytes, kind == "vector" ? 2 : 1);
  if (rank() == 0) {
    double sum = 0, squares = 0, longest = 0;
    for (int k = 1; k < size(); ++k) {
      const double rate = 1 / seconds[k];
      sum += rate;
      squares += rate * rate;
      longest = seconds[k] > longest ? seconds[k] : longest;
    }
    const int senders = size() - 1;
    std::printf("%s bytes %zu jain %.4f seconds %.3f MBps %.2f\n", kind.c_str(), bytes,
                sum * sum / (senders * squares), longest,
                static_cast<double>(bytes) * senders / longest / 1e6);
  }
  return finish();
}

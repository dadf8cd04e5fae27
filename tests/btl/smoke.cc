// Two ranks exchange messages of many sizes, contiguous and strided, and compare every byte.
//   smoke [MAX_BYTES]      prints "smoke ok" on rank 0
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kTag = 7;

/// Byte i of message `id`: any shift, swap or stale buffer shows.
uint8_t pattern(uint32_t id, size_t i) {
  uint64_t x = (static_cast<uint64_t>(id) << 40) + i;
  x *= 0x9E3779B97F4A7C15;
  return static_cast<uint8_t>(x >> 56);
}

void fill(std::vector<uint8_t>& buffer, size_t bytes, uint32_t id) {
  for (size_t i = 0; i < bytes; ++i) buffer[i] = pattern(id, i);
}

void check(const std::vector<uint8_t>& buffer, size_t bytes, uint32_t id, const char* what) {
  for (size_t i = 0; i < bytes; ++i) {
    if (buffer[i] == pattern(id, i)) continue;
    std::fprintf(stderr, "smoke: %s message %u of %zu bytes differs at byte %zu\n", what, id, bytes,
                 i);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

std::vector<size_t> sizes_up_to(size_t max) {
  std::vector<size_t> sizes = {0, 1, 3, 255, 256, 257, 511, 512, 513, 12223, 12224, 12225, 12288};
  for (size_t bytes = 4096; bytes <= max; bytes *= 2) {
    sizes.push_back(bytes - 1);
    sizes.push_back(bytes);
    sizes.push_back(bytes + 1);
  }
  while (!sizes.empty() && sizes.back() > max) sizes.pop_back();
  return sizes;
}

void ping_pong(int rank, size_t bytes, uint32_t id) {
  std::vector<uint8_t> buffer(bytes + 1);
  const int peer = 1 - rank;
  const int count = static_cast<int>(bytes);
  if (rank == 0) {
    fill(buffer, bytes, id);
    MPI_Send(buffer.data(), count, MPI_BYTE, peer, kTag, MPI_COMM_WORLD);
    fill(buffer, bytes, 0);
    MPI_Recv(buffer.data(), count, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(buffer, bytes, id + 1, "echoed");
  } else {
    MPI_Recv(buffer.data(), count, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(buffer, bytes, id, "received");
    fill(buffer, bytes, id + 1);
    MPI_Ssend(buffer.data(), count, MPI_BYTE, peer, kTag, MPI_COMM_WORLD);
  }
}

/// Several messages each way at a time, received in another order than sent.
void crossing(int rank, size_t bytes, uint32_t id) {
  constexpr int kMessages = 6;
  const int peer = 1 - rank;
  std::vector<std::vector<uint8_t>> out(kMessages), in(kMessages);
  std::vector<MPI_Request> requests;
  for (int m = kMessages - 1; m >= 0; --m) {
    in[m].resize(bytes + 1);
    MPI_Irecv(in[m].data(), static_cast<int>(bytes), MPI_BYTE, peer, m, MPI_COMM_WORLD,
              &requests.emplace_back());
  }
  for (int m = 0; m < kMessages; ++m) {
    out[m].resize(bytes + 1);
    fill(out[m], bytes, id + static_cast<uint32_t>(m + 10 * rank));
    MPI_Isend(out[m].data(), static_cast<int>(bytes), MPI_BYTE, peer, m, MPI_COMM_WORLD,
              &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (int m = 0; m < kMessages; ++m) {
    check(in[m], bytes, id + static_cast<uint32_t>(m + 10 * peer), "crossing");
  }
}

/// Every other block of 16 bytes travels; the receiver takes it strided too, or contiguous.
void strided(int rank, size_t bytes, uint32_t id, bool contiguous_receiver) {
  constexpr int kBlock = 16;
  const int blocks = static_cast<int>(bytes / kBlock);
  if (blocks == 0) return;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(blocks, kBlock, 2 * kBlock, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  const size_t extent = static_cast<size_t>(blocks) * 2 * kBlock;
  std::vector<uint8_t> buffer(extent);
  if (rank == 0) {
    fill(buffer, extent, id);
    MPI_Send(buffer.data(), 1, type, 1, kTag, MPI_COMM_WORLD);
  } else {
    if (contiguous_receiver) {
      MPI_Recv(buffer.data(), blocks * kBlock, MPI_BYTE, 0, kTag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(buffer.data(), 1, type, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (size_t block = 0; block < static_cast<size_t>(blocks); ++block) {
      const size_t there = block * 2 * kBlock;
      const size_t here = contiguous_receiver ? block * kBlock : there;
      for (size_t i = 0; i < kBlock; ++i) {
        if (buffer[here + i] == pattern(id, there + i)) continue;
        std::fprintf(stderr, "smoke: strided message of %zu bytes differs in block %zu\n", bytes,
                     block);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
    }
  }
  MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t max = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1 << 20;
  if (ranks >= 2 && rank < 2) {
    uint32_t id = 1;
    for (size_t bytes : sizes_up_to(max)) {
      ping_pong(rank, bytes, id);
      if (bytes <= 1 << 20) crossing(rank, bytes, id + 100);
      strided(rank, bytes, id + 200, false);
      strided(rank, bytes, id + 300, true);
      id += 1000;
    }
  }
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("smoke %s\n", sum == ranks ? "ok" : "wrong sum");
  MPI_Finalize();
  return sum == ranks ? 0 : 1;
}

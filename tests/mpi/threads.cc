// Many threads at once: MPI_THREAD_MULTIPLE, each thread with a communicator of its own.
//
//   mpirun -np N --mca btl roce,self --mca osc rdma threads [THREADS [ROUNDS]]     6 and 200 if not
//   given; N even
//
// Most threads exchange messages of 1 B to 1 MiB with the same thread of the neighbouring rank,
// some with MPI_Isend and MPI_Irecv of several at a time; every third puts, gets and adds on a
// window of its own. Every byte and every sum is checked. Prints "all good".
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "one_sided.h"

namespace {

using namespace one_sided;

std::atomic<int> faults{0};

void fault(int thread, int round, const char* what) {
  if (++faults <= 10) {
    std::fprintf(stderr, "rank %d: FAILED: thread %d, round %d: %s\n", rank(), thread, round, what);
  }
}

void fill(std::vector<unsigned char>& data, int from, int thread, int round) {
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] =
        static_cast<unsigned char>(i * 7 + i / 251 + static_cast<size_t>(from) * 101 +
                                   static_cast<size_t>(thread) * 29 + static_cast<size_t>(round));
  }
}

/// `depth` messages each way at a time.
void messages(MPI_Comm comm, int thread, int rounds, int depth) {
  const int own = rank(), peer = own ^ 1;
  std::mt19937 random(static_cast<unsigned>(thread));  // both sides draw the same sizes
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<unsigned char>> out(depth), in(depth);
    std::vector<MPI_Request> requests;
    for (int k = 0; k < depth; ++k) {
      const size_t bytes = 1 + random() % (size_t{1} << (random() % 21));
      out[k].resize(bytes);
      in[k].assign(bytes, 0xEE);
      fill(out[k], own, thread, round + k);
      requests.resize(requests.size() + 2);
      MPI_Irecv(in[k].data(), static_cast<int>(bytes), MPI_BYTE, peer, k, comm,
                &requests.end()[-2]);
      MPI_Isend(out[k].data(), static_cast<int>(bytes), MPI_BYTE, peer, k, comm,
                &requests.end()[-1]);
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (int k = 0; k < depth; ++k) {
      fill(out[k], peer, thread, round + k);
      if (in[k] != out[k]) fault(thread, round, "bytes of a message");
    }
  }
}

/// The neighbour's memory: a counter that both add to, and a block that only this rank uses.
void one_sided_calls(MPI_Win window, int thread, int rounds) {
  constexpr int kBlock = 4096;
  const int peer = rank() ^ 1;
  std::vector<unsigned char> out(kBlock), in(kBlock);
  int64_t before = -1;
  for (int round = 0; round < rounds; ++round) {
    fill(out, rank(), thread, round);
    MPI_Put(out.data(), kBlock, MPI_BYTE, peer, kBlock, kBlock, MPI_BYTE, window);
    MPI_Win_flush(peer, window);
    in.assign(kBlock, 0xEE);
    const int64_t one = 1;
    int64_t seen = -1;
    MPI_Get(in.data(), kBlock, MPI_BYTE, peer, kBlock, kBlock, MPI_BYTE, window);
    MPI_Fetch_and_op(&one, &seen, MPI_INT64_T, peer, 0, MPI_SUM, window);
    MPI_Win_flush(peer, window);
    if (in != out) fault(thread, round, "bytes read back");
    if (seen != before + 1) fault(thread, round, "the counter");
    before = seen;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 6,
            rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  if (provided != MPI_THREAD_MULTIPLE || threads < 1 || threads > 64 || rounds < 1 ||
      size() % 2 != 0) {
    std::fprintf(stderr, "usage: threads [THREADS [ROUNDS]], an even number of ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  std::vector<MPI_Comm> comms(threads);
  std::vector<MPI_Win> windows(threads, MPI_WIN_NULL);
  std::vector<std::vector<uint64_t>> memory(threads);
  for (int t = 0; t < threads; ++t) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    if (t % 3 != 2) continue;
    memory[t].assign(2 * 4096 / sizeof(uint64_t), 0);
    MPI_Win_create(memory[t].data(), 2 * 4096, 1, MPI_INFO_NULL, comms[t], &windows[t]);
    MPI_Win_lock_all(0, windows[t]);
  }
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      if (t % 3 == 2) {
        one_sided_calls(windows[t], t, rounds);
      } else {
        messages(comms[t], t, rounds, t % 3 == 0 ? 1 : 8);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  for (int t = 0; t < threads; ++t) {
    if (windows[t] != MPI_WIN_NULL) {
      MPI_Win_unlock_all(windows[t]);
      MPI_Win_free(&windows[t]);
      check_equal(static_cast<int64_t>(memory[t][0]), rounds, "what the neighbour added");
    }
    MPI_Comm_free(&comms[t]);
  }
  failures += faults;
  return finish();
}

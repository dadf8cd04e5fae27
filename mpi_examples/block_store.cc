// A block store: servers expose memory by an MPI window, clients read and write random blocks.
//
//   mpirun -np 2 --mca btl roce,self --mca osc rdma block_store               4 KiB blocks
//   mpirun -np 4 --mca btl roce,self --mca osc rdma block_store -t flush      one at a time
//   mpirun -np 4 --mca btl roce,self --mca osc rdma block_store -m 512:64K -r 100 -W 1
//
// (Between processes of one host an MPI library may give MPI_Win_allocate shared memory, so that no
// network has a part in it. With -w create it cannot.)
//
// The last ranks (-s, else half of them) are servers; while clients work they do nothing but wait.
// Every client has -k blocks of its own on each server and does -i operations, -r percent of them
// reads. Transfers (-t):
//   request  MPI_Rput and MPI_Rget with up to -W in flight. The time of a write ends when its
//            buffer is free. As MPI orders nothing, a written block waits for a flush.
//   flush    MPI_Put or MPI_Get, then MPI_Win_flush: when it ends a write is at the server.
// Prints for reads and for writes: their number, operations per second of all clients together
// (IOPS; time until the last client has flushed everything), and percentiles of the time of one
// operation in microseconds. Every block carries its client, server, number and version; every read
// must give the version written last. At the end servers check their memory and clients read all
// blocks. Options: -m -i -W -k -r -s -t -w (see --help). Status: 0 good, 1 wrong data, 2 wrong use.
#include "block_store.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "common.h"

namespace {

using namespace examples;

// Microseconds of single operations.
struct Times {
  std::vector<float> reads, writes;
};

class Client {
 public:
  Client(const Options& options, const Store& store, Verdict* verdict)
      : options_(options),
        store_(store),
        verdict_(verdict),
        random_(static_cast<std::uint64_t>(world_rank())),
        blocks_(store.blocks_of_client()),
        flushes_(static_cast<std::size_t>(store.servers())),
        slots_(static_cast<std::size_t>(options.transfer == "flush" ? 1 : options.window)),
        requests_(slots_.size(), MPI_REQUEST_NULL),
        buffers_(allocate(slots_.size() * store.block_bytes())) {}

  // Version 1 of every block.
  void write_all() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      blocks_[i].version = 1;
      write_block(buffers_.get(), store_.block_bytes(), store_.label(world_rank(), i, 1));
      store_.put(buffers_.get(), i);
      MPI_Win_flush(store_.server_of(i), store_.window());
    }
  }

  void read_all() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      store_.get(buffers_.get(), i);
      MPI_Win_flush(store_.server_of(i), store_.window());
      check(buffers_.get(), i, "after all operations");
    }
  }

  // Seconds for all operations; adds the time of each one to `times`.
  double work(Times* times) {
    const double start = MPI_Wtime();
    int begun = 0;
    for (std::size_t i = 0; i < slots_.size() && begun < options_.iterations; ++i, ++begun) {
      begin(i);
    }
    for (int ended = 0; ended < options_.iterations; ++ended) {
      const std::size_t i = wait();
      end(i, times);
      if (begun < options_.iterations) {
        begin(i);
        ++begun;
      }
    }
    MPI_Win_flush_all(store_.window());
    return MPI_Wtime() - start;
  }

 private:
  struct Block {
    std::uint64_t version = 0;
    bool in_flight = false;
    std::uint64_t flushes_before = 0;  // of its server, when it was written last
    bool written = false;
  };
  // An operation in flight and its buffer.
  struct Slot {
    std::size_t block;
    bool read;
    double start;
  };

  std::byte* buffer(std::size_t slot) const { return buffers_.get() + slot * store_.block_bytes(); }

  void begin(std::size_t i) {
    std::uniform_int_distribution<std::size_t> any_block(0, blocks_.size() - 1);
    std::size_t which = any_block(random_);
    while (blocks_[which].in_flight) which = any_block(random_);
    const bool read = std::uniform_int_distribution<int>(0, 99)(random_) < options_.read_percent;
    Block& block = blocks_[which];
    block.in_flight = true;
    slots_[i] = {which, read, 0};
    if (read) {
      std::memset(buffer(i), std::to_integer<int>(kUntouched), store_.block_bytes());
    } else {
      ++block.version;
      write_block(buffer(i), store_.block_bytes(),
                  store_.label(world_rank(), which, block.version));
    }
    slots_[i].start = MPI_Wtime();
    std::uint64_t& flushes = flushes_[which % flushes_.size()];
    if (block.written && block.flushes_before == flushes) flush(which);
    if (!read) {
      block.written = true;
      block.flushes_before = flushes;
    }
    const bool request = options_.transfer == "request";
    if (read) {
      store_.get(buffer(i), which, request ? &requests_[i] : nullptr);
    } else {
      store_.put(buffer(i), which, request ? &requests_[i] : nullptr);
    }
  }

  void flush(std::size_t block) {
    MPI_Win_flush(store_.server_of(block), store_.window());
    ++flushes_[block % flushes_.size()];
  }

  // The slot of an operation that is complete.
  std::size_t wait() {
    int which = 0;
    if (options_.transfer == "request") {
      MPI_Waitany(static_cast<int>(requests_.size()), requests_.data(), &which, MPI_STATUS_IGNORE);
    } else {
      flush(slots_[0].block);
    }
    return static_cast<std::size_t>(which);
  }

  void end(std::size_t i, Times* times) {
    const Slot& slot = slots_[i];
    const auto microseconds = static_cast<float>((MPI_Wtime() - slot.start) * 1e6);
    (slot.read ? times->reads : times->writes).push_back(microseconds);
    if (slot.read) check(buffer(i), slot.block, "read");
    blocks_[slot.block].in_flight = false;
  }

  void check(const std::byte* memory, std::size_t block, const char* when) {
    const Label label = store_.label(world_rank(), block, blocks_[block].version);
    const std::string wrong = check_block(memory, store_.block_bytes(), label);
    if (!wrong.empty()) verdict_->fail("wrong block, " + std::string(when) + ": " + wrong);
  }

  Options options_;
  const Store& store_;
  Verdict* verdict_;
  std::mt19937_64 random_;
  std::vector<Block> blocks_;
  std::vector<std::uint64_t> flushes_;  // of each server
  std::vector<Slot> slots_;
  std::vector<MPI_Request> requests_;
  Memory buffers_;
};

// Collective; on rank 0 those of all ranks, sorted.
std::vector<float> gather(const std::vector<float>& own) {
  const auto ranks = static_cast<std::size_t>(world_size());
  const int count = static_cast<int>(own.size());
  std::vector<int> counts(ranks), places(ranks);
  MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (std::size_t i = 1; i < ranks; ++i) places[i] = places[i - 1] + counts[i - 1];
  std::vector<float> all(static_cast<std::size_t>(places.back() + counts.back()));
  MPI_Gatherv(own.data(), count, MPI_FLOAT, all.data(), counts.data(), places.data(), MPI_FLOAT, 0,
              MPI_COMM_WORLD);
  std::sort(all.begin(), all.end());
  return all;
}

void print(std::size_t bytes, const char* name, const std::vector<float>& times, double seconds) {
  if (world_rank() != 0 || times.empty()) return;
  const auto count = static_cast<double>(times.size());
  std::printf("%-12zu %-6s %10zu %12.0f", bytes, name, times.size(), count / seconds);
  for (const double share : {0.5, 0.95, 0.99, 0.999}) {
    // The smallest time that is not exceeded by this share of the operations.
    const auto place = static_cast<std::size_t>(std::ceil(share * count)) - 1;
    std::printf(" %10.2f", static_cast<double>(times[place]));
  }
  std::printf("\n");
  std::fflush(stdout);
}

// Collective; false if there was wrong data.
bool run(const Options& options, std::size_t bytes, Verdict* verdict) {
  Store store(options, bytes);
  Times times;
  double seconds = 0;
  Client client(options, store, verdict);
  const bool is_client = world_rank() < store.clients();
  if (is_client) client.write_all();
  MPI_Barrier(MPI_COMM_WORLD);
  if (is_client) seconds = client.work(&times);
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (!is_client) {
    const std::string wrong = store.check_own();
    if (!wrong.empty()) verdict->fail("wrong block in the server's memory: " + wrong);
  } else {
    client.read_all();
  }
  const std::vector<float> reads = gather(times.reads);
  const std::vector<float> writes = gather(times.writes);
  if (!verdict->agree()) return false;
  print(bytes, "read", reads, seconds);
  print(bytes, "write", writes, seconds);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options;
  options.min_bytes = options.max_bytes = 4096;
  options.window = 16;
  options.iterations = 20000;
  options.transfer = "request";
  options = parse_options(argc, argv, "block_store", "miWkrstw", options, "request|flush");
  if (options.servers == 0) options.servers = world_size() / 2;
  if (options.servers < 1 || options.servers >= world_size()) {
    leave(2, "block_store: needs at least one server and one client");
  }
  if (options.min_bytes < kMinBlockBytes) leave(2, "block_store: at least 64 bytes a block");
  if (options.blocks < options.window) leave(2, "block_store: fewer blocks than -W");
  if (options.max_bytes > INT_MAX || options.iterations > INT_MAX / world_size()) {
    leave(2, "block_store: block or number of operations too large");
  }
  if (world_rank() == 0) {
    std::printf("# block_store: clients %d, servers %d, reads %d %%, MPI_Win_%s, ",
                world_size() - options.servers, options.servers, options.read_percent,
                options.create_window ? "create" : "allocate");
    if (options.transfer == "flush") {
      std::printf("a flush for each operation\n");
    } else {
      std::printf("%d requests in flight\n", options.window);
    }
    std::printf("# %-10s %-6s %10s %12s %10s %10s %10s %10s (us)\n", "Size", "", "Count", "IOPS",
                "p50", "p95", "p99", "p99.9");
    std::fflush(stdout);
  }
  Verdict verdict("block_store");
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = next_size(bytes)) {
    if (!run(options, bytes, &verdict)) break;
  }
  return verdict.finish();
}

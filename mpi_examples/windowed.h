// Windowed one-way traffic between pairs of ranks: the loop that bandwidth and message_rate share.
//
// The first of a pair sends a window of messages, the second answers with 4 bytes once it has them
// all. In the timed loop messages of a window leave from one buffer and, with "-b single" (what
// OSU's benchmarks do, so that numbers compare), also arrive in one; checked windows always arrive
// in buffers of their own, as many as fit in 64 MiB.
#pragma once

#include <vector>

#include "common.h"

namespace examples {

class Windowed {
 public:
  Windowed(const char* program, const Options& options)
      : options_(options),
        pair_(pair_up(program)),
        verdict_(program),
        requests_(static_cast<std::size_t>(options.window)) {
    for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;
         bytes = next_size(bytes)) {
      const std::size_t stride = slot_stride(Layout(bytes, strided()));
      pool_bytes_ = std::max(pool_bytes_, stride * static_cast<std::size_t>(slots(stride)));
    }
    pool_ = allocate(pool_bytes_);
  }

  // Collective. Messages per second over all pairs; options.iterations counts windows.
  double messages_per_second(std::size_t bytes) {
    const Layout layout(bytes, strided());
    const int iterations = iterations_for(options_, bytes, 100, 20);
    const int warmup = warmup_for(options_, iterations);
    checked_window(layout, 0);
    const bool single = !options_.separate_buffers;
    double seconds = 0;
    double start = 0;
    for (int i = -warmup; i < iterations; ++i) {
      if (i == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        seconds = 0;
        start = MPI_Wtime();
      }
      if (options_.validate) {
        seconds += checked_window(layout, static_cast<std::uint64_t>(warmup + i + 1));
      } else {
        window(layout, single);
      }
    }
    if (!options_.validate) seconds = MPI_Wtime() - start;
    checked_window(layout, static_cast<std::uint64_t>(warmup + iterations + 1));
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return static_cast<double>(iterations) * options_.window * pair_.pairs / seconds;
  }

  Verdict& verdict() { return verdict_; }

 private:
  static constexpr std::size_t kPoolBytes = std::size_t{64} << 20;
  static constexpr int kDataTag = 1;
  static constexpr int kDoneTag = 2;

  bool strided() const { return options_.datatype == "vector"; }
  static std::size_t slot_stride(const Layout& layout) {
    return std::max<std::size_t>(64, (layout.span() + 63) / 64 * 64);
  }
  int slots(std::size_t stride) const {
    return static_cast<int>(
        std::clamp<std::size_t>(kPoolBytes / stride, 1, static_cast<std::size_t>(options_.window)));
  }

  // Messages of a window that find no buffer of their own wait for the batch before them.
  void transfer(const Layout& layout, bool single, int from, int to) {
    const std::size_t stride = single ? 0 : slot_stride(layout);
    for (int i = from; i < to; ++i) {
      std::byte* buffer = pool_.get() + static_cast<std::size_t>(i - from) * stride;
      if (pair_.first) {
        MPI_Isend(buffer, layout.count(), layout.type(), pair_.peer, kDataTag, MPI_COMM_WORLD,
                  &requests_[static_cast<std::size_t>(i - from)]);
      } else {
        MPI_Irecv(buffer, layout.count(), layout.type(), pair_.peer, kDataTag, MPI_COMM_WORLD,
                  &requests_[static_cast<std::size_t>(i - from)]);
      }
    }
    MPI_Waitall(to - from, requests_.data(), MPI_STATUSES_IGNORE);
  }

  void answer() {
    int done = 0;
    if (pair_.first) {
      MPI_Recv(&done, 1, MPI_INT, pair_.peer, kDoneTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(&done, 1, MPI_INT, pair_.peer, kDoneTag, MPI_COMM_WORLD);
    }
  }

  void window(const Layout& layout, bool single) {
    const int batch = single ? options_.window : slots(slot_stride(layout));
    for (int from = 0; from < options_.window; from += batch) {
      transfer(layout, single, from, std::min(options_.window, from + batch));
    }
    answer();
  }

  // Seconds without those spent on filling and checking.
  double checked_window(const Layout& layout, std::uint64_t number) {
    const std::size_t stride = slot_stride(layout);
    const int batch = slots(stride);
    double seconds = 0;
    for (int from = 0; from < options_.window; from += batch) {
      const int to = std::min(options_.window, from + batch);
      for (int i = from; i < to; ++i) {
        std::byte* buffer = pool_.get() + static_cast<std::size_t>(i - from) * stride;
        if (pair_.first) {
          layout.fill(buffer, seed(layout, number, i));
        } else {
          layout.clear(buffer);
        }
      }
      MPI_Sendrecv(nullptr, 0, MPI_BYTE, pair_.peer, kDoneTag, nullptr, 0, MPI_BYTE, pair_.peer,
                   kDoneTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      const double start = MPI_Wtime();
      transfer(layout, false, from, to);
      answer();
      seconds += MPI_Wtime() - start;
      for (int i = from; i < to && !pair_.first; ++i) {
        const std::byte* buffer = pool_.get() + static_cast<std::size_t>(i - from) * stride;
        verdict_.wrong_data(layout.check(buffer, seed(layout, number, i)), layout.bytes(),
                            pair_.peer);
      }
    }
    return seconds;
  }

  std::uint64_t seed(const Layout& layout, std::uint64_t number, int place) const {
    return message_seed(
        pair_.first ? world_rank() : pair_.peer, layout.bytes(),
        number * static_cast<std::uint64_t>(options_.window) + static_cast<std::uint64_t>(place));
  }

  Options options_;
  Pair pair_;
  Verdict verdict_;
  std::vector<MPI_Request> requests_;
  std::size_t pool_bytes_ = 0;
  Memory pool_;
};

}  // namespace examples

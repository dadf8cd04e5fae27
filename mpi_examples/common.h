// Shared by the example programs: options, message layouts, test patterns, pairing of ranks,
// verdict.
//
// Nothing here knows about a transport; MPI is all it needs. The programs keep the first fault they
// see, agree on it after each message size, print one line and leave with status 1. Wrong options
// end with status 2.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "message.h"
#include "options.h"

namespace examples {

// One of `parts` parts of `points` points in a row; the first ones may have one point more.
struct Part {
  int first;
  int count;
};

inline Part part_of(int points, int parts, int which) {
  const int base = points / parts;
  const int extra = points % parts;
  return {which * base + std::min(which, extra), base + (which < extra ? 1 : 0)};
}

inline std::size_t next_size(std::size_t bytes) { return bytes == 0 ? 1 : 2 * bytes; }

// ------------------------------------------------------------------------------------------------
// Pairs and verdict

// Rank i of the lower half talks to rank i + n/2: with ranks placed host by host, across hosts.
struct Pair {
  int peer;
  bool first;  // in the lower half: starts, measures, prints
  int pairs;
};

inline Pair pair_up(const char* program) {
  const int size = world_size();
  if (size % 2 != 0) leave(2, std::string(program) + ": needs an even number of ranks");
  const int rank = world_rank();
  const int half = size / 2;
  return {rank < half ? rank + half : rank - half, rank < half, half};
}

class Verdict {
 public:
  explicit Verdict(const char* program) : program_(program) {}

  void wrong_data(const Mismatch& wrong, std::size_t bytes, int sender) {
    if (!wrong.found || !text_.empty()) return;
    text_ = "wrong data in a message of " + std::to_string(bytes) + " bytes from rank " +
            std::to_string(sender) + ": " + wrong.text;
  }
  void fail(const std::string& text) {
    if (text_.empty()) text_ = text;
  }

  // Collective. The lowest rank that saw a fault prints it; false if there is one anywhere.
  bool agree() {
    int first = text_.empty() ? INT_MAX : world_rank();
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == world_rank() && !printed_) {
      std::fprintf(stderr, "%s: rank %d: %s\n", program_, first, text_.c_str());
    }
    printed_ = printed_ || first != INT_MAX;
    return first == INT_MAX;
  }

  // Collective; to be returned from main.
  int finish() {
    const bool good = agree();
    MPI_Finalize();
    return good ? 0 : 1;
  }

 private:
  const char* program_;
  std::string text_;
  bool printed_ = false;
};

inline void print_header(const char* title, const char* column) {
  if (world_rank() != 0) return;
  std::printf("# %s\n# %-10s %18s\n", title, "Size", column);
  std::fflush(stdout);
}

inline void print_row(std::size_t bytes, double value, int decimals = 2) {
  if (world_rank() != 0) return;
  std::printf("%-12zu %18.*f\n", bytes, decimals, value);
  std::fflush(stdout);
}

}  // namespace examples

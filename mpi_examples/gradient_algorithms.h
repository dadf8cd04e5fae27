// Two allreduce algorithms of gradient_allreduce.cc, of point-to-point calls.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "common.h"

namespace examples {

// The sum over all ranks of `in` is to be in `out` of every rank. scratch: as large as them.
struct Gradients {
  const float* in;
  float* out;
  float* scratch;
  int count;
};

// out = a + b; out may be a or b.
inline void add(const float* a, const float* b, int count, float* out) {
  for (int i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

// ------------------------------------------------------------------------------------------------
// Ring. The gradients are cut into n blocks. In each of 2 (n - 1) steps every rank sends a block to
// its right neighbour. In the first n - 1, reduce-scatter, it adds its own gradients to the block
// that it got and passes on that sum; at their end rank r has the sum of block r + 1. In the
// others, allgather, it passes on what it got. Blocks are cut into segments, each of which goes on
// as soon as it is there: a segment is added while others are under way.

inline constexpr int kSegmentBytes = 1 << 18;
inline constexpr int kReceivesAhead = 8;  // segments

class Ring {
 public:
  explicit Ring(const Gradients& gradients)
      : gradients_(gradients),
        rank_(world_rank()),
        size_(world_size()),
        segments_(std::max(
            1, static_cast<int>(sizeof(float) * static_cast<std::size_t>(gradients.count / size_) /
                                kSegmentBytes))),
        turns_(2 * (size_ - 1) * segments_),
        sends_(static_cast<std::size_t>(turns_), MPI_REQUEST_NULL),
        receives_(static_cast<std::size_t>(turns_), MPI_REQUEST_NULL) {}

  // Turn t is segment t % segments_ of step t / segments_.
  void run() {
    const int ahead = std::min(kReceivesAhead, segments_);
    for (int turn = 0; turn < std::min(ahead, turns_); ++turn) receive(turn);
    for (int turn = 0; turn < segments_; ++turn) send(turn, gradients_.in);
    for (int turn = 0; turn < turns_; ++turn) {
      wait(&receives_, turn);
      if (turn + ahead < turns_) receive(turn + ahead);
      const bool reduce = turn < turns_ / 2;
      const Part part = received_in(turn);
      float* out = gradients_.out + part.first;
      if (reduce) add(out, gradients_.in + part.first, part.count, out);
      if (turn + segments_ < turns_) send(turn + segments_, gradients_.out);
    }
    MPI_Waitall(turns_, sends_.data(), MPI_STATUSES_IGNORE);
  }

 private:
  // Elements of a segment of the block that is `back` blocks before the own one.
  Part segment(int back, int which) const {
    const Part block = part_of(gradients_.count, size_, ((rank_ - back) % size_ + size_) % size_);
    const Part part = part_of(block.count, segments_, which);
    return {block.first + part.first, part.count};
  }
  Part sent_in(int turn) const { return segment(turn / segments_, turn % segments_); }
  Part received_in(int turn) const { return segment(turn / segments_ + 1, turn % segments_); }

  void send(int turn, const float* from) {
    const Part part = sent_in(turn);
    MPI_Isend(from + part.first, part.count, MPI_FLOAT, (rank_ + 1) % size_, 1, MPI_COMM_WORLD,
              &sends_[static_cast<std::size_t>(turn)]);
  }

  void receive(int turn) {
    // A sum comes to where an earlier, partial sum was sent from, n - 1 steps before.
    if (turn >= size_ * segments_) wait(&sends_, turn - (size_ - 1) * segments_);
    const Part part = received_in(turn);
    MPI_Irecv(gradients_.out + part.first, part.count, MPI_FLOAT, (rank_ + size_ - 1) % size_, 1,
              MPI_COMM_WORLD, &receives_[static_cast<std::size_t>(turn)]);
  }

  static void wait(std::vector<MPI_Request>* requests, int turn) {
    MPI_Wait(&(*requests)[static_cast<std::size_t>(turn)], MPI_STATUS_IGNORE);
  }

  Gradients gradients_;
  int rank_, size_, segments_, turns_;
  std::vector<MPI_Request> sends_, receives_;
};

inline void ring_allreduce(const Gradients& gradients) {
  if (world_size() == 1) {
    std::copy_n(gradients.in, gradients.count, gradients.out);
  } else {
    Ring(gradients).run();
  }
}

// ------------------------------------------------------------------------------------------------
// Recursive doubling. In step k the ranks whose numbers differ in bit k only exchange all that they
// have and add it: log2 n steps, but each of the whole length. If n is 2^m + rest, the first
// 2 * rest ranks are folded into pairs before: the even one gives its gradients to the odd one,
// which takes part for both and gives back the sum.

inline void doubling_allreduce(const Gradients& gradients) {
  const auto& [in, out, scratch, count] = gradients;
  const int rank = world_rank();
  const int taking_part = static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size())));
  const int rest = world_size() - taking_part;
  const bool folded = rank < 2 * rest;
  if (folded && rank % 2 == 0) {
    MPI_Send(in, count, MPI_FLOAT, rank + 1, 2, MPI_COMM_WORLD);
    MPI_Recv(out, count, MPI_FLOAT, rank + 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return;
  }
  const float* sum = in;
  if (folded) {
    MPI_Recv(scratch, count, MPI_FLOAT, rank - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    add(in, scratch, count, out);
    sum = out;
  }
  const int own = folded ? rank / 2 : rank - rest;  // number among those that take part
  for (int bit = 1; bit < taking_part; bit *= 2) {
    const int other = own ^ bit;
    const int peer = other < rest ? 2 * other + 1 : other + rest;
    MPI_Sendrecv(sum, count, MPI_FLOAT, peer, 3, scratch, count, MPI_FLOAT, peer, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    add(sum, scratch, count, out);
    sum = out;
  }
  if (sum == in) std::copy_n(in, count, out);
  if (folded) MPI_Send(out, count, MPI_FLOAT, rank - 1, 2, MPI_COMM_WORLD);
}

}  // namespace examples

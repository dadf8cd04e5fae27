// The halo exchange of halo.cc, three ways.
//
// MessageExchange: eight nonblocking messages, columns as an MPI vector straight from the grid.
// FenceExchange:   puts into the neighbours' windows, then one fence, for which all ranks wait.
// NotifyExchange:  puts, a flush, then a flag put behind them, for which only the neighbour waits.
//
// Puts go to contiguous landing places, columns packed: a put of an MPI vector may become one
// transfer for each of its elements. There are two sets of landing places, used in turn. A rank
// puts the halo of step s + 2 after it has received that of step s + 1, which its neighbour sends
// after it is done with step s: so nothing is overwritten before it was read.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <vector>

namespace examples {

// Points with a border of one; the border holds boundary values or the neighbours' points.
struct Grid {
  Grid(int rows_in, int columns_in)
      : rows(rows_in),
        columns(columns_in),
        values(static_cast<std::size_t>(rows + 2) * static_cast<std::size_t>(columns + 2)) {}
  double* at(int row, int column) {
    return &values[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns + 2) +
                   static_cast<std::size_t>(column)];
  }
  int rows;
  int columns;
  std::vector<double> values;
};

// Sides of a part of the grid; side ^ 1 is the opposite one.
enum Side { kUp = 0, kDown = 1, kLeft = 2, kRight = 3 };
inline constexpr int kSides = 4;

class Exchange {
 public:
  // cart: two dimensions; ranks without a neighbour on a side have MPI_PROC_NULL there.
  explicit Exchange(MPI_Comm cart) : cart_(cart) {
    MPI_Cart_shift(cart, 0, 1, &neighbours_[kUp], &neighbours_[kDown]);
    MPI_Cart_shift(cart, 1, 1, &neighbours_[kLeft], &neighbours_[kRight]);
  }
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Sends the outer points of the grid to the neighbours and sets the border to theirs.
  virtual void run(Grid* grid) = 0;

 protected:
  int neighbour(int side) const { return neighbours_[static_cast<std::size_t>(side)]; }

  MPI_Comm cart_;

 private:
  std::array<int, kSides> neighbours_{};
};

class MessageExchange : public Exchange {
 public:
  MessageExchange(MPI_Comm cart, int rows, int columns) : Exchange(cart) {
    MPI_Type_vector(rows, 1, columns + 2, MPI_DOUBLE, &column_);
    MPI_Type_commit(&column_);
  }
  ~MessageExchange() override { MPI_Type_free(&column_); }

  void run(Grid* grid) override {
    const int rows = grid->rows;
    const int columns = grid->columns;
    std::array<MPI_Request, 8> requests;
    MPI_Irecv(grid->at(0, 1), columns, MPI_DOUBLE, neighbour(kUp), 0, cart_, &requests[0]);
    MPI_Irecv(grid->at(rows + 1, 1), columns, MPI_DOUBLE, neighbour(kDown), 1, cart_, &requests[1]);
    MPI_Irecv(grid->at(1, 0), 1, column_, neighbour(kLeft), 2, cart_, &requests[2]);
    MPI_Irecv(grid->at(1, columns + 1), 1, column_, neighbour(kRight), 3, cart_, &requests[3]);
    MPI_Isend(grid->at(rows, 1), columns, MPI_DOUBLE, neighbour(kDown), 0, cart_, &requests[4]);
    MPI_Isend(grid->at(1, 1), columns, MPI_DOUBLE, neighbour(kUp), 1, cart_, &requests[5]);
    MPI_Isend(grid->at(1, columns), 1, column_, neighbour(kRight), 2, cart_, &requests[6]);
    MPI_Isend(grid->at(1, 1), 1, column_, neighbour(kLeft), 3, cart_, &requests[7]);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }

 private:
  MPI_Datatype column_ = MPI_DATATYPE_NULL;
};

// Window of a rank: for each of two sets and each side, `longest` points; then, for each of them, a
// flag of one byte.
class PutExchange : public Exchange {
 public:
  // longest: points of the longest edge of any rank. create: not by MPI_Win_allocate.
  PutExchange(MPI_Comm cart, int longest, bool create)
      : Exchange(cart),
        longest_(longest),
        left_(static_cast<std::size_t>(longest)),
        right_(static_cast<std::size_t>(longest)) {
    if (create) {
      own_.resize(static_cast<std::size_t>(flag_place(2, 0)) / sizeof(double) + 1);
      memory_ = reinterpret_cast<std::byte*>(own_.data());
      MPI_Win_create(memory_, flag_place(2, 0), 1, MPI_INFO_NULL, cart, &window_);
    } else {
      MPI_Win_allocate(flag_place(2, 0), 1, MPI_INFO_NULL, cart, &memory_, &window_);
    }
    for (int set = 0; set < 2; ++set) {
      for (int side = 0; side < kSides; ++side) *flag(set, side) = 0;
    }
  }
  ~PutExchange() override { MPI_Win_free(&window_); }

 protected:
  MPI_Aint points_place(int set, int side) const {
    return static_cast<MPI_Aint>(sizeof(double)) * (set * kSides + side) * longest_;
  }
  MPI_Aint flag_place(int set, int side) const { return points_place(2, 0) + set * kSides + side; }
  // Written by the neighbour at any time.
  volatile unsigned char* flag(int set, int side) {
    return reinterpret_cast<unsigned char*>(memory_) + flag_place(set, side);
  }

  // The points may not change before the puts are complete.
  void start_puts(Grid* grid, int set) {
    for (int row = 1; row <= grid->rows; ++row) {
      left_[static_cast<std::size_t>(row - 1)] = *grid->at(row, 1);
      right_[static_cast<std::size_t>(row - 1)] = *grid->at(row, grid->columns);
    }
    put(grid->at(1, 1), grid->columns, set, kUp);
    put(grid->at(grid->rows, 1), grid->columns, set, kDown);
    put(left_.data(), grid->rows, set, kLeft);
    put(right_.data(), grid->rows, set, kRight);
  }

  void take_points(Grid* grid, int set) {
    for (int side = 0; side < kSides; ++side) {
      if (neighbour(side) == MPI_PROC_NULL) continue;
      const auto* from = reinterpret_cast<const double*>(memory_ + points_place(set, side));
      const bool row = side == kUp || side == kDown;
      for (int i = 0; i < (row ? grid->columns : grid->rows); ++i) {
        if (row) {
          *grid->at(side == kUp ? 0 : grid->rows + 1, i + 1) = from[i];
        } else {
          *grid->at(i + 1, side == kLeft ? 0 : grid->columns + 1) = from[i];
        }
      }
    }
  }

  MPI_Win window_ = MPI_WIN_NULL;

 private:
  // What goes up arrives at the neighbour's lower side.
  void put(const double* from, int points, int set, int side) {
    MPI_Put(from, points, MPI_DOUBLE, neighbour(side), points_place(set, side ^ 1), points,
            MPI_DOUBLE, window_);
  }

  int longest_;
  std::byte* memory_ = nullptr;
  std::vector<double> own_;
  std::vector<double> left_, right_;
};

class FenceExchange : public PutExchange {
 public:
  FenceExchange(MPI_Comm cart, int longest, bool create) : PutExchange(cart, longest, create) {
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window_);
  }
  ~FenceExchange() override { MPI_Win_fence(MPI_MODE_NOSUCCEED, window_); }

  void run(Grid* grid) override {
    start_puts(grid, set_);
    // Ends this step's puts and lets those of the next begin.
    MPI_Win_fence(0, window_);
    take_points(grid, set_);
    set_ ^= 1;
  }

 private:
  int set_ = 0;
};

class NotifyExchange : public PutExchange {
 public:
  NotifyExchange(MPI_Comm cart, int longest, bool create) : PutExchange(cart, longest, create) {
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
    MPI_Win_sync(window_);
    MPI_Barrier(cart);  // every rank's flags are 0 before the first put
  }
  ~NotifyExchange() override { MPI_Win_unlock_all(window_); }

  void run(Grid* grid) override {
    const int set = ++step_ % 2;
    start_puts(grid, set);
    // Puts are not ordered: the points must have arrived before the flag may.
    MPI_Win_flush_all(window_);
    // One byte, because MPI promises no more than bytes to be written in one piece.
    const auto number = static_cast<unsigned char>(step_);
    for (int side = 0; side < kSides; ++side) {
      MPI_Put(&number, 1, MPI_UNSIGNED_CHAR, neighbour(side), flag_place(set, side ^ 1), 1,
              MPI_UNSIGNED_CHAR, window_);
    }
    MPI_Win_flush_all(window_);
    for (int side = 0; side < kSides; ++side) {
      if (neighbour(side) != MPI_PROC_NULL) wait_for(set, side, number);
    }
    MPI_Win_sync(window_);
    take_points(grid, set);
  }

 private:
  void wait_for(int set, int side, unsigned char number) {
    while (*flag(set, side) != number) {
      MPI_Win_sync(window_);
      // Lets MPI work: with some libraries the neighbour's put needs it.
      int ignored = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, cart_, &ignored, MPI_STATUS_IGNORE);
    }
  }

  unsigned step_ = 0;
};

}  // namespace examples

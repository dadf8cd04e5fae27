// Jacobi iteration of the Laplace equation on a square grid, cut in two dimensions.
//
//   mpirun -np 4 --mca btl roce,self halo                       256 x 256 points, 100 iterations
//   mpirun -np 4 --mca btl roce,self halo -n 2048 -i 50         larger halos
//   mpirun -np 4 --mca btl roce,self --mca osc rdma halo -t notify       one-sided
//
// Each iteration exchanges one row or column of halo points with up to four neighbours, by one of
// three transfers (-t): pt2pt, nonblocking messages; fence, puts and a fence; notify, puts, flushes
// and flags (halo_exchange.h). (-w create: without MPI_Win_allocate, which within a host may mean
// shared memory.) At the end (with -c, after every iteration) rank 0 collects the grid and compares
// it bit for bit with the same iteration done by itself alone: each point is computed by the same
// operations in the same order however the grid is cut. Prints grid points and mean microseconds of
// one iteration. Options: -n -i -c -t -w (see --help). Status: 0 good, 1 wrong data, 2 wrong use.
#include "halo_exchange.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "common.h"

namespace {

using namespace examples;

// Start and boundary value of the point at a place of the whole grid (its border is at -1 and n).
double initial(int row, int column) { return ((row + 1) * 31 + (column + 1) * 17) % 101; }

void set_initial(Grid* grid, int first_row, int first_column) {
  for (int row = 0; row < grid->rows + 2; ++row) {
    for (int column = 0; column < grid->columns + 2; ++column) {
      *grid->at(row, column) = initial(first_row + row - 1, first_column + column - 1);
    }
  }
}

void relax(Grid* from, Grid* to) {
  for (int row = 1; row <= from->rows; ++row) {
    for (int column = 1; column <= from->columns; ++column) {
      *to->at(row, column) = 0.25 * (*from->at(row - 1, column) + *from->at(row + 1, column) +
                                     *from->at(row, column - 1) + *from->at(row, column + 1));
    }
  }
}

class Jacobi {
 public:
  Jacobi(const Options& options, Verdict* verdict) : options_(options), verdict_(verdict) {
    std::array<int, 2> periods = {0, 0};
    MPI_Dims_create(world_size(), 2, dims_.data());
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims_.data(), periods.data(), 0, &cart_);
    rows_ = rows_of(world_rank());
    columns_ = columns_of(world_rank());
    if (options.transfer == "pt2pt") {
      exchange_ = std::make_unique<MessageExchange>(cart_, rows_.count, columns_.count);
    } else {
      // Rank 0 has the longest edges.
      const int longest = std::max(rows_of(0).count, columns_of(0).count);
      if (options.transfer == "fence") {
        exchange_ = std::make_unique<FenceExchange>(cart_, longest, options.create_window);
      } else {
        exchange_ = std::make_unique<NotifyExchange>(cart_, longest, options.create_window);
      }
    }
  }
  ~Jacobi() {
    exchange_.reset();
    MPI_Comm_free(&cart_);
  }
  Jacobi(const Jacobi&) = delete;
  Jacobi& operator=(const Jacobi&) = delete;

  // Collective; seconds of one iteration without the checks.
  double run() {
    const int n = options_.grid_points;
    const int iterations = options_.iterations > 0 ? options_.iterations : 100;
    Grid now(rows_.count, columns_.count);
    set_initial(&now, rows_.first, columns_.first);
    Grid next = now;
    const bool reference = world_rank() == 0;
    Grid whole(reference ? n : 0, reference ? n : 0);
    set_initial(&whole, 0, 0);
    Grid whole_next = whole;
    double seconds = 0;
    for (int i = 0; i < iterations; ++i) {
      const double start = MPI_Wtime();
      exchange_->run(&now);
      relax(&now, &next);
      std::swap(now, next);
      seconds += MPI_Wtime() - start;
      relax(&whole, &whole_next);
      std::swap(whole, whole_next);
      if (options_.validate || i + 1 == iterations) {
        compare(&now, &whole);
        if (!verdict_->agree()) break;
      }
    }
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds / iterations;
  }

 private:
  Part rows_of(int rank) const {
    std::array<int, 2> place;
    MPI_Cart_coords(cart_, rank, 2, place.data());
    return part_of(options_.grid_points, dims_[0], place[0]);
  }
  Part columns_of(int rank) const {
    std::array<int, 2> place;
    MPI_Cart_coords(cart_, rank, 2, place.data());
    return part_of(options_.grid_points, dims_[1], place[1]);
  }

  // Rank 0 gets every rank's points in turn.
  void compare(Grid* own, Grid* whole) {
    std::vector<double> points;
    for (int row = 1; row <= own->rows; ++row) {
      points.insert(points.end(), own->at(row, 1), own->at(row, 1) + own->columns);
    }
    if (world_rank() != 0) {
      MPI_Send(points.data(), static_cast<int>(points.size()), MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
      return;
    }
    for (int rank = 0; rank < world_size(); ++rank) {
      const Part rows = rows_of(rank);
      const Part columns = columns_of(rank);
      if (rank != 0) {
        points.resize(static_cast<std::size_t>(rows.count) *
                      static_cast<std::size_t>(columns.count));
        MPI_Recv(points.data(), static_cast<int>(points.size()), MPI_DOUBLE, rank, 4,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
      compare_part(points, rows, columns, rank, whole);
    }
  }

  void compare_part(const std::vector<double>& points, Part rows, Part columns, int rank,
                    Grid* whole) {
    const double* seen = points.data();
    for (int row = rows.first; row < rows.first + rows.count; ++row) {
      for (int column = columns.first; column < columns.first + columns.count; ++column, ++seen) {
        const double expected = *whole->at(row + 1, column + 1);
        if (*seen == expected) continue;
        char text[256];
        std::snprintf(text, sizeof text,
                      "wrong point (%d, %d), computed by rank %d: %.17g, should be %.17g", row,
                      column, rank, *seen, expected);
        return verdict_->fail(text);
      }
    }
  }

  Options options_;
  Verdict* verdict_;
  std::array<int, 2> dims_ = {0, 0};
  MPI_Comm cart_ = MPI_COMM_NULL;
  Part rows_, columns_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options defaults;
  defaults.transfer = "pt2pt";
  const Options options =
      parse_options(argc, argv, "halo", "nictw", defaults, "pt2pt|fence|notify");
  if (options.grid_points > 30000) leave(2, "halo: at most 30000 grid points a side");
  if (options.grid_points < world_size()) leave(2, "halo: fewer grid points a side than ranks");
  Verdict verdict("halo");
  print_header(("halo: Jacobi iteration by " + options.transfer + ", slowest rank").c_str(),
               "Iteration (us)");
  double seconds = 0;
  {
    Jacobi jacobi(options, &verdict);
    seconds = jacobi.run();
  }
  if (verdict.agree()) print_row(static_cast<std::size_t>(options.grid_points), seconds * 1e6);
  return verdict.finish();
}

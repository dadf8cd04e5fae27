// One-sided communication, every call and every synchronization, on windows of the three kinds.
//
//   mpirun -np 4 --mca btl roce,self --mca osc rdma one_sided [create|allocate|dynamic|all [TEST]]
//
// Every expected value is arithmetic on ranks and counts. Prints "all good"; status 1 if not.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "one_sided.h"

namespace {

using namespace one_sided;

constexpr int kRounds = 50;

uint8_t pattern(int owner, size_t position) {
  return static_cast<uint8_t>(owner * 131 + static_cast<int>(position * 7 + position / 251) + 1);
}

std::vector<uint8_t> pattern_of(int owner, size_t bytes) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = pattern(owner, i);
  return data;
}

void check_pattern(const uint8_t* data, int owner, size_t bytes, const std::string& what) {
  for (size_t i = 0; i < bytes; ++i) {
    if (data[i] == pattern(owner, i)) continue;
    return check(false, what + ": byte " + std::to_string(i) + " of " + std::to_string(bytes));
  }
}

int next() { return (rank() + 1) % size(); }
int previous() { return (rank() + size() - 1) % size(); }

/// Puts to the next rank, gets from it what the one before put there; `open` and `close` are the
/// synchronization around each.
template <typename Open, typename Close>
void put_and_get(const Window& window, size_t bytes, const std::string& what, Open open,
                 Close close) {
  const std::vector<uint8_t> data = pattern_of(rank(), bytes);
  open();
  MPI_Put(data.data(), static_cast<int>(bytes), MPI_BYTE, next(), window.at(next(), 0),
          static_cast<int>(bytes), MPI_BYTE, window.get());
  close();
  check_pattern(window.local<uint8_t>(), previous(), bytes, what + ", put");
  std::vector<uint8_t> got(bytes);
  open();
  MPI_Get(got.data(), static_cast<int>(bytes), MPI_BYTE, next(), window.at(next(), 0),
          static_cast<int>(bytes), MPI_BYTE, window.get());
  close();
  check_pattern(got.data(), rank(), bytes, what + ", get");
}

void test_active_target(Kind kind) {
  for (size_t bytes : {size_t{1}, size_t{8}, size_t{1000}, size_t{65537}, size_t{3} << 20}) {
    Window window(kind, bytes);
    const std::string what = std::string(name(kind)) + ", " + std::to_string(bytes) + " bytes, ";
    put_and_get(
        window, bytes, what + "fence", [&] { MPI_Win_fence(0, window.get()); },
        [&] { MPI_Win_fence(0, window.get()); });
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window.get());

    MPI_Group world, origins, targets;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    const int origin = previous(), target = next();
    MPI_Group_incl(world, 1, &origin, &origins);
    MPI_Group_incl(world, 1, &target, &targets);
    put_and_get(
        window, bytes, what + "post and start",
        [&] {
          MPI_Win_post(origins, 0, window.get());
          MPI_Win_start(targets, 0, window.get());
        },
        [&] {
          MPI_Win_complete(window.get());
          MPI_Win_wait(window.get());
        });
    for (MPI_Group* group : {&world, &origins, &targets}) MPI_Group_free(group);
  }
}

/// A strided block: every second of 1,000 ints goes to every third place of the target.
void test_datatypes(Kind kind) {
  constexpr int kCount = 1000;
  Window window(kind, 3 * kCount * sizeof(int));
  std::vector<int> data(2 * kCount);
  for (int i = 0; i < 2 * kCount; ++i) data[static_cast<size_t>(i)] = rank() * 10000 + i;
  MPI_Datatype origin_type, target_type;
  MPI_Type_vector(kCount, 1, 2, MPI_INT, &origin_type);
  MPI_Type_vector(kCount, 1, 3, MPI_INT, &target_type);
  MPI_Type_commit(&origin_type);
  MPI_Type_commit(&target_type);
  MPI_Win_fence(0, window.get());
  MPI_Put(data.data(), 1, origin_type, next(), window.at(next(), 0), 1, target_type, window.get());
  MPI_Win_fence(0, window.get());
  for (int i = 0; i < 3 * kCount - 2; ++i) {
    const int expected = i % 3 == 0 ? previous() * 10000 + i / 3 * 2 : 0;
    check_equal(window.local<int>()[i], expected,
                std::string(name(kind)) + ", vector put, place " + std::to_string(i));
  }
  std::vector<int> got(2 * kCount, -1);
  MPI_Win_fence(0, window.get());
  MPI_Get(got.data(), 1, origin_type, next(), window.at(next(), 0), 1, target_type, window.get());
  MPI_Win_fence(0, window.get());
  for (int i = 0; i < 2 * kCount - 1; ++i) {
    const int expected = i % 2 == 0 ? rank() * 10000 + i : -1;
    check_equal(got[static_cast<size_t>(i)], expected,
                std::string(name(kind)) + ", vector get, place " + std::to_string(i));
  }
  MPI_Type_free(&origin_type);
  MPI_Type_free(&target_type);
}

/// Everyone adds to a counter on every rank by get and put under the exclusive lock.
void test_exclusive_lock(Kind kind) {
  Window window(kind, 64);
  for (int i = 0; i < kRounds; ++i) {
    for (int target = 0; target < size(); ++target) {
      int64_t value = 0;
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window.get());
      MPI_Get(&value, 1, MPI_INT64_T, target, window.at(target, 8), 1, MPI_INT64_T, window.get());
      MPI_Win_flush(target, window.get());
      value += rank() + 1;
      MPI_Put(&value, 1, MPI_INT64_T, target, window.at(target, 8), 1, MPI_INT64_T, window.get());
      MPI_Win_unlock(target, window.get());
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int64_t value = 0;
  MPI_Win_lock(MPI_LOCK_SHARED, rank(), 0, window.get());
  MPI_Get(&value, 1, MPI_INT64_T, rank(), window.at(rank(), 8), 1, MPI_INT64_T, window.get());
  MPI_Win_unlock(rank(), window.get());
  check_equal(value, int64_t{kRounds} * size() * (size() + 1) / 2,
              std::string(name(kind)) + ", counter under the exclusive lock");
}

/// Value of T at `offset` of the own window.
template <typename T>
T own_value(const Window& window, size_t offset) {
  T value;
  std::memcpy(&value, window.local<char>(offset), sizeof value);
  return value;
}

/// Accumulates of every rank to every rank; `offset` need not suit T.
template <typename T>
void accumulate_sums(const Window& window, MPI_Datatype type, size_t offset,
                     const std::string& what) {
  constexpr int kElements = 3;
  MPI_Win_lock_all(0, window.get());
  for (int i = 0; i < kRounds; ++i) {
    for (int target = 0; target < size(); ++target) {
      T values[kElements];
      for (int k = 0; k < kElements; ++k) values[k] = static_cast<T>(rank() % 2 + k);
      MPI_Accumulate(values, kElements, type, target, window.at(target, offset), kElements, type,
                     MPI_SUM, window.get());
      if (i % 2 == 0) {
        MPI_Win_flush_local(target, window.get());
      } else {
        MPI_Win_flush(target, window.get());
      }
    }
  }
  MPI_Win_flush_all(window.get());
  MPI_Win_unlock_all(window.get());
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, rank(), 0, window.get());
  for (int k = 0; k < kElements; ++k) {
    const int sum = kRounds * (size() / 2 + size() * k);
    check(own_value<T>(window, offset + static_cast<size_t>(k) * sizeof(T)) == static_cast<T>(sum),
          what + ", element " + std::to_string(k));
  }
  MPI_Win_unlock(rank(), window.get());
  MPI_Barrier(MPI_COMM_WORLD);
}

void test_accumulate(Kind kind) {
  Window window(kind, 4096);
  const std::string what = std::string(name(kind)) + ", accumulate ";
  accumulate_sums<int64_t>(window, MPI_INT64_T, 0, what + "int64");
  accumulate_sums<int32_t>(window, MPI_INT32_T, 256, what + "int32");
  accumulate_sums<int32_t>(window, MPI_INT32_T, 516, what + "int32 in the middle of a word");
  accumulate_sums<int16_t>(window, MPI_INT16_T, 1026, what + "int16");
  accumulate_sums<double>(window, MPI_DOUBLE, 2048, what + "double");
  accumulate_sums<int64_t>(window, MPI_INT64_T, 3076, what + "int64 at an odd place");
}

/// Other operations: each rank ORs its bit, MAXes its rank, then the last word is replaced.
void test_operations(Kind kind) {
  Window window(kind, 64);
  const std::string what = std::string(name(kind)) + ", ";
  const int64_t bit = int64_t{1} << rank(), value = 100 + rank();
  MPI_Win_lock_all(0, window.get());
  for (int target = 0; target < size(); ++target) {
    MPI_Accumulate(&bit, 1, MPI_INT64_T, target, window.at(target, 0), 1, MPI_INT64_T, MPI_BOR,
                   window.get());
    MPI_Accumulate(&value, 1, MPI_INT64_T, target, window.at(target, 8), 1, MPI_INT64_T, MPI_MAX,
                   window.get());
    MPI_Accumulate(&value, 1, MPI_INT64_T, target, window.at(target, 16), 1, MPI_INT64_T,
                   MPI_REPLACE, window.get());
  }
  MPI_Win_unlock_all(window.get());
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, rank(), 0, window.get());
  check_equal(own_value<int64_t>(window, 0), (int64_t{1} << size()) - 1, what + "BOR");
  check_equal(own_value<int64_t>(window, 8), 99 + size(), what + "MAX");
  const int64_t replaced = own_value<int64_t>(window, 16);
  check(replaced >= 100 && replaced < 100 + size(), what + "REPLACE");
  MPI_Win_unlock(rank(), window.get());
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Tickets from a counter on rank 0: all different, none left out, whoever draws them and however.
template <typename Draw>
void draw_tickets(const Window& window, const std::string& what, Draw draw) {
  std::vector<int64_t> own(kRounds);
  MPI_Win_lock_all(0, window.get());
  for (int64_t& ticket : own) {
    draw(&ticket);
    MPI_Win_flush(0, window.get());
  }
  MPI_Win_unlock_all(window.get());
  check(std::is_sorted(own.begin(), own.end()), what + ": tickets of a rank fall");
  std::vector<int64_t> all(own.size() * static_cast<size_t>(size()));
  MPI_Gather(own.data(), kRounds, MPI_INT64_T, all.data(), kRounds, MPI_INT64_T, 0, MPI_COMM_WORLD);
  if (rank() != 0) return;
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) {
    check_equal(all[i], static_cast<int64_t>(i), what + ": ticket");
  }
}

void test_fetching(Kind kind) {
  const int64_t one = 1;
  const std::string what = std::string(name(kind)) + ", ";
  Window window(kind, 64);
  draw_tickets(window, what + "Fetch_and_op", [&](int64_t* ticket) {
    MPI_Fetch_and_op(&one, ticket, MPI_INT64_T, 0, window.at(0, 0), MPI_SUM, window.get());
  });
  draw_tickets(window, what + "Get_accumulate", [&](int64_t* ticket) {
    MPI_Get_accumulate(&one, 1, MPI_INT64_T, ticket, 1, MPI_INT64_T, 0, window.at(0, 8), 1,
                       MPI_INT64_T, MPI_SUM, window.get());
  });
  draw_tickets(window, what + "Compare_and_swap", [&](int64_t* ticket) {
    int64_t seen = 0;
    for (int64_t expected = 0;; expected = seen) {
      const int64_t wanted = expected + 1;
      MPI_Compare_and_swap(&wanted, &expected, &seen, MPI_INT64_T, 0, window.at(0, 16),
                           window.get());
      MPI_Win_flush(0, window.get());
      if (seen == expected) break;
    }
    *ticket = seen;
  });
  draw_tickets(window, what + "Fetch_and_op of 4 bytes", [&](int64_t* ticket) {
    const int32_t add = 1;
    int32_t seen = -1;
    MPI_Fetch_and_op(&add, &seen, MPI_INT32_T, 0, window.at(0, 28), MPI_SUM, window.get());
    MPI_Win_flush(0, window.get());
    *ticket = seen;
  });

  // A chain: what each swap takes out was put in by exactly one other, or is the first zero.
  std::vector<int64_t> taken(kRounds);
  MPI_Win_lock_all(0, window.get());
  for (int i = 0; i < kRounds; ++i) {
    const int64_t mine = rank() * kRounds + i + 1;
    MPI_Fetch_and_op(&mine, &taken[static_cast<size_t>(i)], MPI_INT64_T, 0, window.at(0, 32),
                     MPI_REPLACE, window.get());
    MPI_Win_flush(0, window.get());
  }
  int64_t last = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Fetch_and_op(nullptr, &last, MPI_INT64_T, 0, window.at(0, 32), MPI_NO_OP, window.get());
  MPI_Win_unlock_all(window.get());
  int64_t sum = std::accumulate(taken.begin(), taken.end(), int64_t{0});
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  const int64_t count = int64_t{kRounds} * size();
  check_equal(sum + last, count * (count + 1) / 2, what + "Fetch_and_op with REPLACE and NO_OP");
}

void test_requests(Kind kind) {
  Window window(kind, 1024);
  const std::string what = std::string(name(kind)) + ", ";
  const int64_t one = 1;
  const std::vector<uint8_t> data = pattern_of(rank(), 256);
  std::vector<uint8_t> got(256);
  int64_t before = -1;
  MPI_Request requests[2];
  MPI_Win_lock_all(0, window.get());
  MPI_Rput(data.data(), 256, MPI_BYTE, next(), window.at(next(), 0), 256, MPI_BYTE, window.get(),
           &requests[0]);
  MPI_Raccumulate(&one, 1, MPI_INT64_T, next(), window.at(next(), 512), 1, MPI_INT64_T, MPI_SUM,
                  window.get(), &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Win_flush(next(), window.get());
  MPI_Rget(got.data(), 256, MPI_BYTE, next(), window.at(next(), 0), 256, MPI_BYTE, window.get(),
           &requests[0]);
  MPI_Rget_accumulate(&one, 1, MPI_INT64_T, &before, 1, MPI_INT64_T, next(), window.at(next(), 512),
                      1, MPI_INT64_T, MPI_SUM, window.get(), &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Win_unlock_all(window.get());
  check_pattern(got.data(), rank(), 256, what + "Rput, Rget");
  check_equal(before, 1, what + "Raccumulate, Rget_accumulate");
  MPI_Barrier(MPI_COMM_WORLD);
}

constexpr struct {
  const char* name;
  void (*run)(Kind);
} kTests[] = {
    {"active_target", test_active_target},
    {"datatypes", test_datatypes},
    {"exclusive_lock", test_exclusive_lock},
    {"accumulate", test_accumulate},
    {"operations", test_operations},
    {"fetching", test_fetching},
    {"requests", test_requests},
};

bool chosen(const char* argument, const char* name) {
  return argument == nullptr || std::strcmp(argument, "all") == 0 ||
         std::strcmp(argument, name) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (Kind kind : {Kind::kCreate, Kind::kAllocate, Kind::kDynamic}) {
    if (!chosen(argc > 1 ? argv[1] : nullptr, name(kind))) continue;
    for (const auto& test : kTests) {
      if (chosen(argc > 2 ? argv[2] : nullptr, test.name)) test.run(kind);
    }
  }
  return finish();
}

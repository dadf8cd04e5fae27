// What the one-sided test programs share: windows of the three kinds that MPI has, and a verdict.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace one_sided {

inline int rank() {
  int value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &value);
  return value;
}

inline int size() {
  int value = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &value);
  return value;
}

inline int failures = 0;

inline void check(bool good, const std::string& what) {
  if (good) return;
  if (++failures <= 10) std::fprintf(stderr, "rank %d: FAILED: %s\n", rank(), what.c_str());
}

inline void check_equal(int64_t seen, int64_t expected, const std::string& what) {
  check(seen == expected,
        what + ": " + std::to_string(seen) + ", should be " + std::to_string(expected));
}

/// How a window comes to its memory.
enum class Kind { kCreate, kAllocate, kDynamic };

inline const char* name(Kind kind) {
  switch (kind) {
    case Kind::kCreate:
      return "create";
    case Kind::kAllocate:
      return "allocate";
    case Kind::kDynamic:
      return "dynamic";
  }
  return "";
}

/// A window of `bytes` bytes on every rank, displacement unit 1, zeroed.
class Window {
 public:
  Window(Kind kind, size_t bytes) : kind_(kind) {
    const auto extent = static_cast<MPI_Aint>(bytes);
    if (kind == Kind::kAllocate) {
      MPI_Win_allocate(extent, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base_, &window_);
    } else {
      own_.resize(bytes / sizeof(uint64_t) + 1);
      base_ = own_.data();
    }
    if (kind == Kind::kCreate) {
      MPI_Win_create(base_, extent, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_);
    } else if (kind == Kind::kDynamic) {
      MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window_);
      MPI_Win_attach(window_, base_, extent);
    }
    std::vector<MPI_Aint> addresses(static_cast<size_t>(size()), 0);
    if (kind == Kind::kDynamic) {
      MPI_Aint own = 0;
      MPI_Get_address(base_, &own);
      MPI_Allgather(&own, 1, MPI_AINT, addresses.data(), 1, MPI_AINT, MPI_COMM_WORLD);
    }
    starts_ = addresses;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank(), 0, window_);
    for (size_t i = 0; i < bytes; ++i) static_cast<uint8_t*>(base_)[i] = 0;
    MPI_Win_unlock(rank(), window_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~Window() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (kind_ == Kind::kDynamic) MPI_Win_detach(window_, base_);
    MPI_Win_free(&window_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  MPI_Win get() const { return window_; }
  /// Target displacement of byte `offset` of rank `target`.
  MPI_Aint at(int target, size_t offset) const {
    return starts_[static_cast<size_t>(target)] + static_cast<MPI_Aint>(offset);
  }
  template <typename T>
  T* local(size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(base_) + offset);
  }

 private:
  Kind kind_;
  void* base_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<uint64_t> own_;
  std::vector<MPI_Aint> starts_;
};

/// Collective; to be returned from main.
inline int finish() {
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank() == 0 && failures == 0) std::printf("all good\n");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}

}  // namespace one_sided

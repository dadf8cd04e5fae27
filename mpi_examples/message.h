// Messages of the example programs: their content, their layout in memory, their buffers.
//
// A message is n bytes laid out either as one block or as blocks with gaps of the same length (an
// MPI vector). Its content is a pattern in which every 8-byte word depends on a seed and on the
// word's place, so that data that is stale, shifted, repeated or from another sender never passes.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace examples {

inline std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t word = (seed + index) * 0x9E3779B97F4A7C15u;
  word ^= word >> 32;
  return word * 0xD6E8FEB86659FD93u;
}

// A seed that differs for every sender, message size and message of a run.
inline std::uint64_t message_seed(int sender, std::size_t bytes, std::uint64_t number) {
  return pattern_word((static_cast<std::uint64_t>(sender) << 48) ^ bytes, number + 1) << 20;
}

inline void write_pattern(std::byte* to, std::size_t offset, std::size_t length,
                          std::uint64_t seed) {
  const std::size_t end = offset + length;
  while (offset < end) {
    const std::uint64_t word = pattern_word(seed, offset / 8);
    const std::size_t skip = offset % 8;
    const std::size_t part = std::min(end - offset, 8 - skip);
    if (part == 8) {
      std::memcpy(to, &word, 8);
    } else {
      std::memcpy(to, reinterpret_cast<const std::byte*>(&word) + skip, part);
    }
    to += part;
    offset += part;
  }
}

struct Mismatch {
  bool found = false;
  std::string text;
};

inline Mismatch mismatch(const char* what, std::size_t place, std::byte seen, std::byte expected) {
  char text[128];
  std::snprintf(text, sizeof text, "%s %zu is 0x%02x, should be 0x%02x", what, place,
                std::to_integer<unsigned>(seen), std::to_integer<unsigned>(expected));
  return {true, text};
}

inline Mismatch check_pattern(const std::byte* from, std::size_t offset, std::size_t length,
                              std::uint64_t seed) {
  std::byte expected[4096];
  for (std::size_t done = 0; done < length;) {
    const std::size_t part = std::min(length - done, sizeof expected);
    write_pattern(expected, offset + done, part, seed);
    if (std::memcmp(from + done, expected, part) != 0) {
      std::size_t i = 0;
      while (from[done + i] == expected[i]) ++i;
      return mismatch("byte", offset + done + i, from[done + i], expected[i]);
    }
    done += part;
  }
  return {};
}

inline Mismatch check_constant(const std::byte* from, std::size_t length, std::byte value,
                               const char* what) {
  for (std::size_t i = 0; i < length; ++i) {
    if (from[i] != value) return mismatch(what, i, from[i], value);
  }
  return {};
}

// ------------------------------------------------------------------------------------------------
// Layout of a message in memory

inline constexpr std::byte kUntouched{0xC3};  // in gaps and around receive buffers

class Layout {
 public:
  Layout(std::size_t bytes, bool strided) : bytes_(bytes), strided_(strided && bytes > 0) {
    // Small messages are scattered byte by byte, so that they have gaps at all.
    block_ = bytes >= 128 ? 64 : 1;
    if (strided_) {
      make_type(bytes / block_, block_, 2 * block_, bytes % block_);
    } else if (bytes > INT_MAX) {
      constexpr std::size_t kMebi = std::size_t{1} << 20;
      make_type(bytes / kMebi, kMebi, kMebi, bytes % kMebi);
    }
  }
  ~Layout() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  MPI_Datatype type() const { return type_; }
  int count() const { return type_ == MPI_BYTE ? static_cast<int>(bytes_) : 1; }
  std::size_t bytes() const { return bytes_; }
  // Memory that the message takes, from its first byte to its last.
  std::size_t span() const {
    if (!strided_) return bytes_;
    const std::size_t tail = bytes_ % block_;
    return bytes_ / block_ * 2 * block_ - (tail == 0 ? block_ : 0) + tail;
  }

  void fill(std::byte* base, std::uint64_t seed) const {
    if (!strided_) return write_pattern(base, 0, bytes_, seed);
    for (std::size_t offset = 0; offset < bytes_; offset += block_) {
      write_pattern(base + 2 * offset, offset, std::min(block_, bytes_ - offset), seed);
    }
  }

  // Also the gaps are checked: they must still be kUntouched, as clear() left them.
  Mismatch check(const std::byte* base, std::uint64_t seed) const {
    if (!strided_) return check_pattern(base, 0, bytes_, seed);
    for (std::size_t offset = 0; offset < bytes_; offset += block_) {
      const std::size_t part = std::min(block_, bytes_ - offset);
      Mismatch wrong = check_pattern(base + 2 * offset, offset, part, seed);
      if (!wrong.found && offset + part < bytes_) {
        wrong = check_constant(base + 2 * offset + part, part, kUntouched, "gap byte");
      }
      if (wrong.found) return wrong;
    }
    return {};
  }

  void clear(std::byte* base) const { std::memset(base, std::to_integer<int>(kUntouched), span()); }

 private:
  void make_type(std::size_t blocks, std::size_t block, std::size_t stride, std::size_t tail) {
    MPI_Datatype body;
    MPI_Type_create_hvector(static_cast<int>(blocks), static_cast<int>(block),
                            static_cast<MPI_Aint>(stride), MPI_BYTE, &body);
    int lengths[] = {1, static_cast<int>(tail)};
    MPI_Aint places[] = {0, static_cast<MPI_Aint>(blocks * stride)};
    MPI_Datatype types[] = {body, MPI_BYTE};
    MPI_Type_create_struct(tail == 0 ? 1 : 2, lengths, places, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&body);
  }

  std::size_t bytes_;
  bool strided_;
  std::size_t block_;
  MPI_Datatype type_ = MPI_BYTE;
};

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte[], FreeMemory>;

// Page aligned and touched, so that the timed loops take no page faults.
inline Memory allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes / 4096 + 1) * 4096;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, rounded));
  if (memory == nullptr) {
    std::fprintf(stderr, "no memory for buffers of %zu bytes\n", rounded);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  std::memset(memory, std::to_integer<int>(kUntouched), rounded);
  return Memory(memory);
}

}  // namespace examples

// Blocks of block_store.cc, their content, and the window that holds them.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "common.h"

namespace examples {

// A block begins with this; the rest of it is a pattern that depends on all of it.
struct Label {
  std::uint64_t client, server;  // ranks
  std::uint64_t number;          // among the blocks of this client on this server
  std::uint64_t version;         // 1: the first; one more with each write
};
inline constexpr std::size_t kMinBlockBytes = 64;

inline std::uint64_t seed_of(const Label& label) {
  const std::uint64_t place = pattern_word(label.client << 32 | label.server, label.number);
  return pattern_word(place, label.version);
}

inline void write_block(std::byte* to, std::size_t bytes, const Label& label) {
  std::memcpy(to, &label, sizeof label);
  write_pattern(to + sizeof label, sizeof label, bytes - sizeof label, seed_of(label));
}

inline std::string to_string(const Label& label) {
  return "version " + std::to_string(label.version) + " of block " + std::to_string(label.number) +
         " of client " + std::to_string(label.client) + " on server " +
         std::to_string(label.server);
}

inline Label label_in(const std::byte* block) {
  Label label;
  std::memcpy(&label, block, sizeof label);
  return label;
}

// What is wrong with a block; empty if nothing is.
inline std::string check_block(const std::byte* from, std::size_t bytes, const Label& expected) {
  if (std::memcmp(from, &expected, sizeof expected) != 0) {
    return to_string(label_in(from)) + ", should be " + to_string(expected);
  }
  const Mismatch wrong = check_pattern(from + sizeof expected, sizeof expected,
                                       bytes - sizeof expected, seed_of(expected));
  return wrong.found ? to_string(expected) + ": " + wrong.text : "";
}

// The window. Ranks from 0 on are clients, the last ones servers. The memory of a server has the
// blocks of client 0, then those of client 1, and so on. Block i of a client is its block
// i / servers on server i % servers. All ranks lock all others for as long as it lives; shared
// locks, because no two clients use the same blocks.
class Store {
 public:
  Store(const Options& options, std::size_t bytes)
      : bytes_(bytes),
        blocks_(static_cast<std::size_t>(options.blocks)),
        servers_(options.servers),
        clients_(world_size() - options.servers) {
    const std::size_t extent =
        is_server() ? static_cast<std::size_t>(clients_) * blocks_ * bytes : 0;
    if (options.create_window) {
      own_ = allocate(extent);
      memory_ = own_.get();
      MPI_Win_create(memory_, static_cast<MPI_Aint>(extent), 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &window_);
    } else {
      MPI_Win_allocate(static_cast<MPI_Aint>(extent), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory_,
                       &window_);
    }
    if (extent > 0) std::memset(memory_, std::to_integer<int>(kUntouched), extent);
    MPI_Win_lock_all(0, window_);
    MPI_Win_sync(window_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~Store() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  MPI_Win window() const { return window_; }
  int servers() const { return servers_; }
  int clients() const { return clients_; }
  std::size_t block_bytes() const { return bytes_; }
  // Of one client, on all servers.
  std::size_t blocks_of_client() const { return blocks_ * static_cast<std::size_t>(servers_); }
  // Rank of the server that has a client's block.
  int server_of(std::size_t block) const {
    return clients_ + static_cast<int>(block % static_cast<std::size_t>(servers_));
  }
  Label label(int client, std::size_t block, std::uint64_t version) const {
    return {static_cast<std::uint64_t>(client), static_cast<std::uint64_t>(server_of(block)),
            block / static_cast<std::size_t>(servers_), version};
  }

  // With a request: MPI_Rget and MPI_Rput.
  void get(std::byte* to, std::size_t block, MPI_Request* request = nullptr) const {
    const int count = static_cast<int>(bytes_);
    const int server = server_of(block);
    if (request != nullptr) {
      MPI_Rget(to, count, MPI_BYTE, server, place_of(block), count, MPI_BYTE, window_, request);
    } else {
      MPI_Get(to, count, MPI_BYTE, server, place_of(block), count, MPI_BYTE, window_);
    }
  }
  void put(const std::byte* from, std::size_t block, MPI_Request* request = nullptr) const {
    const int count = static_cast<int>(bytes_);
    const int server = server_of(block);
    if (request != nullptr) {
      MPI_Rput(from, count, MPI_BYTE, server, place_of(block), count, MPI_BYTE, window_, request);
    } else {
      MPI_Put(from, count, MPI_BYTE, server, place_of(block), count, MPI_BYTE, window_);
    }
  }

  // On a server, after all clients have flushed: every block is where it belongs and of one piece.
  std::string check_own() const {
    MPI_Win_sync(window_);
    const std::byte* from = memory_;
    for (int client = 0; client < clients_; ++client) {
      for (std::size_t number = 0; number < blocks_; ++number, from += bytes_) {
        const Label expected = {static_cast<std::uint64_t>(client),
                                static_cast<std::uint64_t>(world_rank()), number,
                                label_in(from).version};
        const std::string wrong = check_block(from, bytes_, expected);
        if (!wrong.empty()) return wrong;
      }
    }
    return {};
  }

 private:
  bool is_server() const { return world_rank() >= clients_; }
  // Of the calling client's block in the server's memory, in bytes.
  MPI_Aint place_of(std::size_t block) const {
    const std::size_t number = block / static_cast<std::size_t>(servers_);
    return static_cast<MPI_Aint>((static_cast<std::size_t>(world_rank()) * blocks_ + number) *
                                 bytes_);
  }

  std::size_t bytes_;
  std::size_t blocks_;
  int servers_;
  int clients_;
  Memory own_;
  std::byte* memory_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace examples

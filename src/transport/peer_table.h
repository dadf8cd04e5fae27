// The endpoints of a process: by name, for adapters and the handshake, and by index, for headers
// and completions (without a lock).
#ifndef ROCE_TRANSPORT_PEER_TABLE_H_
#define ROCE_TRANSPORT_PEER_TABLE_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "roce/transport.h"

namespace roce::transport {

class PeerTable {
 public:
  static constexpr uint32_t kChunk = 1024, kChunks = 1024;      ///< 1,048,576 peers.
  static constexpr size_t kEntryBytes = 2 * sizeof(Endpoint*);  ///< For a peer, of both tables.

  PeerTable();
  ~PeerTable();

  using Maker = std::function<std::unique_ptr<Endpoint>(uint32_t index)>;
  /// The endpoint of that name, made if there is none; null if the table is full. *made tells.
  Endpoint* find_or_make(ProcessName name, const Maker& maker, bool* made);
  Endpoint* find(ProcessName name);
  /// Null for an index that is not in use.
  Endpoint* at(uint32_t index) const {
    if (index >= kChunk * kChunks) {
      return nullptr;
    }
    const Chunk* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : (*chunk)[index % kChunk].load(std::memory_order_acquire);
  }
  /// Out of both tables; the object lives on until the table goes, since events may point to it.
  void remove(Endpoint* endpoint);
  std::vector<Endpoint*> all();

 private:
  using Chunk = std::array<std::atomic<Endpoint*>, kChunk>;

  /// Where the peer of that name is or would be.
  std::vector<Endpoint*>::iterator place(ProcessName name);

  std::mutex mutex_;
  /// In the order of names, which is mostly that of adding. Owns them.
  std::vector<Endpoint*> by_name_;
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::vector<uint32_t> free_indices_;
  uint32_t next_index_ = 0;
  std::vector<std::unique_ptr<Endpoint>> removed_;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_PEER_TABLE_H_

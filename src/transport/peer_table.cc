#include "transport/peer_table.h"

#include <algorithm>

#include "transport/endpoint.h"

namespace roce::transport {

std::vector<Endpoint*>::iterator PeerTable::place(ProcessName name) {
  return std::lower_bound(by_name_.begin(), by_name_.end(), name,
                          [](const Endpoint* peer, ProcessName key) { return peer->name() < key; });
}

PeerTable::PeerTable() = default;

PeerTable::~PeerTable() {
  for (Endpoint* endpoint : by_name_) delete endpoint;
  for (auto& chunk : chunks_) delete chunk.load();
}

Endpoint* PeerTable::find_or_make(ProcessName name, const Maker& maker, bool* made) {
  std::lock_guard guard(mutex_);
  *made = false;
  auto found = place(name);
  if (found != by_name_.end() && (*found)->name() == name) {
    return *found;
  }
  uint32_t index = next_index_;
  if (!free_indices_.empty()) {
    index = free_indices_.back();
    free_indices_.pop_back();
  } else if (next_index_ == kChunk * kChunks) {
    return nullptr;
  } else {
    ++next_index_;
  }
  std::atomic<Chunk*>& slot = chunks_[index / kChunk];
  if (slot.load(std::memory_order_relaxed) == nullptr) {
    slot.store(new Chunk{}, std::memory_order_release);
  }
  Endpoint* endpoint = maker(index).release();
  by_name_.insert(found, endpoint);
  (*slot.load(std::memory_order_relaxed))[index % kChunk].store(endpoint,
                                                                std::memory_order_release);
  *made = true;
  return endpoint;
}

Endpoint* PeerTable::find(ProcessName name) {
  std::lock_guard guard(mutex_);
  auto found = place(name);
  return found == by_name_.end() || (*found)->name() != name ? nullptr : *found;
}

void PeerTable::remove(Endpoint* endpoint) {
  std::lock_guard guard(mutex_);
  by_name_.erase(place(endpoint->name()));
  removed_.emplace_back(endpoint);
  uint32_t index = endpoint->index();
  (*chunks_[index / kChunk].load(std::memory_order_relaxed))[index % kChunk].store(
      nullptr, std::memory_order_release);
  free_indices_.insert(free_indices_.begin(), index);  // the oldest free one is used first
}

std::vector<Endpoint*> PeerTable::all() {
  std::lock_guard guard(mutex_);
  std::vector<Endpoint*> out;
  for (uint32_t index = 0; index < next_index_; ++index) {
    if (Endpoint* endpoint = at(index); endpoint != nullptr) out.push_back(endpoint);
  }
  return out;
}

}  // namespace roce::transport

#include "transport/peer_table.h"

#include "transport/endpoint.h"

namespace roce::transport {

PeerTable::PeerTable() = default;

PeerTable::~PeerTable() {
  for (auto& chunk : chunks_) {
    delete chunk.load();
  }
}

Endpoint* PeerTable::find_or_make(ProcessName name, const Maker& maker, bool* made) {
  std::lock_guard guard(mutex_);
  *made = false;
  auto found = by_name_.find(name);
  if (found != by_name_.end()) {
    return found->second;
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
  owned_.push_back(maker(index));
  Endpoint* endpoint = owned_.back().get();
  (*slot.load(std::memory_order_relaxed))[index % kChunk].store(endpoint,
                                                                std::memory_order_release);
  by_name_[name] = endpoint;
  *made = true;
  return endpoint;
}

Endpoint* PeerTable::find(ProcessName name) {
  std::lock_guard guard(mutex_);
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void PeerTable::remove(Endpoint* endpoint) {
  std::lock_guard guard(mutex_);
  by_name_.erase(endpoint->name());
  uint32_t index = endpoint->index();
  (*chunks_[index / kChunk].load(std::memory_order_relaxed))[index % kChunk].store(
      nullptr, std::memory_order_release);
  free_indices_.insert(free_indices_.begin(), index);  // the oldest free one is used first
}

std::vector<Endpoint*> PeerTable::all() {
  std::lock_guard guard(mutex_);
  std::vector<Endpoint*> out;
  for (auto& [name, endpoint] : by_name_) {
    out.push_back(endpoint);
  }
  return out;
}

}  // namespace roce::transport

#include "soft/timer_heap.h"

namespace roce::soft {

void TimerHeap::sift_up(size_t position, Entry* entry) {
  while (position > 0) {
    const size_t parent = (position - 1) / 2;
    if (heap_[parent]->at <= entry->at) break;
    place(position, heap_[parent]);
    position = parent;
  }
  place(position, entry);
}

void TimerHeap::sift_down(size_t position, Entry* entry) {
  for (;;) {
    size_t child = 2 * position + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->at < heap_[child]->at) ++child;
    if (entry->at <= heap_[child]->at) break;
    place(position, heap_[child]);
    position = child;
  }
  place(position, entry);
}

void TimerHeap::set_at_most(Entry& entry, engine::TimeNs at) {
  if (entry.position == UINT32_MAX) {
    if (at == engine::kNever) return;
    entry.at = at;
    heap_.push_back(&entry);
    sift_up(heap_.size() - 1, &entry);
  } else if (at < entry.at) {
    entry.at = at;
    sift_up(entry.position, &entry);
  }
}

void TimerHeap::remove(Entry& entry) {
  if (entry.position == UINT32_MAX) return;
  const size_t position = entry.position;
  Entry* last = heap_.back();
  heap_.pop_back();
  entry.position = UINT32_MAX;
  entry.at = engine::kNever;
  if (last == &entry) return;
  if (position > 0 && last->at < heap_[(position - 1) / 2]->at) {
    sift_up(position, last);
  } else {
    sift_down(position, last);
  }
}

TimerHeap::Entry* TimerHeap::pop_due(engine::TimeNs now) {
  if (heap_.empty() || heap_.front()->at > now) return nullptr;
  Entry* first = heap_.front();
  remove(*first);
  return first;
}

}  // namespace roce::soft

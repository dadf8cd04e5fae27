// Deadlines of queue pairs: a binary heap in which each queue pair stands at most once.
//
// Cost depends on the queue pairs that have a deadline, not on those that exist. A deadline that
// moved later is corrected only when the old one comes up, since most acknowledgement timers move
// later with every packet.
#ifndef ROCE_SOFT_TIMER_HEAP_H_
#define ROCE_SOFT_TIMER_HEAP_H_

#include <cstdint>
#include <vector>

#include "engine/types.h"

namespace roce::soft {

struct Qp;

class TimerHeap {
 public:
  struct Entry {
    explicit Entry(Qp* owner) : qp(owner) {}
    Qp* qp;
    engine::TimeNs at = engine::kNever;
    uint32_t position = UINT32_MAX;  ///< UINT32_MAX: not in the heap.
  };

  void reserve(size_t entries) { heap_.reserve(entries); }
  /// Makes the entry come up at `at` at the latest.
  void set_at_most(Entry& entry, engine::TimeNs at);
  void remove(Entry& entry);
  engine::TimeNs earliest() const { return heap_.empty() ? engine::kNever : heap_.front()->at; }
  /// The first entry if it is due, taken out of the heap; nullptr otherwise.
  Entry* pop_due(engine::TimeNs now);

 private:
  void place(size_t position, Entry* entry) {
    heap_[position] = entry;
    entry->position = static_cast<uint32_t>(position);
  }
  void sift_up(size_t position, Entry* entry);
  void sift_down(size_t position, Entry* entry);

  std::vector<Entry*> heap_;
};

}  // namespace roce::soft

#endif  // ROCE_SOFT_TIMER_HEAP_H_

#include "transport/counters.h"

namespace roce::transport {
namespace {

constexpr int kCounters = static_cast<int>(Counter::kCount);

struct Row {
  const char* name;
  const char* help;
};

constexpr Row kRows[] = {
#define X(name, text) {#name, text},
    ROCE_COUNTERS(X)
#undef X
};
static_assert(sizeof kRows / sizeof kRows[0] == kCounters);

/// Any value is answered, so that a caller's loop bound can never read past the list.
const Row& row_of(Counter counter) {
  static constexpr Row kUnknown = {"unknown", "not a counter"};
  const int index = static_cast<int>(counter);
  return index >= 0 && index < kCounters ? kRows[index] : kUnknown;
}

}  // namespace

const char* counter_name(Counter counter) { return row_of(counter).name; }
const char* counter_help(Counter counter) { return row_of(counter).help; }

std::string Counters::text() const {
  std::string lines;
  for (int i = 0; i < kCounters; ++i) {
    const auto counter = static_cast<Counter>(i);
    lines += counter_name(counter);
    lines += ' ';
    lines += std::to_string(get(counter));
    lines += '\n';
  }
  return lines;
}

}  // namespace roce::transport

// Which Open MPI a component was built for, and whether another one may use it.
//
// The BTL interface changes between release series (4.1, 5.0) without the loader noticing: it
// compares only the version of the component interface, so the component has to look itself.
#ifndef ROCE_BTL_VERSION_H_
#define ROCE_BTL_VERSION_H_

#include <charconv>
#include <string_view>

namespace roce::btl {

/// Whether `running` ("4.1.4", "5.0.0rc1") belongs to the release series major.minor.
inline bool same_series(std::string_view running, int major, int minor) {
  const char* end = running.data() + running.size();
  int running_major = -1, running_minor = -1;
  auto first = std::from_chars(running.data(), end, running_major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return false;
  auto second = std::from_chars(first.ptr + 1, end, running_minor);
  return second.ec == std::errc() && running_major == major && running_minor == minor;
}

}  // namespace roce::btl

#endif  // ROCE_BTL_VERSION_H_

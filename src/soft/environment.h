// Settings of the software device: environment variables, or configure() before the first call.
#ifndef ROCE_SOFT_ENVIRONMENT_H_
#define ROCE_SOFT_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "soft/interfaces.h"
#include "soft/soft.h"

namespace roce::soft {

/// ROCE_SOFT_IF_INCLUDE, ROCE_SOFT_IF_EXCLUDE, ROCE_SOFT_FIRST_SLOT and ROCE_SOFT_RECEIVE_BUFFER.
/// A value out of range is reported on stderr once and its default used.
Options options_from_environment();

/// Whether one element of a comma list (interface name, or address/prefix) matches the interface.
bool list_matches(const std::string& list, const Interface& interface);

/// Whether `interface` may be used under these options.
bool interface_allowed(const Options& options, const Interface& interface);

}  // namespace roce::soft

#endif  // ROCE_SOFT_ENVIRONMENT_H_

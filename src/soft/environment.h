// Settings of the software device: what they mean. Where they come from: soft.h.
#ifndef ROCE_SOFT_ENVIRONMENT_H_
#define ROCE_SOFT_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "soft/interfaces.h"
#include "soft/soft.h"

namespace roce::soft {

/// Whether one element of a comma list (interface name, or address/prefix) matches the interface.
bool list_matches(const std::string& list, const Interface& interface);

/// Whether `interface` may be used under these options.
bool interface_allowed(const Options& options, const Interface& interface);

}  // namespace roce::soft

#endif  // ROCE_SOFT_ENVIRONMENT_H_

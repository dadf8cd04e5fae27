// Parameters if_include and if_exclude against the ports that were found.
#ifndef ROCE_TRANSPORT_DEVICE_FILTER_H_
#define ROCE_TRANSPORT_DEVICE_FILTER_H_

#include <string>
#include <vector>

#include "roce/status.h"
#include "transport/params.h"
#include "verbs/discovery.h"

namespace roce::transport {

/// Items of a comma list without blanks and empty ones.
std::vector<std::string> split_list(const std::string& list);

/// Whether an item (device, device:port, interface name, or subnet a.b.c.d/n, IPv6/n) means this
/// port.
bool item_matches(const std::string& item, const verbs::Candidate& candidate);

/// Leaves in `candidates` what the parameters allow, and in each only the GIDs that gid_index
/// allows; appends to `refusals` one sentence for each port left out and for each item of
/// if_include that means nothing that exists.
void filter_candidates(const Params& params, std::vector<verbs::Candidate>& candidates,
                       std::vector<std::string>& refusals);

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_DEVICE_FILTER_H_

// Parts of the program roce_info.
#ifndef ROCE_TOOLS_ROCE_INFO_H_
#define ROCE_TOOLS_ROCE_INFO_H_

#include "transport/params.h"

namespace roce::tools {

/// Prints usable ports with their GIDs, best first, refusals with reasons, and the limits of this
/// process that matter. Returns the number of usable ports.
int print_devices(const transport::Params& params);

}  // namespace roce::tools

#endif  // ROCE_TOOLS_ROCE_INFO_H_

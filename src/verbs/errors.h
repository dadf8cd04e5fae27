// Sentences for calls that a device refused: device, call with the values asked for, errno text,
// remedy.
#ifndef ROCE_VERBS_ERRORS_H_
#define ROCE_VERBS_ERRORS_H_

#include <cstddef>
#include <string>

#include "roce/status.h"
#include "verbs/table.h"

namespace roce::verbs {

/// Code for an errno value; kDevice for what has no better one.
Code code_for(int error);

/// "Cannot allocate memory (errno 12)".
std::string errno_text(int error);

/// Name of the device a context belongs to.
std::string device_name(const Table& table, ibv_context* context);

/// "rocesw0: create_cq(100 entries) failed: Cannot allocate memory (errno 12). <remedy>". `error` 0
/// (a call that failed without setting errno) is named as such; remedy may be empty.
Status call_failed(const std::string& device, const std::string& call, int error,
                   const std::string& remedy);

/// Remedy for a refused registration: the limit that holds for the device against the bytes asked
/// for.
std::string memlock_remedy(const Table& table, size_t bytes);

}  // namespace roce::verbs

#endif  // ROCE_VERBS_ERRORS_H_

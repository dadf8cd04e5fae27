#include "verbs/errors.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace roce::verbs {

Code code_for(int error) {
  switch (error) {
    case EINVAL:
    case E2BIG:
      return Code::kInvalidArgument;
    case ENOMEM:
    case EAGAIN:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
      return Code::kOutOfResources;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
      return Code::kNotSupported;
    case ENODEV:
    case ENOENT:
    case ENXIO:
      return Code::kUnavailable;
    case ENETUNREACH:
    case EHOSTUNREACH:
      return Code::kUnreachable;
    case ETIMEDOUT:
      return Code::kTimedOut;
    default:
      return Code::kDevice;
  }
}

std::string errno_text(int error) {
  if (error == 0) return "no reason given (errno 0)";
  return std::generic_category().message(error) + " (errno " + std::to_string(error) + ")";
}

std::string device_name(const Table& table, ibv_context* context) {
  const char* name = table.get_device_name(context->device);
  return name == nullptr ? table.name : name;
}

Status call_failed(const std::string& device, const std::string& call, int error,
                   const std::string& remedy) {
  std::string text = device + ": " + call + " failed: " + errno_text(error) + ".";
  if (!remedy.empty()) text += " " + remedy;
  return {code_for(error), std::move(text)};
}

std::string memlock_remedy(const Table& table, size_t bytes) {
  if (table.is_soft) {
    return "The software device takes as many bytes as ROCE_SOFT_MEMLOCK says, of any number if it "
           "is not set, for all registrations of this process, and these " +
           std::to_string(bytes) + " bytes come on top: raise it, or register less at a time.";
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "RLIMIT_MEMLOCK is unlimited, so the device itself is out of memory or regions: "
           "register less at a time.";
  }
  return "RLIMIT_MEMLOCK is " + std::to_string(limit.rlim_cur) +
         " bytes for all registrations of " + "this process and these " + std::to_string(bytes) +
         " bytes come on top: raise it (ulimit -l unlimited; /etc/security/limits.conf; "
         "LimitMEMLOCK=infinity for a batch system's daemon).";
}

}  // namespace roce::verbs

// Status and Result: how every layer of mpi-roce reports what went wrong.
//
// A status is a code and a sentence. The sentence says who, what, which value and what to do next;
// it is meant for the person who runs the job. Nothing here throws; set-up code may convert a
// status to an exception of its own.
#ifndef ROCE_STATUS_H_
#define ROCE_STATUS_H_

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace roce {

enum class Code {
  kOk,
  kInvalidArgument,  ///< A value outside its range; the sentence names parameter, value and range.
  kUnavailable,      ///< No usable device, interface or port.
  kUnreachable,      ///< The peer exists but no path to it can be used.
  kNotSupported,     ///< The operation does not exist on this device.
  kOutOfResources,   ///< Memory, locked memory or queue space is used up for now; may be tried
                     ///< again.
  kTimedOut,         ///< A bounded wait has ended.
  kProtocol,         ///< The peer or the network sent something that is not valid.
  kDevice,           ///< The device or the kernel refused a call.
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}
  static Status ok() { return {}; }

  bool is_ok() const { return code_ == Code::kOk; }
  explicit operator bool() const { return is_ok(); }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

/// A value, or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.is_ok()); }

  bool is_ok() const { return value_.has_value(); }
  explicit operator bool() const { return is_ok(); }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const Status& status() const { return status_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace roce

#endif  // ROCE_STATUS_H_

// Fields in a row of bytes, integers little-endian: how addresses are written and read.
#ifndef ROCE_TRANSPORT_FIELD_BYTES_H_
#define ROCE_TRANSPORT_FIELD_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace roce::transport {

class Writer {
 public:
  template <typename T>
  void integer(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  void bytes(const void* data, size_t count) {
    const auto* first = static_cast<const uint8_t*>(data);
    out_.insert(out_.end(), first, first + count);
  }
  std::vector<uint8_t> finish() { return std::move(out_); }

 private:
  std::vector<uint8_t> out_;
};

/// Reads past the end give zeros and are remembered, so one test after a group of fields is enough.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> in) : in_(in) {}

  template <typename T>
  T integer() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(next()) << (8 * i);
    return static_cast<T>(value);
  }
  void bytes(void* data, size_t count) {
    auto* out = static_cast<uint8_t*>(data);
    for (size_t i = 0; i < count; ++i) out[i] = next();
  }
  bool past_end() const { return past_end_; }
  size_t position() const { return position_; }

 private:
  uint8_t next() {
    if (position_ >= in_.size()) {
      past_end_ = true;
      return 0;
    }
    return in_[position_++];
  }
  std::span<const uint8_t> in_;
  size_t position_ = 0;
  bool past_end_ = false;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_FIELD_BYTES_H_

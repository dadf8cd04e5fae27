// Memory in whole pages, as everything registered should be: a child after fork then shares no page
// of it by accident with other data.
#ifndef ROCE_TRANSPORT_PAGES_H_
#define ROCE_TRANSPORT_PAGES_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace roce::transport {

class Pages {
 public:
  Pages() = default;
  /// data() is null if there is no memory.
  explicit Pages(size_t bytes) {
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (bytes + page - 1) / page * page;
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
  }
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages() {
    if (data_ != nullptr) {
      munmap(data_, bytes_);
    }
  }

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_PAGES_H_

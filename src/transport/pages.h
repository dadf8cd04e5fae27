// Memory in whole pages, as everything registered should be: a child after fork then shares no page
// of it by accident with other data. Large blocks ask for huge pages: buffers that are used in turn
// would else cost a page fault each at first and a TLB miss each later.
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
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (bytes + page - 1) / page * page;
    const size_t slack = bytes_ >= kHugePageBytes ? kHugePageBytes - page : 0;
    void* memory =
        mmap(nullptr, bytes_ + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    data_ = static_cast<uint8_t*>(memory);
    if (slack != 0) align(slack);
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

  /// Takes the page faults now, in one call; where the kernel cannot (before 5.14), at first use.
  void populate() {
#ifdef MADV_POPULATE_WRITE
    (void)madvise(data_, bytes_, MADV_POPULATE_WRITE);
#endif
  }

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kHugePageBytes = 2 << 20;

  /// Cuts the block out of one that is longer by `slack`.
  void align(size_t slack) {
    const size_t offset = -reinterpret_cast<uintptr_t>(data_) % kHugePageBytes;
    if (offset != 0) munmap(data_, offset);
    data_ += offset;
    if (offset != slack) munmap(data_ + bytes_, slack - offset);
    // Where there are none, small ones do.
    (void)madvise(data_, bytes_, MADV_HUGEPAGE);
  }

  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_PAGES_H_

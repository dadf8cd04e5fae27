// Message buffers in registered memory, in two sizes. Slabs of whole pages are mapped and
// registered as they are needed and kept until close, so that acquire and release are a pop and a
// push on a free list.
#ifndef ROCE_TRANSPORT_FRAGMENT_POOL_H_
#define ROCE_TRANSPORT_FRAGMENT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "roce/status.h"
#include "roce/transport.h"
#include "transport/spinlock.h"

namespace roce::transport {

/// How the pool gets its memory registered on every rail.
struct Registrar {
  std::function<Status(void* base, size_t bytes, Registration* out)> add;
  std::function<void(Registration*)> remove;
};

class FragmentPool {
 public:
  static constexpr size_t kSmallBytes = 4096;
  /// The transport's header lies before the data, which begins on a cache line.
  static constexpr size_t kHeaderRoom = 64;

  FragmentPool(size_t max_message_bytes, size_t adapter_bytes, Registrar registrar);
  ~FragmentPool();

  /// Null if bytes exceed the largest size or no memory can be registered.
  Fragment* acquire(size_t bytes);
  void release(Fragment* fragment);

  /// Registration of the slab that holds the fragment.
  static const Registration& registration(const Fragment* fragment);
  size_t slabs() const { return slabs_.size(); }

 private:
  struct SizeClass;
  struct Slab;
  bool grow(SizeClass& size_class);

  size_t adapter_bytes_;
  Registrar registrar_;
  std::mutex grow_mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::vector<std::unique_ptr<SizeClass>> classes_;  ///< By size.
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_FRAGMENT_POOL_H_

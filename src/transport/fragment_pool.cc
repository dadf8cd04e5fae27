#include "transport/fragment_pool.h"

#include <algorithm>

#include "transport/pages.h"

namespace roce::transport {

struct FragmentPool::SizeClass {
  size_t capacity = 0;
  size_t next_count = 0;  ///< Fragments of the next slab.
  SpinLock lock;
  Fragment* free = nullptr;
};

struct FragmentPool::Slab {
  SizeClass* size_class = nullptr;
  Pages memory;
  Registration registration;
  std::vector<Fragment> fragments;
  Pages adapter_room;
};

namespace {

constexpr size_t kFirstSlabBytes = 256 << 10, kMaxSlabBytes = 4 << 20;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

FragmentPool::FragmentPool(size_t max_message_bytes, size_t adapter_bytes, Registrar registrar)
    : adapter_bytes_(round_up(adapter_bytes, 16)), registrar_(std::move(registrar)) {
  for (size_t capacity : {std::min(kSmallBytes, max_message_bytes), max_message_bytes}) {
    if (!classes_.empty() && classes_.back()->capacity >= capacity) {
      continue;
    }
    classes_.push_back(std::make_unique<SizeClass>());
    classes_.back()->capacity = capacity;
    classes_.back()->next_count =
        std::max<size_t>(4, kFirstSlabBytes / (kHeaderRoom + round_up(capacity, 64)));
  }
}

FragmentPool::~FragmentPool() {
  for (auto& slab : slabs_) {
    registrar_.remove(&slab->registration);
  }
}

Fragment* FragmentPool::acquire(size_t bytes) {
  for (auto& size_class : classes_) {
    if (bytes > size_class->capacity) {
      continue;
    }
    do {
      size_class->lock.lock();
      Fragment* fragment = size_class->free;
      if (fragment != nullptr) [[likely]] {
        size_class->free = fragment->next;
        size_class->lock.unlock();
        fragment->next = nullptr;
        return fragment;
      }
      size_class->lock.unlock();
    } while (grow(*size_class));
    return nullptr;
  }
  return nullptr;
}

void FragmentPool::release(Fragment* fragment) {
  SizeClass* size_class = static_cast<Slab*>(fragment->owner)->size_class;
  size_class->lock.lock();
  fragment->next = size_class->free;
  size_class->free = fragment;
  size_class->lock.unlock();
}

const Registration& FragmentPool::registration(const Fragment* fragment) {
  return static_cast<Slab*>(fragment->owner)->registration;
}

bool FragmentPool::grow(SizeClass& size_class) {
  std::lock_guard guard(grow_mutex_);
  size_class.lock.lock();
  bool grown_meanwhile = size_class.free != nullptr;
  size_class.lock.unlock();
  if (grown_meanwhile) {
    return true;
  }
  size_t stride = kHeaderRoom + round_up(size_class.capacity, 64);
  size_t count = size_class.next_count;
  auto slab = std::make_unique<Slab>();
  slab->size_class = &size_class;
  slab->memory = Pages(count * stride);
  slab->adapter_room = Pages(std::max<size_t>(1, count * adapter_bytes_));
  if (slab->memory.data() == nullptr || slab->adapter_room.data() == nullptr ||
      !registrar_.add(slab->memory.data(), slab->memory.bytes(), &slab->registration)) {
    return false;
  }
  slab->fragments.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Fragment& fragment = slab->fragments[i];
    fragment.data = slab->memory.data() + i * stride + kHeaderRoom;
    fragment.capacity = static_cast<uint32_t>(size_class.capacity);
    fragment.adapter = slab->adapter_room.data() + i * adapter_bytes_;
    fragment.owner = slab.get();
    fragment.next = i + 1 < count ? &slab->fragments[i + 1] : nullptr;
  }
  size_class.lock.lock();
  slab->fragments.back().next = size_class.free;  // others may have released some
  size_class.free = slab->fragments.data();
  size_class.lock.unlock();
  if (2 * count * stride <= kMaxSlabBytes) {
    size_class.next_count = 2 * count;
  }
  slabs_.push_back(std::move(slab));
  return true;
}

}  // namespace roce::transport

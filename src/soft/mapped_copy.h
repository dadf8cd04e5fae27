// Copies from and to memory that the program may have unmapped, which NICs survive as they hold the
// pages. Each costs a system call, so they are for what is rare.
#ifndef ROCE_SOFT_MAPPED_COPY_H_
#define ROCE_SOFT_MAPPED_COPY_H_

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace roce::soft {

/// False if not all of [to, to + bytes) is mapped and writable.
inline bool write_if_mapped(void* to, const void* from, size_t bytes) {
  const iovec source = {const_cast<void*>(from), bytes}, target = {to, bytes};
  const ssize_t done = process_vm_writev(getpid(), &source, 1, &target, 1, 0);
  if (done < 0 && errno != EFAULT) {
    std::memcpy(to, from, bytes);  // The call is forbidden here.
    return true;
  }
  return done == static_cast<ssize_t>(bytes);
}

/// False if not all of [from, from + bytes) is mapped and readable.
inline bool read_if_mapped(void* to, const void* from, size_t bytes) {
  const iovec target = {to, bytes}, source = {const_cast<void*>(from), bytes};
  const ssize_t done = process_vm_readv(getpid(), &target, 1, &source, 1, 0);
  if (done < 0 && errno != EFAULT) {
    std::memcpy(to, from, bytes);
    return true;
  }
  return done == static_cast<ssize_t>(bytes);
}

}  // namespace roce::soft

#endif  // ROCE_SOFT_MAPPED_COPY_H_

#include "soft/event_fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>

namespace roce::soft {

int open_event_fd() { return eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE); }

void post_event_fd(int fd) {
  const uint64_t one = 1;
  // The counter holds 2^64 - 2 events, so this cannot block; a failure means that the descriptor is
  // gone.
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

bool take_event_fd(int fd) {
  uint64_t value = 0;
  return read(fd, &value, sizeof value) == sizeof value;
}

bool try_take_event_fd(int fd) {
  uint64_t value = 0;
  iovec part = {&value, sizeof value};
  return preadv2(fd, &part, 1, -1, RWF_NOWAIT) == sizeof value;
}

bool is_blocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

void close_descriptor(int fd) {
  if (fd >= 0) close(fd);
}

}  // namespace roce::soft

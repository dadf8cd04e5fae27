// File descriptors that count: what makes completion channels and asynchronous events usable with
// poll() and epoll.
#ifndef ROCE_SOFT_EVENT_FD_H_
#define ROCE_SOFT_EVENT_FD_H_

namespace roce::soft {

/// Semaphore eventfd, blocking, close-on-exec; -1 with errno.
int open_event_fd();
/// Adds one; never blocks.
void post_event_fd(int fd);
/// Takes one. False with errno as read() gives it: EAGAIN if the program made the descriptor
/// non-blocking, EINTR.
bool take_event_fd(int fd);
/// Takes one if there is any, without blocking whatever the descriptor's mode.
bool try_take_event_fd(int fd);
/// Whether taking one would block if there is none: the program may have changed the mode.
bool is_blocking(int fd);
/// close(); negative descriptors are ignored.
void close_descriptor(int fd);

}  // namespace roce::soft

#endif  // ROCE_SOFT_EVENT_FD_H_

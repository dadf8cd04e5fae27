// Two processes with a device each.
//
// The parent never calls the device: each side of a test is a child that starts afresh.
#ifndef ROCE_TESTS_SOFT_TWO_PROCESSES_H_
#define ROCE_TESTS_SOFT_TWO_PROCESSES_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "rig.h"

namespace roce::soft::test {

inline constexpr double kLimitSeconds = 30;

struct Channel {
  int in = -1, out = -1;
  template <typename T>
  void put(const T& value) const {
    if (write(out, &value, sizeof value) != sizeof value) _exit(90);
  }
  template <typename T>
  T get() const {
    T value{};
    pollfd fd = {in, POLLIN, 0};
    if (poll(&fd, 1, static_cast<int>(kLimitSeconds * 1000)) != 1) _exit(91);
    if (read(in, &value, sizeof value) != sizeof value) _exit(92);
    return value;
  }
};

#define CHILD_CHECK(condition)                                             \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::fflush(stderr);                                                 \
      _exit(80);                                                           \
    }                                                                      \
  } while (0)

using Side = std::function<void(const Channel&)>;

inline pid_t start(const Side& side, const Channel& channel) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(static_cast<unsigned>(kLimitSeconds) + 10);
    side(channel);
    // exit, not _exit: the library's destructor is part of what is tested.
    exit(0);
  }
  return child;
}

inline int finish(pid_t child) {
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (seconds_since(begin) > kLimitSeconds + 5) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    usleep(500);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// Runs both sides in processes of their own, joined by pipes.
inline void run_two(const Side& first, const Side& second) {
  int forth[2], back[2];
  ASSERT_EQ(pipe(forth), 0);
  ASSERT_EQ(pipe(back), 0);
  const pid_t a = start(first, {back[0], forth[1]});
  const pid_t b = start(second, {forth[0], back[1]});
  EXPECT_EQ(finish(a), 0);
  EXPECT_EQ(finish(b), 0);
  for (const int fd : {forth[0], forth[1], back[0], back[1]}) close(fd);
}

inline void connect_over(Rig& rig, const Channel& channel) {
  channel.put(rig.name());
  rig.connect(channel.get<Name>());
  // Both sides are ready before either sends.
  channel.put(char{1});
  channel.get<char>();
}

}  // namespace roce::soft::test

#endif  // ROCE_TESTS_SOFT_TWO_PROCESSES_H_

// The character device of a verbs device, for programs that look for it.
//
// UCX takes a device only if /dev/infiniband/DEV_NAME (ibv_device.dev_name) is a character device
// that it may read and write; it never opens it. A soft device has none, so the calls that ask
// about a path answer for these names and pass every other path on.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>

#include "preload/next.h"

namespace soft = roce::soft;

// Before glibc 2.33 stat() and its like were inlines around these; programs built then call them.
ROCE_EXPORT int __xstat(int version, const char* path, struct stat* answer);
ROCE_EXPORT int __xstat64(int version, const char* path, struct stat64* answer);
ROCE_EXPORT int __lxstat(int version, const char* path, struct stat* answer);
ROCE_EXPORT int __lxstat64(int version, const char* path, struct stat64* answer);
ROCE_EXPORT int __fxstatat(int version, int directory, const char* path, struct stat* answer,
                           int flags);
ROCE_EXPORT int __fxstatat64(int version, int directory, const char* path, struct stat64* answer,
                             int flags);

namespace {

/// Number of the soft device whose character device has this path, or -1. Other paths cost one
/// comparison: these calls may come at any time, from signal handlers too.
int soft_device(const char* path) {
  static constexpr char kFolder[] = "/dev/infiniband/";
  static constexpr char kName[] = "rocesw";
  constexpr size_t kFolderLength = sizeof kFolder - 1;
  if (std::strncmp(path, kFolder, kFolderLength) != 0) return -1;
  const char* name = path + kFolderLength;
  if (std::strncmp(name, kName, sizeof kName - 1) != 0) return -1;
  int count = 0;
  ibv_device** devices = soft::get_device_list(&count);
  int number = -1;
  for (int i = 0; i < count && number < 0; ++i) {
    if (std::strcmp(devices[i]->dev_name, name) == 0) number = i;
  }
  soft::free_device_list(devices);
  return number;
}

/// As the kernel's device nodes of verbs: major 231, minors from 192, open to all.
template <typename Stat>
bool answered(const char* path, Stat* answer) {
  const int number = soft_device(path);
  if (number < 0) return false;
  *answer = Stat{};
  answer->st_mode = S_IFCHR | 0666;
  answer->st_nlink = 1;
  answer->st_rdev = makedev(231, 192 + static_cast<unsigned>(number));
  return true;
}

/// Outcome of access(): the node can be read and written, not executed.
int allowed(int mode) {
  if ((mode & X_OK) == 0) return 0;
  errno = EACCES;
  return -1;
}

}  // namespace

ROCE_EXPORT int stat(const char* path, struct stat* answer) noexcept {
  return answered(path, answer) ? 0 : ROCE_NEXT(stat)(path, answer);
}

ROCE_EXPORT int stat64(const char* path, struct stat64* answer) noexcept {
  return answered(path, answer) ? 0 : ROCE_NEXT(stat64)(path, answer);
}

ROCE_EXPORT int lstat(const char* path, struct stat* answer) noexcept {
  return answered(path, answer) ? 0 : ROCE_NEXT(lstat)(path, answer);
}

ROCE_EXPORT int lstat64(const char* path, struct stat64* answer) noexcept {
  return answered(path, answer) ? 0 : ROCE_NEXT(lstat64)(path, answer);
}

ROCE_EXPORT int fstatat(int directory, const char* path, struct stat* answer, int flags) noexcept {
  return answered(path, answer) ? 0 : ROCE_NEXT(fstatat)(directory, path, answer, flags);
}

ROCE_EXPORT int fstatat64(int directory, const char* path, struct stat64* answer,
                          int flags) noexcept {
  return answered(path, answer) ? 0 : ROCE_NEXT(fstatat64)(directory, path, answer, flags);
}

int __xstat(int version, const char* path, struct stat* answer) {
  return answered(path, answer) ? 0 : ROCE_NEXT(__xstat)(version, path, answer);
}

int __xstat64(int version, const char* path, struct stat64* answer) {
  return answered(path, answer) ? 0 : ROCE_NEXT(__xstat64)(version, path, answer);
}

int __lxstat(int version, const char* path, struct stat* answer) {
  return answered(path, answer) ? 0 : ROCE_NEXT(__lxstat)(version, path, answer);
}

int __lxstat64(int version, const char* path, struct stat64* answer) {
  return answered(path, answer) ? 0 : ROCE_NEXT(__lxstat64)(version, path, answer);
}

int __fxstatat(int version, int directory, const char* path, struct stat* answer, int flags) {
  return answered(path, answer) ? 0
                                : ROCE_NEXT(__fxstatat)(version, directory, path, answer, flags);
}

int __fxstatat64(int version, int directory, const char* path, struct stat64* answer, int flags) {
  return answered(path, answer) ? 0
                                : ROCE_NEXT(__fxstatat64)(version, directory, path, answer, flags);
}

ROCE_EXPORT int access(const char* path, int mode) noexcept {
  return soft_device(path) >= 0 ? allowed(mode) : ROCE_NEXT(access)(path, mode);
}

ROCE_EXPORT int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  return soft_device(path) >= 0 ? allowed(mode)
                                : ROCE_NEXT(faccessat)(directory, path, mode, flags);
}

ROCE_EXPORT int euidaccess(const char* path, int mode) noexcept {
  return soft_device(path) >= 0 ? allowed(mode) : ROCE_NEXT(euidaccess)(path, mode);
}

ROCE_EXPORT int eaccess(const char* path, int mode) noexcept {
  return soft_device(path) >= 0 ? allowed(mode) : ROCE_NEXT(eaccess)(path, mode);
}

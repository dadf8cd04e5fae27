// Where the functions are that ours stand in front of.
#include "preload/next.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace roce::preload {

void* find_next(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  // A program that loads libibverbs by itself may keep it out of the global scope.
  if (function == nullptr) {
    void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) function = dlsym(library, name);
  }
  if (function == nullptr) {
    std::fprintf(stderr, "mpi-roce: neither libibverbs.so.1 nor the C library has %s: %s\n", name,
                 dlerror());
    std::abort();
  }
  return function;
}

}  // namespace roce::preload

// Protection domains and memory regions.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "soft/process.h"

namespace roce::soft {
namespace {

constexpr int kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                             IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;
constexpr int kNeedsLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kEngineAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Whether the whole range is mapped, as a NIC would find out when it pins it: msync(MS_ASYNC) does
/// nothing else on Linux.
bool is_mapped(const void* address, size_t length) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(address) & ~(page - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(address) + length;
  return msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0 || errno != ENOMEM;
}

int check_region(const void* address, size_t length, uint64_t iova, int access) {
  if ((access & ~kKnownAccess & ~static_cast<int>(IBV_ACCESS_OPTIONAL_RANGE)) != 0) {
    return EOPNOTSUPP;
  }
  if ((access & kNeedsLocalWrite) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  const auto start = reinterpret_cast<uintptr_t>(address);
  if (length > UINTPTR_MAX - start || length > UINT64_MAX - iova) return EINVAL;
  return length == 0 || is_mapped(address, length) ? 0 : EFAULT;
}

/// What a change makes of a region.
struct Change {
  uint8_t* address;
  size_t length;
  uint64_t iova;
  int access;
};

Change changed(const Region& region, int flags, void* address, size_t length, int access) {
  Change to{region.address, region.length, region.iova, static_cast<int>(region.access)};
  const bool was_zero_based = region.iova == 0;
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) to.access = access;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    const bool zero_based = was_zero_based || (to.access & IBV_ACCESS_ZERO_BASED) != 0;
    to.address = static_cast<uint8_t*>(address);
    to.length = length;
    to.iova = zero_based ? 0 : reinterpret_cast<uintptr_t>(address);
  }
  return to;
}

/// 0 or EINVAL: values that the flags do not go with.
int check_flags(const ibv_mr& mr, int flags, const ibv_pd* pd, const void* address, size_t length,
                int access) {
  const auto given = [flags](int bit) { return (flags & bit) != 0; };
  const int known =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  const bool bad =
      flags == 0 || given(~known) ||
      (given(IBV_REREG_MR_CHANGE_TRANSLATION) && (address == nullptr || length == 0)) ||
      (given(IBV_REREG_MR_CHANGE_PD) && (pd == nullptr || pd->context != mr.context)) ||
      (access != 0 && !given(IBV_REREG_MR_CHANGE_ACCESS));
  return bad ? EINVAL : 0;
}

}  // namespace

ibv_pd* alloc_pd(ibv_context* context) {
  Process* process = Process::usable();
  if (process == nullptr) return nullptr;
  std::unique_ptr<Pd> pd(new (std::nothrow) Pd());
  if (pd != nullptr) {
    pd->context = context;
    pd->access.reset(new (std::nothrow) RegionAccess(process->memory(), pd.get()));
  }
  if (pd == nullptr || pd->access == nullptr ||
      !context_of(context)->device_state->domains.take()) {
    errno = ENOMEM;
    return nullptr;
  }
  context_of(context)->users.fetch_add(1);
  return pd.release();
}

int dealloc_pd(ibv_pd* verbs) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  Pd* pd = pd_of(verbs);
  if (pd->users.load() != 0) return EBUSY;
  context_of(pd->context)->users.fetch_sub(1);
  context_of(pd->context)->device_state->domains.give();
  if (!pd->retired_handles.empty()) {
    const ProgressLock guard(*process);
    for (const auto& ah : pd->retired_handles) forget_routes(*process->udp(), *ah);
  }
  delete pd;
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  const uint64_t iova =
      (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : reinterpret_cast<uintptr_t>(address);
  return reg_mr_iova(pd, address, length, iova, access);
}

ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  Process* process = Process::usable();
  if (process == nullptr) return nullptr;
  const int error = check_region(address, length, iova, access);
  std::unique_ptr<Mr> mr(error == 0 ? new (std::nothrow) Mr() : nullptr);
  if (mr == nullptr) {
    errno = error != 0 ? error : ENOMEM;
    return nullptr;
  }
  Region& region = mr->region;
  region.pd = pd_of(pd);
  region.address = static_cast<uint8_t*>(address);
  region.iova = iova;
  region.length = length;
  region.access = static_cast<unsigned>(access & kEngineAccess);
  {
    const ProgressLock guard(*process);
    if (!process->memory().insert(region)) {
      errno = ENOMEM;
      return nullptr;
    }
  }
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->lkey = mr->rkey = region.key;
  pd_of(pd)->users.fetch_add(1);
  return mr.release();
}

int rereg_mr(ibv_mr* verbs, int flags, ibv_pd* pd, void* address, size_t length, int access) {
  Process* process = Process::usable();
  if (process == nullptr) return IBV_REREG_MR_ERR_INPUT;
  Region& region = mr_of(verbs)->region;
  const Change to = changed(region, flags, address, length, access);
  int error = check_flags(*verbs, flags, pd, address, length, access);
  if (error == 0) error = check_region(to.address, to.length, to.iova, to.access);
  if (error != 0) {
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
  }
  // Work requests find regions by key under the same lock, so each sees the old or the new one.
  const ProgressLock guard(*process);
  if (!process->memory().resize(region, to.length)) {
    errno = ENOMEM;
    return IBV_REREG_MR_ERR_INPUT;
  }
  region.address = to.address;
  region.iova = to.iova;
  region.access = static_cast<unsigned>(to.access & kEngineAccess);
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    pd_of(pd)->users.fetch_add(1);
    pd_of(verbs->pd)->users.fetch_sub(1);
    region.pd = pd_of(pd);
    verbs->pd = pd;
  }
  verbs->addr = to.address;
  verbs->length = to.length;
  return 0;
}

int dereg_mr(ibv_mr* verbs) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  const std::unique_ptr<Mr> mr(mr_of(verbs));
  {
    const ProgressLock guard(*process);
    process->memory().erase(mr->region);
  }
  pd_of(mr->pd)->users.fetch_sub(1);
  return 0;
}

}  // namespace roce::soft

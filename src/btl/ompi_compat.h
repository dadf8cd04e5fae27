// Open MPI as seen by the component: the only file that includes its headers, and the only one that
// knows what differs between release series (4.1: BTL 3.1.0; 5.0 and later: BTL 3.3.0).
//
// Some of Open MPI's headers lack extern "C", so all are included inside one such block, after
// every C++ header that they might pull in: otherwise functions would be declared with mangled
// names.
#ifndef ROCE_BTL_OMPI_COMPAT_H_
#define ROCE_BTL_OMPI_COMPAT_H_

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "roce/transport.h"

extern "C" {
#include <opal_config.h>
#if OPAL_MAJOR_VERSION >= 5
#include <opal/util/event.h>
// This header opens a linkage block twice and closes it once (5.0.0 to 5.0.10 and later).
#ifndef ROCE_OMPI_EVENT_HEADER_BALANCED
}
#endif
#include <opal/mca/pmix/pmix-internal.h>
#include <opal/mca/threads/mutex.h>
#else
#include <opal/mca/pmix/pmix.h>
#include <opal/threads/mutex.h>
#endif
#include <opal/constants.h>
#include <opal/datatype/opal_convertor.h>
#include <opal/mca/base/mca_base_var.h>
#include <opal/mca/btl/base/base.h>
#include <opal/mca/btl/btl.h>
#include <opal/mca/rcache/base/base.h>
#include <opal/mca/rcache/rcache.h>
#include <opal/util/output.h>
#include <opal/util/proc.h>
#include <opal/util/show_help.h>

/// In libopen-pal; no installed header declares it.
extern const char opal_version_string[];
}

namespace roce::btl {

inline constexpr uint32_t kAtomicFlags = MCA_BTL_FLAGS_ATOMIC_FOPS;

/// osc/rdma looks for this bit of the atomic flags in btl_flags (4.1.0 to 5.0.10), where it has no
/// other meaning: processes of one host then use the CPU's atomics on shared window state.
inline constexpr uint32_t kGlobalAtomicsFlag = MCA_BTL_ATOMIC_SUPPORTS_GLOB;

#if BTL_VERSION >= 330
inline constexpr uint32_t kExtraFlags = MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION;
/// ob1 fails the request and goes on; survivors may use other peers.
inline constexpr bool kDeliverSendErrors = true;
/// With fault tolerance, nobody prints the text of the error callback.
inline constexpr bool kErrorCallbackPrints = false;
#else
inline constexpr uint32_t kExtraFlags = 0;
/// ob1 aborts on any failed send, without a word about why. The error callback says it better.
inline constexpr bool kDeliverSendErrors = false;
inline constexpr bool kErrorCallbackPrints = true;
#endif

/// Hands a received message to whom the tag belongs to; false if to nobody.
inline bool deliver(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* from, uint8_t tag,
                    uint8_t* data, uint32_t bytes) {
  if (tag >= MCA_BTL_TAG_MAX) return false;
  const mca_btl_active_message_callback_t& receiver = mca_btl_base_active_message_trigger[tag];
  if (receiver.cbfunc == nullptr) return false;
  mca_btl_base_segment_t segment = {};
  segment.seg_addr.pval = data;
  segment.seg_len = bytes;
#if BTL_VERSION >= 330
  const mca_btl_base_receive_descriptor_t descriptor = {.endpoint = from,
                                                        .des_segments = &segment,
                                                        .des_segment_count = 1,
                                                        .tag = tag,
                                                        .cbdata = receiver.cbdata};
  receiver.cbfunc(btl, &descriptor);
#else
  (void)from;
  mca_btl_base_descriptor_t descriptor = {};
  descriptor.des_segments = &segment;
  descriptor.des_segment_count = 1;
  receiver.cbfunc(btl, tag, &descriptor, receiver.cbdata);
#endif
  return true;
}

/// Publishes the address blob under the component's name.
inline int publish_address(const mca_base_component_t& component, std::span<const uint8_t> blob) {
  int rc = OPAL_ERROR;
#if BTL_VERSION >= 330
  OPAL_MODEX_SEND(rc, PMIX_GLOBAL, &component, const_cast<uint8_t*>(blob.data()), blob.size());
#else
  OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, &component, const_cast<uint8_t*>(blob.data()), blob.size());
#endif
  return rc;
}

/// What a peer published under the component's name; empty if nothing. May wait for the runtime.
inline std::vector<uint8_t> fetch_address(const mca_base_component_t& component,
                                          const opal_proc_t& proc) {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  int rc = OPAL_ERROR;
  OPAL_MODEX_RECV(rc, &component, &proc.proc_name, &data, &bytes);
  std::vector<uint8_t> blob;
  if (rc == OPAL_SUCCESS && data != nullptr) blob.assign(data, data + bytes);
  std::free(data);
  return blob;
}

inline std::string peer_host_name(const opal_proc_t& proc) {
#if BTL_VERSION >= 330
  char* name = opal_get_proc_hostname(&proc);
  std::string host = name != nullptr ? name : "unknown";
  std::free(name);
  return host;
#else
  const char* name = opal_get_proc_hostname(&proc);
  return name != nullptr ? name : "unknown";
#endif
}

inline std::string own_host_name() {
  return opal_process_info.nodename != nullptr ? opal_process_info.nodename : "localhost";
}

inline transport::ProcessName process_name(const opal_process_name_t& name) {
  return {name.jobid, name.vpid};
}

/// Equal in all processes that may connect to each other. The upper half of a job id names the
/// run of mpirun; a spawned job has the same upper half.
inline uint64_t job_cookie(const opal_process_name_t& name) {
  constexpr uint64_t kMark = 0x726F636500000000;
  return kMark | (name.jobid >> 16);
}

/// Ends the job without a PML that could do it.
[[noreturn]] inline void abort_job(const std::string& text) {
#if BTL_VERSION >= 330
  PMIx_Abort(1, text.c_str(), nullptr, 0);
#else
  if (opal_pmix.abort != nullptr) opal_pmix.abort(1, text.c_str(), nullptr);
#endif
  std::_Exit(1);
}

/// The text for an error callback: 4.1 uses it as a format.
inline std::string error_callback_text(const std::string& text) {
#if BTL_VERSION >= 330
  return text;
#else
  std::string escaped;
  for (char c : text) escaped.append(c == '%' ? 2 : 1, c);
  return escaped;
#endif
}

}  // namespace roce::btl

#endif  // ROCE_BTL_OMPI_COMPAT_H_

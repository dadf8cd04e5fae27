// What a device says it can do.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "soft/process.h"

namespace roce::soft {
namespace {

/// As the kernel's software device does: no organisation has this number, and programs take 0 for
/// an error.
constexpr uint32_t kNoVendor = 0xFFFFFF;

}  // namespace

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  Device& device = *context_of(context)->device_state;
  *attributes = ibv_device_attr{};
  std::snprintf(attributes->fw_ver, sizeof attributes->fw_ver, "mpi-roce 0.1");
  attributes->node_guid = attributes->sys_image_guid = device.guid;
  attributes->vendor_id = kNoVendor;
  attributes->max_mr_size = UINT64_MAX;
  attributes->page_size_cap = 0xFFFFF000;
  attributes->max_qp = static_cast<int>(kMaxQueuePairs);
  attributes->max_qp_wr = static_cast<int>(kMaxWorkRequests);
  attributes->device_cap_flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN |
                                 IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID;
  attributes->max_sge = attributes->max_sge_rd = static_cast<int>(kMaxSge);
  attributes->max_cq = kMaxCompletionQueues;
  attributes->max_cqe = static_cast<int>(kMaxCqEntries);
  attributes->max_mr = static_cast<int>(kMaxRegions);
  attributes->max_pd = kMaxDomains;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = kMaxRdAtomicAttribute;
  attributes->max_res_rd_atom = static_cast<int>(kMaxQueuePairs) * kMaxRdAtomicAttribute;
  // They are atomic against the program's own instructions too (IBV_ATOMIC_GLOB), but programs that
  // know NICs, UCX 1.13 among them, look for the weaker promise only; pci_atomic_caps tells the
  // rest.
  attributes->atomic_cap = IBV_ATOMIC_HCA;
  attributes->max_ah = kMaxAddressHandles;
  attributes->max_srq = kMaxSharedReceiveQueues;
  attributes->max_srq_wr = static_cast<int>(kMaxWorkRequests);
  attributes->max_srq_sge = static_cast<int>(kMaxSge);
  attributes->max_pkeys = 1;
  attributes->local_ca_ack_delay = 15;
  attributes->phys_port_cnt = 1;
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  std::memset(attributes, 0, sizeof *attributes);
  const int error = query_device(context, &attributes->orig_attr);
  if (error != 0) return error;
  attributes->device_cap_flags_ex = attributes->orig_attr.device_cap_flags;
  // Completion timestamps and query_rt_values are 64-bit nanoseconds of CLOCK_MONOTONIC.
  attributes->completion_timestamp_mask = UINT64_MAX;
  attributes->hca_core_clock = 1'000'000;  // kHz
  attributes->pci_atomic_caps.fetch_add = attributes->pci_atomic_caps.compare_swap =
      IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
  attributes->phys_port_cnt_ex = 1;
  return 0;
}

}  // namespace roce::soft

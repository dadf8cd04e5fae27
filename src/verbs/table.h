// The verbs control calls as one table of function pointers with two instances: libibverbs and the
// software device.
//
// src/verbs holds what is common to all RDMA devices: this table, RAII objects on it (objects.h),
// discovery and the choice of GIDs (discovery.h, gid.h). Invariants:
// - it is the only code with undefined ibv_* symbols; above it a control call goes through a Table,
// a data-path call (ibv_post_send,
//   ibv_poll_cq, ibv_req_notify_cq...) through the inlines of verbs.h;
// - no entry of a table is null: what a device cannot do answers EOPNOTSUPP;
// - an object made through one table is only ever given back to that table.
#ifndef ROCE_VERBS_TABLE_H_
#define ROCE_VERBS_TABLE_H_

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "soft/soft.h"

namespace roce::verbs {

/// What a process tells its peers about a device, and what it was told about a peer. A device of
/// libibverbs: port 4791, no capabilities.
using PeerHints = soft::PeerHints;

/// Each entry has the meaning, return value and errno of the ibv_ function of the same name, unless
/// a comment says otherwise.
struct Table {
  const char* name;  ///< "soft" or "libibverbs": for messages.
  bool is_soft;  ///< For messages and for the address blob; nothing above src/verbs branches on it.

  ibv_device** (*get_device_list)(int* num_devices);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  int (*query_device_ex)(ibv_context* context, const ibv_query_device_ex_input* input,
                         ibv_device_attr_ex* attributes);
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attributes);
  int (*query_gid)(ibv_context* context, uint8_t port, int index, ibv_gid* gid);
  /// Number of entries, or a negative errno. entry_size: sizeof(ibv_gid_entry).
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                             uint32_t flags, size_t entry_size);
  int (*query_pkey)(ibv_context* context, uint8_t port, int index, uint16_t* pkey);

  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, size_t length, int access);
  int (*dereg_mr)(ibv_mr* mr);

  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
  void (*ack_cq_events)(ibv_cq* cq, unsigned count);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* cq_context,
                       ibv_comp_channel* channel, int vector);
  int (*resize_cq)(ibv_cq* cq, int entries);
  int (*destroy_cq)(ibv_cq* cq);

  ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attributes);
  int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
  int (*query_srq)(ibv_srq* srq, ibv_srq_attr* attributes);
  int (*destroy_srq)(ibv_srq* srq);

  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init_attributes);
  int (*destroy_qp)(ibv_qp* qp);

  ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attributes);
  int (*init_ah_from_wc)(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                         ibv_ah_attr* attributes);
  int (*destroy_ah)(ibv_ah* ah);

  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);

  int (*fork_init)();
  const char* (*event_type_str)(ibv_event_type event);
  const char* (*wc_status_str)(ibv_wc_status status);

  // What verbs have no call for. libibverbs: hints as above, set_peer_hints and interfaces_left_out
  // do nothing, describe_qp and counters_text give an empty text.
  int (*device_hints)(ibv_context* context, PeerHints* hints);
  /// To be called in INIT, before RTR.
  int (*set_peer_hints)(ibv_qp* qp, const PeerHints* hints);
  /// Appends a sentence for each network interface that could have been a device and is not.
  void (*interfaces_left_out)(std::vector<std::string>* sentences);
  /// Text about a queue pair's trouble for error messages; length as snprintf.
  int (*describe_qp)(ibv_qp* qp, char* text, size_t bytes);
  /// Device counters of this process, "name value" lines; length as snprintf.
  int (*counters_text)(char* text, size_t bytes);
};

const Table& system_table();
const Table& soft_table();

}  // namespace roce::verbs

#endif  // ROCE_VERBS_TABLE_H_

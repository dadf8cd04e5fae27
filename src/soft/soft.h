// The software RoCE v2 device as verbs calls.
//
// src/soft puts a real ibv_context, with its objects and operation tables, on top of src/engine:
// sockets, copies, ICRC, the service thread. Invariants:
// - each function has the name, signature, return value and errno of the ibv_ call of the same
// name; nothing here needs libibverbs at link time;
// - objects made here must never reach libibverbs, nor objects of libibverbs come here;
// - one receive socket and one progress lock per process serve all devices; nothing needs root or a
// capability;
// - data-path calls are reached through ibv_context.ops (ibv_post_send, ibv_poll_cq... are inlines
// of verbs.h).
#ifndef ROCE_SOFT_SOFT_H_
#define ROCE_SOFT_SOFT_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace roce::soft {

/// What ROCE_SOFT_IF_INCLUDE, ROCE_SOFT_IF_EXCLUDE, ROCE_SOFT_FIRST_SLOT, ROCE_SOFT_RECEIVE_BUFFER
/// and ROCE_SOFT_MEMLOCK set.
struct Options {
  std::string interface_include;  ///< Comma list of interface names or ADDRESS/PREFIX; not empty:
                                  ///< only these are used.
  std::string
      interface_exclude;  ///< The same; these are not used. Ignored if interface_include is set.
  int first_slot = 0;     ///< 0..511: the first UDP port tried is 4791 + first_slot.
  /// SO_RCVBUF asked for, at most 1 GiB: the device then works as where net.core.rmem_max is this
  /// small. 0: all that the kernel gives. (The kernel counts its own overhead and doubles it.)
  uint32_t receive_buffer_bytes = 0;
  /// Most memory that the process may have registered, in pages of 4 KiB counted once per region:
  /// as where RLIMIT_MEMLOCK bounds what a NIC pins. This device pins nothing; 0: no limit.
  uint64_t memlock_bytes = 0;
};
/// Of the environment. A value out of range is reported on stderr once and its default used.
Options options_from_environment();
/// Replaces the environment's settings; without effect once the first device list was made.
void configure(const Options& options);

/// True for what this library made. Of another library's object only the public structure is read.
bool owns(const ibv_context* context);
bool owns(const ibv_device* device);

ibv_device** get_device_list(int* num_devices);  ///< rocesw0, rocesw1...: one per usable interface,
                                                 ///< loopback included; errno says why none.
void free_device_list(ibv_device** list);
const char* get_device_name(ibv_device* device);
uint64_t get_device_guid(ibv_device* device);  ///< Network byte order, as ibv_get_device_guid.
ibv_context* open_device(ibv_device* device);
int close_device(ibv_context* context);
int query_device(ibv_context* context, ibv_device_attr* attributes);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes);
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes);
int query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid);
ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                        uint32_t flags, size_t entry_size);
/// As ibv_query_gid_ex: 0, EINVAL, or ENODATA if the index holds no GID.
int query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                 uint32_t flags, size_t entry_size);
int query_pkey(ibv_context* context, uint8_t port, int index, uint16_t* pkey);

ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, int access);
/// As ibv_reg_mr_iova: remote and local addresses of the region start at iova.
ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access);
/// As ibv_rereg_mr; keys stay. A refusal leaves the region as it was and is always
/// IBV_REREG_MR_ERR_INPUT, with errno: EINVAL, EOPNOTSUPP (access flags that the device does not
/// have), EFAULT (memory that is not mapped).
int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access);
int dereg_mr(ibv_mr* mr);

ibv_comp_channel* create_comp_channel(ibv_context* context);
int destroy_comp_channel(ibv_comp_channel* channel);
int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
void ack_cq_events(ibv_cq* cq, unsigned count);
ibv_cq* create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                  int vector);
int resize_cq(ibv_cq* cq, int entries);
int destroy_cq(ibv_cq* cq);

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attributes);
int destroy_srq(ibv_srq* srq);

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init_attributes);
int destroy_qp(ibv_qp* qp);
/// EOPNOTSUPP: the device has no multicast (query_device: max_mcast_grp 0).
int attach_mcast(ibv_qp* qp, const ibv_gid* group, uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* group, uint16_t lid);

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                    ibv_ah_attr* attributes);
int destroy_ah(ibv_ah* ah);

int get_async_event(ibv_context* context, ibv_async_event* event);
void ack_async_event(ibv_async_event* event);

// ---- what verbs have no call for ----

/// What a process tells its peers about a device (MPI: in the address blob), and what it was told
/// about a peer.
struct PeerHints {
  uint16_t udp_port = 4791;   ///< Destination port of the peer's receive socket.
  uint32_t capabilities = 0;  ///< kCap... bits.
  uint32_t receive_budget_bytes =
      0;  ///< Bytes of kernel receive memory (truesize) that senders may use together; 0: unknown.
  uint32_t max_path_mtu_bytes =
      4096;  ///< Largest RC segment it takes; between soft devices it may exceed 4096.
};
inline constexpr uint32_t kCapSoft =
    1;  ///< A soft device: takes CNPs, HELLO and UDP_SEGMENT numbering of IP IDs.
/// Acknowledges by itself, within 400 us, what did not ask for it (engine::QpAttributes::lazy_ack).
inline constexpr uint32_t kCapLazyAck = 2;
/// Keeps packets that come before their turn and says what is missing
/// (engine::QpAttributes::selective).
inline constexpr uint32_t kCapSelective = 4;
/// Takes GRANTs: other values of receive_budget_bytes, while many send to one process.
inline constexpr uint32_t kCapGrants = 8;

int device_hints(ibv_context* context, PeerHints* hints);
/// max_path_mtu_bytes other than 4096 replaces the path MTU of RTR: both sides must be given the
/// same value, and it must fit into the smaller of both devices' limits. To be called in INIT,
/// before RTR; without it the peer's port comes from its QPN (bit 23 set: slot in bits 22..14, port
/// 4791 + slot) and the path MTU from RTR.
int set_peer_hints(ibv_qp* qp, const PeerHints* hints);

/// Text about a queue pair's trouble for error messages: peer address and port, last acknowledged
/// PSN, seconds waited. Returns the length, as snprintf.
int describe_qp(ibv_qp* qp, char* text, size_t bytes);

/// Drives sockets and timers once, as polling a CQ does. Returns the number of packets handled.
int progress();

/// One line "name value" per counter of this process's devices and socket; as snprintf.
int counters_text(char* text, size_t bytes);
/// Value of one counter by name; 0 if there is none of that name.
uint64_t counter(const char* name);

}  // namespace roce::soft

#endif  // ROCE_SOFT_SOFT_H_

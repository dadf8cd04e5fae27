// The table of libibverbs.
#include "verbs/table.h"

namespace roce::verbs {
namespace {

// verbs.h makes ibv_get_device_list, ibv_query_port and ibv_reg_mr macros. The first two do what is
// wanted. ibv_reg_mr picks between two symbols by whether its access argument is a constant; in
// parentheses it is the function, which takes every access flag.
ibv_device** get_device_list(int* num_devices) { return ibv_get_device_list(num_devices); }
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) {
  return ibv_query_port(context, port, attributes);
}
ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return (ibv_reg_mr)(pd, address, length, access);
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes) {
  return ibv_query_device_ex(context, input, attributes);
}

int device_hints(ibv_context*, PeerHints* hints) {
  *hints = PeerHints{};
  return 0;
}
int set_peer_hints(ibv_qp*, const PeerHints*) { return 0; }
void interfaces_left_out(std::vector<std::string>*) {}
int empty_text(char* text, size_t bytes) {
  if (bytes != 0) *text = '\0';
  return 0;
}
int describe_qp(ibv_qp*, char* text, size_t bytes) { return empty_text(text, bytes); }

constexpr Table kTable = {
    .name = "libibverbs",
    .is_soft = false,
    .get_device_list = get_device_list,
    .free_device_list = ibv_free_device_list,
    .get_device_name = ibv_get_device_name,
    .open_device = ibv_open_device,
    .close_device = ibv_close_device,
    .query_device = ibv_query_device,
    .query_device_ex = query_device_ex,
    .query_port = query_port,
    .query_gid = ibv_query_gid,
    .query_gid_table = _ibv_query_gid_table,
    .query_pkey = ibv_query_pkey,
    .alloc_pd = ibv_alloc_pd,
    .dealloc_pd = ibv_dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = ibv_dereg_mr,
    .create_comp_channel = ibv_create_comp_channel,
    .destroy_comp_channel = ibv_destroy_comp_channel,
    .get_cq_event = ibv_get_cq_event,
    .ack_cq_events = ibv_ack_cq_events,
    .create_cq = ibv_create_cq,
    .resize_cq = ibv_resize_cq,
    .destroy_cq = ibv_destroy_cq,
    .create_srq = ibv_create_srq,
    .modify_srq = ibv_modify_srq,
    .query_srq = ibv_query_srq,
    .destroy_srq = ibv_destroy_srq,
    .create_qp = ibv_create_qp,
    .modify_qp = ibv_modify_qp,
    .query_qp = ibv_query_qp,
    .destroy_qp = ibv_destroy_qp,
    .create_ah = ibv_create_ah,
    .init_ah_from_wc = ibv_init_ah_from_wc,
    .destroy_ah = ibv_destroy_ah,
    .get_async_event = ibv_get_async_event,
    .ack_async_event = ibv_ack_async_event,
    .fork_init = ibv_fork_init,
    .event_type_str = ibv_event_type_str,
    .wc_status_str = ibv_wc_status_str,
    .device_hints = device_hints,
    .set_peer_hints = set_peer_hints,
    .interfaces_left_out = interfaces_left_out,
    .describe_qp = describe_qp,
    .counters_text = empty_text,
};

}  // namespace

const Table& system_table() { return kTable; }

}  // namespace roce::verbs

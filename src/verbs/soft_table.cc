// The table of the software device.
#include "soft/interfaces.h"
#include "verbs/table.h"

namespace roce::verbs {
namespace {

// The software device needs no preparation: it survives fork in the parent, and its calls fail in
// the child.
int fork_init() { return 0; }

void interfaces_left_out(std::vector<std::string>* sentences) { soft::list_interfaces(sentences); }

constexpr Table kTable = {
    .name = "soft",
    .is_soft = true,
    .get_device_list = soft::get_device_list,
    .free_device_list = soft::free_device_list,
    .get_device_name = soft::get_device_name,
    .open_device = soft::open_device,
    .close_device = soft::close_device,
    .query_device = soft::query_device,
    .query_device_ex = soft::query_device_ex,
    .query_port = soft::query_port,
    .query_gid = soft::query_gid,
    .query_gid_table = soft::query_gid_table,
    .query_pkey = soft::query_pkey,
    .alloc_pd = soft::alloc_pd,
    .dealloc_pd = soft::dealloc_pd,
    .reg_mr = soft::reg_mr,
    .dereg_mr = soft::dereg_mr,
    .create_comp_channel = soft::create_comp_channel,
    .destroy_comp_channel = soft::destroy_comp_channel,
    .get_cq_event = soft::get_cq_event,
    .ack_cq_events = soft::ack_cq_events,
    .create_cq = soft::create_cq,
    .resize_cq = soft::resize_cq,
    .destroy_cq = soft::destroy_cq,
    .create_srq = soft::create_srq,
    .modify_srq = soft::modify_srq,
    .query_srq = soft::query_srq,
    .destroy_srq = soft::destroy_srq,
    .create_qp = soft::create_qp,
    .modify_qp = soft::modify_qp,
    .query_qp = soft::query_qp,
    .destroy_qp = soft::destroy_qp,
    .create_ah = soft::create_ah,
    .init_ah_from_wc = soft::init_ah_from_wc,
    .destroy_ah = soft::destroy_ah,
    .get_async_event = soft::get_async_event,
    .ack_async_event = soft::ack_async_event,
    .fork_init = fork_init,
    // Names of enumeration values: the same for every device.
    .event_type_str = ibv_event_type_str,
    .wc_status_str = ibv_wc_status_str,
    .device_hints = soft::device_hints,
    .set_peer_hints = soft::set_peer_hints,
    .interfaces_left_out = interfaces_left_out,
    .describe_qp = soft::describe_qp,
    .counters_text = soft::counters_text,
};

}  // namespace

const Table& soft_table() { return kTable; }

}  // namespace roce::verbs

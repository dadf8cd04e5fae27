// Counters by name, and the text about a queue pair's trouble.
#include <arpa/inet.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "soft/process.h"

namespace roce::soft {
namespace {

using Visit = std::function<void(const char* name, uint64_t value)>;

struct EngineCounter {
  const char* name;
  uint64_t engine::Counters::*field;
};
constexpr EngineCounter kEngineCounters[] = {
    {"tx_packets", &engine::Counters::tx_packets},
    {"rx_packets", &engine::Counters::rx_packets},
    {"tx_payload_bytes", &engine::Counters::tx_payload_bytes},
    {"rx_payload_bytes", &engine::Counters::rx_payload_bytes},
    {"resent_packets", &engine::Counters::resent_packets},
    {"acks_sent", &engine::Counters::acks_sent},
    {"acks_received", &engine::Counters::acks_received},
    {"packet_seq_err", &engine::Counters::packet_seq_err},
    {"out_of_sequence", &engine::Counters::out_of_sequence},
    {"kept_packets", &engine::Counters::kept_packets},
    {"selective_acks_sent", &engine::Counters::selective_acks_sent},
    {"selective_acks_received", &engine::Counters::selective_acks_received},
    {"repairs", &engine::Counters::repairs},
    {"duplicate_request", &engine::Counters::duplicate_request},
    {"implied_nak_seq_err", &engine::Counters::implied_nak_seq_err},
    {"local_ack_timeout_err", &engine::Counters::local_ack_timeout_err},
    {"adaptive_resends", &engine::Counters::adaptive_resends},
    {"rnr_naks_sent", &engine::Counters::rnr_naks_sent},
    {"rnr_naks_received", &engine::Counters::rnr_naks_received},
    {"remote_access_errors", &engine::Counters::remote_access_errors},
    {"remote_invalid_requests", &engine::Counters::remote_invalid_requests},
    {"remote_operation_errors", &engine::Counters::remote_operation_errors},
    {"retry_exceeded", &engine::Counters::retry_exceeded},
    {"rnr_retry_exceeded", &engine::Counters::rnr_retry_exceeded},
    {"cnps_received", &engine::Counters::cnps_received},
    {"ce_packets", &engine::Counters::ce_packets},
};

/// In the order of engine::Drop.
constexpr const char* kDropNames[] = {"drop_none",       "drop_bad_state",       "drop_bad_opcode",
                                      "drop_duplicate",  "drop_out_of_sequence", "drop_stale_ack",
                                      "drop_no_receive", "drop_bad_qkey",        "drop_bad_length",
                                      "drop_refused"};
static_assert(std::size(kDropNames) == static_cast<size_t>(engine::Drop::kCount));

struct UdpCounter {
  const char* name;
  uint64_t UdpCounters::*field;
};
constexpr UdpCounter kUdpCounters[] = {
    {"udp_rx_buffers", &UdpCounters::rx_buffers},
    {"udp_rx_datagrams", &UdpCounters::rx_datagrams},
    {"udp_rx_bytes", &UdpCounters::rx_bytes},
    {"udp_rx_calls", &UdpCounters::rx_calls},
    {"udp_tx_trains", &UdpCounters::tx_trains},
    {"udp_tx_datagrams", &UdpCounters::tx_datagrams},
    {"udp_tx_bytes", &UdpCounters::tx_bytes},
    {"udp_tx_calls", &UdpCounters::tx_calls},
    {"udp_tx_blocked", &UdpCounters::tx_blocked},
    {"udp_tx_errors", &UdpCounters::tx_errors},
    {"udp_tx_train_refused", &UdpCounters::tx_train_refused},
    {"udp_rx_bad_icrc", &UdpCounters::rx_bad_icrc},
    {"udp_rx_truncated", &UdpCounters::rx_truncated},
    {"udp_rx_icrc_by_id", &UdpCounters::rx_icrc_by_id},
    {"udp_kernel_drops", &UdpCounters::kernel_drops},
};

/// In the order of Process::Count.
constexpr const char* kProcessNames[] = {
    "drop_bad_packet",  "drop_unknown_qp", "drop_wrong_peer", "drop_bad_icrc", "drop_bad_hello",
    "placement_faults", "cq_overruns",     "lock_misses",     "service_wakes", "service_disarms",
    "hellos_sent",      "grants_received", "peers_agreed"};
static_assert(std::size(kProcessNames) == static_cast<size_t>(Process::Count::kCount));

void visit_counters(Process& process, const Visit& visit) {
  const std::lock_guard devices_guard(process.devices_mutex());
  const ProgressLock guard(process);
  for (const EngineCounter& counter : kEngineCounters) {
    uint64_t sum = 0;
    for (const Device* device : process.devices()) sum += device->counters.*counter.field;
    visit(counter.name, sum);
  }
  for (size_t i = 1; i < std::size(kDropNames); ++i) {
    uint64_t sum = 0;
    for (const Device* device : process.devices()) sum += device->counters.drops[i];
    visit(kDropNames[i], sum);
  }
  for (size_t i = 0; i < std::size(kProcessNames); ++i) {
    visit(kProcessNames[i], process.counted(static_cast<Process::Count>(i)));
  }
  visit("qp_bytes_most", process.most_queue_pair_bytes());
  if (process.udp() == nullptr) return;
  process.udp()->update_memory_info();
  const UdpCounters& udp = process.udp()->counters();
  for (const UdpCounter& counter : kUdpCounters) visit(counter.name, udp.*counter.field);
  visit("udp_last_tx_errno", static_cast<uint64_t>(udp.last_tx_errno));
}

std::string address_text(const uint8_t address[16], bool ipv4) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? address + 12 : address, text, sizeof text);
  return text;
}

}  // namespace

int counters_text(char* text, size_t bytes) {
  std::string all;
  if (Process* process = Process::usable()) {
    visit_counters(*process, [&](const char* name, uint64_t value) {
      all += std::string(name) + " " + std::to_string(value) + "\n";
    });
  }
  return std::snprintf(text, bytes, "%s", all.c_str());
}

uint64_t counter(const char* wanted) {
  uint64_t found = 0;
  if (Process* process = Process::usable()) {
    visit_counters(*process, [&](const char* name, uint64_t value) {
      if (std::strcmp(name, wanted) == 0) found = value;
    });
  }
  return found;
}

int describe_qp(ibv_qp* verbs, char* text, size_t bytes) {
  static constexpr const char* kStates[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  Process* process = Process::usable();
  if (process == nullptr) return std::snprintf(text, bytes, "not usable after fork");
  Qp& qp = *qp_of(verbs);
  const ProgressLock guard(*process);
  const engine::QueuePair::Trouble trouble = qp.engine->trouble();
  const wire::Flow& flow = qp.route.flow;
  const std::string peer = qp.routed ? address_text(flow.dst, flow.is_ipv4()) + " UDP port " +
                                           std::to_string(flow.dst_port) + " QP " +
                                           std::to_string(qp.attributes.dest_qp_num)
                                     : std::string("none");
  double waited = 0;
  if (trouble.oldest_unacked_since != engine::kNever) {
    waited = static_cast<double>(Process::now() - trouble.oldest_unacked_since) * 1e-9;
  }
  return std::snprintf(text, bytes,
                       "queue pair 0x%06x in %s, peer %s: last acknowledged PSN %u, oldest request "
                       "unanswered for %.3f s, %u of %u retries used, %u bytes in flight",
                       qp.qp_num, kStates[static_cast<int>(qp.engine->state())], peer.c_str(),
                       trouble.last_acked_psn, waited, trouble.retries, qp.attributes.retry_cnt,
                       qp.engine->inflight_bytes());
}

}  // namespace roce::soft

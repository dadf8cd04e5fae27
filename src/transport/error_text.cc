#include "transport/error_text.h"

#include <cmath>
#include <cstdio>

#include "verbs/gid.h"

namespace roce::transport {
namespace {

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

std::string peer_gid(const ConnectionFacts& facts) {
  const auto& rails = facts.address.rails;
  if (facts.path.remote_rail >= rails.size() ||
      facts.path.remote_gid >= rails[facts.path.remote_rail].gids.size()) {
    return "unknown";
  }
  return verbs::gid_text(rails[facts.path.remote_rail].gids[facts.path.remote_gid].gid);
}

uint16_t peer_port(const ConnectionFacts& facts) {
  const auto& rails = facts.address.rails;
  return facts.path.remote_rail < rails.size() ? rails[facts.path.remote_rail].udp_port : 4791;
}

/// "host a, GID 10.0.0.1 (rocesw0:1, interface eth0, QPN 0x800001) to host b, GID 10.0.0.2 (QPN
/// 0x800002)"
std::string path_text(const ConnectionFacts& facts) {
  const Rail& rail = facts.rail;
  return format("host %s, GID %s (%s, interface %s, QPN 0x%06x) to host %s, GID %s (QPN 0x%06x)",
                facts.core.address.host_name.c_str(),
                verbs::gid_text(rail.gids[facts.path.local_gid].bytes).c_str(), rail.name().c_str(),
                rail.netdev.empty() ? "unknown" : rail.netdev.c_str(), facts.own.qpn,
                facts.address.host_name.c_str(), peer_gid(facts).c_str(), facts.peer.qpn);
}

/// Seconds after which a device reports that retries are used up: 4.096 us x 2^timeout, once for
/// the first transmission and once for each retry.
double retry_seconds(const Params& params) {
  return std::ldexp(4.096e-6, params.ack_timeout) * (params.retry_count + 1);
}

std::string waited_text(const ConnectionFacts& facts, const FailedWork& work) {
  if (work.status != IBV_WC_RETRY_EXC_ERR) {
    return "";
  }
  const Params& params = facts.core.params;
  return format(", no acknowledgement for %.2f s (parameters ack_timeout = %d, retry_count = %d)",
                retry_seconds(params), params.ack_timeout, params.retry_count);
}

std::string hints(const ConnectionFacts& facts, const FailedWork& work) {
  std::string port = std::to_string(peer_port(facts));
  std::string mtu = std::to_string(facts.agreement.mtu_bytes);
  if (work.by_event) {
    return "1. the peer asked for something that is not allowed here (memory released or never "
           "registered): look for its message; 2. a fault of device, driver or firmware";
  }
  switch (work.status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "1. the peer process or its host has died: look for its own message; 2. UDP port " +
             port + " is blocked from now on (firewall); 3. packets of " + mtu +
             " bytes do not fit the path: set mtu_bytes lower; 4. heavy loss: raise ack_timeout, "
             "check switch ports and PFC or ECN for DSCP " +
             std::to_string(facts.agreement.traffic_class >> 2);
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "1. the peer does not call MPI often enough to take messages; 2. its receive_buffers "
             "are too few";
    case IBV_WC_REM_ACCESS_ERR:
      return "1. the peer has released the memory of this transfer; 2. a key of another rail or of "
             "an earlier registration was used";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return "1. the local memory of this transfer was released or remapped while in use";
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_LOC_LEN_ERR:
      return "1. the peer's receive buffers are smaller than the message: set the same "
             "max_send_size for all processes";
    case IBV_WC_WR_FLUSH_ERR:
      return "1. the queue pair was stopped by an earlier error of the peer's requests: look for "
             "the peer's message";
    default:
      return "1. a fault of device, driver or firmware: see the kernel's log";
  }
}

}  // namespace

std::string process_text(ProcessName name, const std::string& host) {
  std::string text = format("process %u of job %u", name.rank, name.job);
  return host.empty() ? text : text + " on host " + host;
}

std::string describe_failure(const ConnectionFacts& facts, const FailedWork& work) {
  std::string text = "connection to " + process_text(facts.name, facts.address.host_name) +
                     " failed: " + work.what;
  if (work.error != 0) {
    text += ": " + verbs::errno_text(work.error);
  } else if (!work.by_event) {
    text += format(" (%llu bytes): %s (status %d, vendor error 0x%x)",
                   static_cast<unsigned long long>(work.bytes),
                   facts.rail.table().wc_status_str(work.status), static_cast<int>(work.status),
                   work.vendor_error);
  }
  text += waited_text(facts, work) + ". From " + path_text(facts) +
          format(", UDP port %u, DSCP %u, path MTU %u.", static_cast<unsigned>(peer_port(facts)),
                 facts.agreement.traffic_class >> 2u, facts.agreement.mtu_bytes);
  char state[256] = "";
  if (facts.qp != nullptr && facts.rail.table().describe_qp(facts.qp, state, sizeof state) > 0) {
    text += std::string(" Device: ") + state + ".";
  }
  return text + " Likely: " + hints(facts, work) + ".";
}

std::string describe_connect_failure(const ConnectionFacts& facts, Code code,
                                     const std::string& reason) {
  std::string text = "cannot connect to " + process_text(facts.name, facts.address.host_name) +
                     ": " + reason + (reason.ends_with('.') ? " From " : ". From ") +
                     path_text(facts) + ", UDP port " + std::to_string(peer_port(facts)) + ".";
  if (code == Code::kTimedOut) {
    text += " Does a firewall on one of the hosts or between them drop UDP port " +
            std::to_string(peer_port(facts)) +
            "? Does the peer run, and does \"ping\" reach that address? Waited for parameter "
            "connect_timeout_s = " +
            std::to_string(facts.core.params.connect_timeout_s) + ".";
  }
  return text;
}

}  // namespace roce::transport

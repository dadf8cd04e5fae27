// The parameters of the transport: each stands once, in one table, which feeds MCA variables,
// environment variables, roce_info and the manual page.
#ifndef ROCE_TRANSPORT_PARAMS_H_
#define ROCE_TRANSPORT_PARAMS_H_

#include <cstdint>
#include <span>
#include <string>

#include "roce/status.h"

namespace roce::transport {

/// Values in force. A parameter's name in the table is the name of its field here; users set it as
/// MCA variable "btl_roce_<name>" or as environment variable "ROCE_<NAME>" (upper case).
struct Params {
  std::string soft = "auto";           ///< auto | on | off.
  std::string if_include, if_exclude;  ///< Comma lists of device, device:port, interface name, or
                                       ///< subnet (a.b.c.d/n, IPv6/n).
  int mixed = 0;                       ///< 0 | 1.
  int gid_index = -1;                  ///< -1: chosen per peer.
  int traffic_class = 106;             ///< 0..255: DSCP 26, ECT(0).
  int service_level = 0;               ///< 0..15.
  int hop_limit = 64;                  ///< 1..255.
  int mtu_bytes = 0;                   ///< 0: the largest both ends take; else 256..65536.
  int connect_timeout_s = 10;          ///< 1..3600.
  int ack_timeout = 18;                ///< Exponent of 4.096 us x 2^n, 1..31 (verbs "timeout").
  int retry_count = 7;                 ///< 0..7.
  int rnr_timer = 12;                  ///< 0..31, code of the RNR NAK timer.
  int max_inline_bytes = 512;          ///< 0..4096, clamped to the device.
  int send_queue_depth = 64;           ///< Work requests per peer, 16..8192.
  int receive_buffers = 256;           ///< Buffers of the shared receive pool, 32..65536.
  int window_messages = 32;            ///< Unacknowledged messages per peer at start, 2..4096.
  int window_bytes = 131072;     ///< The same in bytes; at least one message is always allowed.
  int get_chunk_bytes = 65536;   ///< Largest single RDMA READ or WRITE, 4096..1 GiB.
  int max_reads = 16;            ///< RDMA READs outstanding per peer, 1..128.
  int first_port_slot = 0;       ///< Soft device: UDP port 4791 + slot is tried first, 0..511.
  std::string atomics = "auto";  ///< auto | device | off.
  std::string stats;             ///< File name prefix for counters at finalize; empty: none.
};

enum class ParamType { kInt, kString, kChoice };

/// Who the parameter is for: Open MPI's levels of its variables (MPI_T verbosity).
enum class ParamLevel { kUser = 3, kTuner = 5, kDeveloper = 8 };

struct ParamInfo {
  const char* name;  ///< "if_include".
  ParamType type;
  ParamLevel level;
  int Params::*int_field;             ///< kInt.
  std::string Params::*string_field;  ///< kString, kChoice.
  int min, max;                       ///< kInt, inclusive.
  bool zero_too;                      ///< kInt: 0 is taken as well ("choose for me").
  const char* choices;                ///< kChoice: "auto|on|off".
  const char* help;  ///< One sentence with unit, default and range left out (they are printed from
                     ///< the fields).
};

std::span<const ParamInfo> param_table();

/// The row of that name, null if there is none.
const ParamInfo* find_param(const std::string& name);

/// Sets one value from text, with range check (integers: decimal or 0x..., and a suffix k, m or g
/// for powers of 1024, as in MCA variables); Params stays unchanged on error; the sentence names
/// parameter, value and range.
Status set_param(Params& params, const ParamInfo& info, const std::string& text);
/// Range check of values that were set otherwise (MCA variables).
Status check_params(const Params& params);
/// Defaults overridden by environment variables ROCE_<NAME>.
Result<Params> params_from_environment();
/// Name of the environment variable: "ROCE_IF_INCLUDE".
std::string param_environment_name(const ParamInfo& info);
/// Current value as text, and range as text: "1..3600", "auto|on|off", "text".
std::string param_value(const Params& params, const ParamInfo& info);
std::string param_range(const ParamInfo& info);

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_PARAMS_H_

#include "transport/params.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace roce::transport {
namespace {

constexpr int kGiB = 1 << 30;

constexpr ParamInfo integer(const char* name, ParamLevel level, int Params::*field, int min,
                            int max, const char* help, bool zero_too = false) {
  return {name, ParamType::kInt, level, field, nullptr, min, max, zero_too, nullptr, help};
}
constexpr ParamInfo text(const char* name, ParamLevel level, std::string Params::*field,
                         const char* help) {
  return {name, ParamType::kString, level, nullptr, field, 0, 0, false, nullptr, help};
}
constexpr ParamInfo choice(const char* name, ParamLevel level, std::string Params::*field,
                           const char* choices, const char* help) {
  return {name, ParamType::kChoice, level, nullptr, field, 0, 0, false, choices, help};
}

constexpr ParamLevel kUser = ParamLevel::kUser;
constexpr ParamLevel kTuner = ParamLevel::kTuner;
constexpr ParamLevel kDeveloper = ParamLevel::kDeveloper;

constexpr ParamInfo kTable[] = {
    choice("soft", kUser, &Params::soft, "auto|on|off",
           "Use of the software RoCE v2 device: auto takes it where no RDMA device is usable and "
           "the user named roce, on takes nothing else, off never takes it"),
    integer("mixed", kDeveloper, &Params::mixed, 0, 1,
            "Lets processes on the software device and processes on RDMA devices talk to each "
            "other, which else are unreachable for each other"),
    text("if_include", kUser, &Params::if_include,
         "Comma-separated list of what may be used: RDMA device, device:port, network interface, "
         "or IP subnet (a.b.c.d/n or IPv6/n); empty: everything"),
    text("if_exclude", kUser, &Params::if_exclude,
         "Comma-separated list, in the form of if_include, of what must not be used"),
    integer("gid_index", kTuner, &Params::gid_index, -1, 65535,
            "Index of the GID to send from; -1 chooses one for each peer"),
    integer("traffic_class", kUser, &Params::traffic_class, 0, 255,
            "IP traffic class of the packets: DSCP in the upper six bits, ECN in the lower two"),
    integer("service_level", kTuner, &Params::service_level, 0, 15,
            "Service level, which Ethernet devices map to the VLAN priority"),
    integer("hop_limit", kTuner, &Params::hop_limit, 1, 255, "IP hop limit (TTL) of the packets"),
    integer("mtu_bytes", kTuner, &Params::mtu_bytes, 256, 65536,
            "Largest path MTU to use, bytes of payload in a packet; 0 takes the largest that both "
            "ends can",
            true),
    integer("connect_timeout_s", kUser, &Params::connect_timeout_s, 1, 3600,
            "Time after which a connection attempt is given up, seconds"),
    integer("ack_timeout", kTuner, &Params::ack_timeout, 1, 31,
            "Wait for an acknowledgement before a resend, as the exponent n of 4.096 us x 2^n"),
    integer("retry_count", kTuner, &Params::retry_count, 0, 7,
            "Resends without an answer before a peer is given up"),
    integer("rnr_timer", kDeveloper, &Params::rnr_timer, 0, 31,
            "Code of the time a sender waits after a receiver-not-ready NAK (InfiniBand, table "
            "45); 12 is 0.64 ms"),
    integer("max_inline_bytes", kTuner, &Params::max_inline_bytes, 0, 4096,
            "Largest message copied into the work request, bytes; lowered to what the device "
            "can"),
    integer("send_queue_depth", kDeveloper, &Params::send_queue_depth, 16, 8192,
            "Send work requests of one connection"),
    integer("receive_buffers", kTuner, &Params::receive_buffers, 32, 65536,
            "Receive buffers shared by all peers"),
    integer("window_messages", kTuner, &Params::window_messages, 2, 4096,
            "Messages to one peer that may be unacknowledged when a connection starts"),
    integer("window_bytes", kTuner, &Params::window_bytes, 4096, kGiB,
            "Bytes to one peer that may be unacknowledged when a connection starts; one message "
            "is always allowed"),
    integer("get_chunk_bytes", kTuner, &Params::get_chunk_bytes, 4096, kGiB,
            "Largest single RDMA READ or WRITE, bytes; longer transfers are cut into such chunks"),
    integer("max_reads", kTuner, &Params::max_reads, 1, 128,
            "RDMA READs to one peer that may be outstanding; lowered to what both devices can"),
    choice("atomics", kTuner, &Params::atomics, "auto|device|off",
           "Atomic operations offered to one-sided communication: auto lets processes of one host "
           "use the CPU's where the device's are atomic against them, device never does, off "
           "offers none"),
    integer("first_port_slot", kDeveloper, &Params::first_port_slot, 0, 511,
            "Software device: the UDP port tried first is 4791 plus this number"),
    text("stats", kUser, &Params::stats,
         "At the end each process writes its counters to the file of this name followed by "
         ".HOST.PID; empty: none"),
};

std::string quoted(const std::string& value) { return "\"" + value + "\""; }

Status out_of_range(const ParamInfo& info, const std::string& value) {
  std::string text =
      std::string("parameter ") + info.name + ": " + value + " is not in its range, ";
  return {Code::kInvalidArgument, text + param_range(info)};
}

bool in_range(const ParamInfo& info, long long value) {
  return (value >= info.min && value <= info.max) || (info.zero_too && value == 0);
}

bool is_choice(const char* choices, const std::string& value) {
  if (value.empty() || value.find('|') != std::string::npos) return false;
  return ("|" + std::string(choices) + "|").find("|" + value + "|") != std::string::npos;
}

/// Decimal or 0x... with an optional suffix; false if the text is anything else.
bool parse_integer(const std::string& text, long long* value) {
  if (text.empty() || std::strchr(" \t\n\v\f\r", text[0]) != nullptr) return false;
  const char* digits = text.c_str();
  digits += *digits == '-' || *digits == '+';
  // strtoll's base 0 would read a leading zero as octal, which nobody means here.
  const bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
  char* end = nullptr;
  errno = 0;
  long long parsed = std::strtoll(text.c_str(), &end, hex ? 16 : 10);
  if (errno != 0 || end == text.c_str()) return false;
  int shift = 0;
  switch (*end) {
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    default:
      break;
  }
  if (shift != 0) ++end;
  if (*end != '\0') return false;
  if (__builtin_mul_overflow(parsed, 1LL << shift, value)) return false;
  return true;
}

}  // namespace

std::span<const ParamInfo> param_table() { return kTable; }

const ParamInfo* find_param(const std::string& name) {
  for (const ParamInfo& info : kTable) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

Status set_param(Params& params, const ParamInfo& info, const std::string& value_text) {
  if (info.type == ParamType::kInt) {
    long long value = 0;
    if (!parse_integer(value_text, &value) || !in_range(info, value)) {
      return out_of_range(info, quoted(value_text));
    }
    params.*info.int_field = static_cast<int>(value);
    return Status::ok();
  }
  if (info.type == ParamType::kChoice && !is_choice(info.choices, value_text)) {
    return out_of_range(info, quoted(value_text));
  }
  params.*info.string_field = value_text;
  return Status::ok();
}

Status check_params(const Params& params) {
  for (const ParamInfo& info : kTable) {
    if (info.type == ParamType::kInt && !in_range(info, params.*info.int_field)) {
      return out_of_range(info, std::to_string(params.*info.int_field));
    }
    if (info.type == ParamType::kChoice && !is_choice(info.choices, params.*info.string_field)) {
      return out_of_range(info, quoted(params.*info.string_field));
    }
  }
  return Status::ok();
}

std::string param_environment_name(const ParamInfo& info) {
  std::string name = "ROCE_";
  for (const char* c = info.name; *c != '\0'; ++c) {
    name += *c >= 'a' && *c <= 'z' ? static_cast<char>(*c - 'a' + 'A') : *c;
  }
  return name;
}

Result<Params> params_from_environment() {
  Params params;
  for (const ParamInfo& info : kTable) {
    const std::string name = param_environment_name(info);
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): set-up
    if (value == nullptr) continue;
    if (Status status = set_param(params, info, value); !status) {
      return Status(status.code(), "environment variable " + name + ": " + status.text());
    }
  }
  return params;
}

std::string param_value(const Params& params, const ParamInfo& info) {
  if (info.type == ParamType::kInt) return std::to_string(params.*info.int_field);
  return params.*info.string_field;
}

std::string param_range(const ParamInfo& info) {
  switch (info.type) {
    case ParamType::kInt: {
      std::string range = std::to_string(info.min) + ".." + std::to_string(info.max);
      return info.zero_too ? "0 or " + range : range;
    }
    case ParamType::kChoice:
      return info.choices;
    case ParamType::kString:
      break;
  }
  return "text";
}

}  // namespace roce::transport

// What a user reads when a peer has failed: who, what, where, how long, and what is likely the
// reason, most likely first.
#ifndef ROCE_TRANSPORT_ERROR_TEXT_H_
#define ROCE_TRANSPORT_ERROR_TEXT_H_

#include <infiniband/verbs.h>

#include <string>

#include "transport/address.h"
#include "transport/connection_state.h"
#include "transport/core.h"

namespace roce::transport {

/// "process 2 of job 1", with the host if it is known.
std::string process_text(ProcessName name, const std::string& host);

/// Everything known about a connection.
struct ConnectionFacts {
  const Core& core;
  const Rail& rail;
  const PathPair& path;
  const Offer& own;
  const Offer& peer;
  const Agreement& agreement;
  Address address;  ///< The peer's.
  ProcessName name;
  ibv_qp* qp;
};

struct FailedWork {
  std::string what;
  uint64_t bytes = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
  uint32_t vendor_error = 0;
  int error = 0;          ///< errno of a post that was refused.
  bool by_event = false;  ///< `what` is an asynchronous event of the device, without a completion.
};

std::string describe_failure(const ConnectionFacts& facts, const FailedWork& work);

/// Why a connection could not be made; `reason` is the handshake's.
std::string describe_connect_failure(const ConnectionFacts& facts, Code code,
                                     const std::string& reason);

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_ERROR_TEXT_H_

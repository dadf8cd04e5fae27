// The 40 bytes in front of a received UD message: the IP header of the packet, as RDMA NICs and rxe
// write it.
#ifndef ROCE_SOFT_DATAGRAM_GRH_H_
#define ROCE_SOFT_DATAGRAM_GRH_H_

#include <cstddef>
#include <cstdint>

#include "soft/udp_port.h"

namespace roce::soft {

inline constexpr size_t kGrhBytes = 40;

/// IPv6: its header. IPv4: 20 zero bytes, then its header with a right checksum, by which
/// ibv_init_ah_from_wc tells the two apart. What a socket does not see has a usual value: hop limit
/// 64, flow label 0, IP ID 0.
void write_grh(const ReceivedBuffer& buffer, uint8_t out[kGrhBytes]);

/// Addresses and traffic class of such a header. False if it is neither form.
bool read_grh(const uint8_t grh[kGrhBytes], wire::Flow* flow, uint8_t* traffic_class,
              uint8_t* hop_limit, uint32_t* flow_label);

}  // namespace roce::soft

#endif  // ROCE_SOFT_DATAGRAM_GRH_H_

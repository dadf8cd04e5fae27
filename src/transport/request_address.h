// The part of an address blob that a connection request carries, so small that the packet fits any
// path MTU of RoCE v2: the one rail and GID in use. The acceptor may not have the whole blob yet.
#ifndef ROCE_TRANSPORT_REQUEST_ADDRESS_H_
#define ROCE_TRANSPORT_REQUEST_ADDRESS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "roce/status.h"
#include "transport/address.h"
#include "transport/connection_packet.h"

namespace roce::transport {

/// Blob with rail path.local_rail and its GID path.local_gid alone.
std::vector<uint8_t> encode_for_request(const Address& own, const PathPair& path);

/// The address that such a blob tells, with rail and GID at the indices they have in the sender's
/// whole blob; the other places are empty. `path` is the packet's. kProtocol with a sentence.
Result<Address> decode_from_request(std::span<const uint8_t> blob, const PathPair& path);

/// Whether `address` has the rail and GID that `path`'s remote side names, and the same ones as
/// `other`.
bool same_end(const Address& address, const Address& other, const PathPair& path);

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_REQUEST_ADDRESS_H_

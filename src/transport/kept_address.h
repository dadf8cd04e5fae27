// The address of a peer at rest, in as little memory as it needs.
#ifndef ROCE_TRANSPORT_KEPT_ADDRESS_H_
#define ROCE_TRANSPORT_KEPT_ADDRESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/address.h"

namespace roce::transport {

/// Keeps all but the job cookie, and of boot id and network namespace only whether they are those
/// of this process, whose address is `own` below. Also an address that encode would not take: rails
/// without GIDs.
class KeptAddress {
 public:
  KeptAddress() = default;
  KeptAddress(const Address& address, const Address& own);
  /// With the job cookie of `own`, and its boot id and network namespace if they are the same, else
  /// with zeros there.
  Address get(const Address& own) const;
  size_t bytes() const { return size_; }  ///< Memory that it holds.

 private:
  std::unique_ptr<uint8_t[]> data_;
  uint32_t size_ = 0;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_KEPT_ADDRESS_H_

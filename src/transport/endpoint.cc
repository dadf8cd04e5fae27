#include "transport/endpoint.h"

#include <mutex>

#include "transport/core.h"
#include "transport/link.h"

namespace roce::transport {

Endpoint::Endpoint(Core& core, ProcessName name, uint32_t index)
    : core_(core), name_(name), index_(index) {}

Endpoint::~Endpoint() { delete link_.load(std::memory_order_acquire); }

Link& Endpoint::make_link() {
  std::lock_guard guard(lock_);
  Link* link = link_.load(std::memory_order_relaxed);
  if (link == nullptr) {
    link = new Link(core_, *this);
    link_.store(link, std::memory_order_release);
  }
  return *link;
}

void Endpoint::set_address(const Address& address, bool partial) {
  KeptAddress kept(address, core_.address);
  std::lock_guard guard(lock_);
  std::swap(address_, kept);
  address_is_partial_ = partial;
}

Address Endpoint::address() {
  std::lock_guard guard(lock_);
  return address_.get(core_.address);
}

bool Endpoint::address_is_partial() {
  std::lock_guard guard(lock_);
  return address_is_partial_;
}

void Endpoint::remove() {
  {
    std::lock_guard guard(lock_);
    if (link_.load(std::memory_order_relaxed) == nullptr) {
      state_.store(State::kRemoved, std::memory_order_release);
      return;
    }
  }
  link().settle(State::kRemoved, true);
}

size_t Endpoint::bytes() {
  size_t sum = sizeof *this + PeerTable::kEntryBytes;
  {
    std::lock_guard guard(lock_);
    sum += address_.bytes();
  }
  Link* link = link_if_any();
  return link == nullptr ? sum : sum + link->bytes();
}

}  // namespace roce::transport

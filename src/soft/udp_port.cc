// What of UdpPort is off the data path; the rest is in udp_send.cc and udp_receive.cc.
#include "soft/udp_port.h"

#include <utility>

#include "soft/udp_impl.h"

namespace roce::soft {

UdpPort::UdpPort() : impl_(std::make_unique<Impl>()) {}
UdpPort::~UdpPort() = default;

Result<std::unique_ptr<UdpPort>> UdpPort::open(const Options& options) {
  std::unique_ptr<UdpPort> port(new UdpPort());
  Impl& impl = *port->impl_;
  auto receiver = open_receive_side(options, &impl.slot);
  if (!receiver) return receiver.status();
  impl.receiver = std::move(*receiver);
  auto ipv4 = open_senders(options, AF_INET);
  if (!ipv4) return ipv4.status();
  impl.senders = std::move(*ipv4);
  impl.ipv4_senders = static_cast<uint32_t>(impl.senders.size());
  if (impl.receiver->ipv6()) {
    auto ipv6 = open_senders(options, AF_INET6);
    if (!ipv6) return ipv6.status();
    for (SendQueue& sender : *ipv6) impl.senders.push_back(std::move(sender));
  }
  return port;
}

int UdpPort::slot() const { return impl_->slot; }
uint16_t UdpPort::port() const { return impl_->receiver->port(); }
bool UdpPort::has_ipv6() const { return impl_->receiver->ipv6(); }
int UdpPort::receive_fd() const { return impl_->receiver->fd(); }
uint32_t UdpPort::receive_buffer_bytes() const { return impl_->receiver->buffer_bytes(); }
uint32_t UdpPort::receive_budget_bytes() const { return receive_buffer_bytes() / 2; }

void UdpPort::assign_source(Route& route, uint32_t flow_hash) {
  const bool ipv4 = route.flow.is_ipv4();
  const uint32_t first = ipv4 ? 0 : impl_->ipv4_senders;
  const uint32_t senders =
      ipv4 ? impl_->ipv4_senders : static_cast<uint32_t>(impl_->senders.size()) - first;
  route.sender = -1;
  if (senders == 0) return;
  route.sender = static_cast<int>(first + flow_hash % senders);
  SendQueue& queue = impl_->senders[route.sender];
  route.flow.src_port = queue.port();
  // Most routes share one traffic class and hop limit: the first one's spare a control message.
  if (!queue.has_defaults()) queue.set_defaults(route.tos, route.hop_limit);
}

uint32_t UdpPort::open_train_room(const Route& route) const {
  if (static_cast<size_t>(route.sender) >= impl_->senders.size()) return 0;
  return impl_->senders[route.sender].open_train_room(route);
}

bool UdpPort::empty() const { return impl_->pending == 0; }
int UdpPort::blocked_fd() const { return impl_->blocked_fd; }

bool UdpPort::blocked(const Route& route) const {
  return static_cast<size_t>(route.sender) < impl_->senders.size() &&
         impl_->senders[route.sender].blocked();
}

void UdpPort::forget(const Route& route) {
  if (static_cast<size_t>(route.sender) < impl_->senders.size()) {
    impl_->senders[route.sender].forget(route);
  }
}

UdpCounters& UdpPort::counters() { return impl_->counters; }
void UdpPort::update_memory_info() { impl_->receiver->update_memory_info(impl_->counters); }
uint32_t UdpPort::receive_queue_bytes() const { return impl_->receiver->queue_bytes(); }

void UdpPort::close_in_child() {
  // Closing a datagram socket sends nothing; the parent's descriptors stay open.
  impl_->receiver->close();
  for (SendQueue& sender : impl_->senders) sender.close();
}

}  // namespace roce::soft

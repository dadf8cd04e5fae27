// Address vectors: checks, and what they mean on the wire; address handles.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "soft/datagram_grh.h"
#include "soft/process.h"

namespace roce::soft {
namespace {

constexpr uint8_t kEcnMask = 3;
constexpr uint8_t kEct0 = 2;
constexpr uint8_t kDefaultHopLimit = 64;

bool is_zero(const ibv_gid& gid) {
  return gid.global.interface_id == 0 && gid.global.subnet_prefix == 0;
}

bool sends_pending(const Pd& pd) {
  return std::any_of(pd.datagram_qps.begin(), pd.datagram_qps.end(), [](const Qp* qp) {
    return qp->sends.waiting.load(std::memory_order_acquire) != 0 ||
           qp->sends.engine_used.load(std::memory_order_acquire) != 0;
  });
}

}  // namespace

bool is_link_local(const uint8_t gid[16]) { return gid[0] == 0xFE && (gid[1] & 0xC0) == 0x80; }

int resolve_route(Context& context, const ibv_ah_attr& attributes, Route& route) {
  const ibv_global_route& grh = attributes.grh;
  // RoCE addresses are GIDs: without a global route there is no destination.
  if (attributes.is_global == 0 || attributes.port_num != 1) return EINVAL;
  // Of the flow label its 20 bits count, as on NICs: UCX fills all 32.
  if (grh.sgid_index >= kGidTableLength || is_zero(grh.dgid)) return EINVAL;
  Device& device = *context.device_state;
  ibv_gid source;
  {
    std::lock_guard guard(device.mutex);
    source = device.gids[grh.sgid_index];
  }
  if (is_zero(source)) return EINVAL;
  route = Route{};
  std::memcpy(route.flow.src, source.raw, 16);
  std::memcpy(route.flow.dst, grh.dgid.raw, 16);
  // One end IPv4 and the other IPv6 cannot be.
  wire::Flow reverse;
  std::memcpy(reverse.src, grh.dgid.raw, 16);
  std::memcpy(reverse.dst, grh.dgid.raw, 16);
  if (route.flow.is_ipv4() != reverse.is_ipv4()) return EINVAL;
  // NICs set the ECN bits themselves, whatever the program wrote there.
  const uint8_t traffic_class = grh.traffic_class != 0 ? grh.traffic_class : kDefaultTrafficClass;
  route.tos = (traffic_class & kEcnMask) != 0 ? traffic_class : traffic_class | kEct0;
  route.hop_limit = grh.hop_limit > 1 ? grh.hop_limit : kDefaultHopLimit;
  route.ifindex = is_link_local(grh.dgid.raw) ? device.ifindex : 0;
  return 0;
}

uint16_t port_of_qpn(uint32_t qpn) {
  if ((qpn & kQpnSoftBit) == 0) return wire::kRoceUdpPort;
  return static_cast<uint16_t>(wire::kRoceUdpPort + ((qpn & ~kQpnSoftBit) >> kQpnSlotShift));
}

Route& route_towards(Ah& ah, uint32_t qpn) {
  const uint16_t port = port_of_qpn(qpn);
  for (const auto& route : ah.routes) {
    if (route->flow.dst_port == port) return *route;
  }
  // At most one per slot of a host; most handles are used with one queue pair.
  ah.routes.push_back(std::make_unique<Route>(ah.route));
  Route& route = *ah.routes.back();
  route.flow.dst_port = port;
  route.no_trains = (qpn & kQpnSoftBit) == 0;
  return route;
}

void forget_routes(UdpPort& udp, const Ah& ah) {
  for (const auto& route : ah.routes) udp.forget(*route);
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  Process* process = Process::usable();
  if (process == nullptr) return nullptr;
  std::unique_ptr<Ah> ah(new (std::nothrow) Ah());
  if (ah == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const int error = resolve_route(*context_of(pd->context), *attributes, ah->route);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  if (!context_of(pd->context)->device_state->address_handles.take()) {
    errno = ENOMEM;
    return nullptr;
  }
  ah->context = pd->context;
  ah->pd = pd;
  const auto& dgid = attributes->grh.dgid.raw;
  const uint32_t hash = wire::udp_source_port(attributes->grh.flow_label, dgid[15] + 1u,
                                              dgid[14] * 256u + dgid[13] + 1u);
  const ProgressLock guard(*process);
  process->udp()->assign_source(ah->route, hash);
  pd_of(pd)->users.fetch_add(1);
  return ah.release();
}

int destroy_ah(ibv_ah* verbs) {
  Process* process = Process::usable();
  if (process == nullptr) return errno;
  std::unique_ptr<Ah> ah(ah_of(verbs));
  Pd& pd = *pd_of(ah->pd);
  context_of(ah->context)->device_state->address_handles.give();
  const ProgressLock guard(*process);
  // Requests that name the handle may still be queued; then it stays until they have left.
  process->drive(Process::now());
  if (sends_pending(pd)) {
    pd.retired_handles.push_back(std::move(ah));
  } else {
    forget_routes(*process->udp(), *ah);
    for (const auto& retired : pd.retired_handles) forget_routes(*process->udp(), *retired);
    pd.retired_handles.clear();
  }
  pd.users.fetch_sub(1);
  return 0;
}

int init_ah_from_wc(ibv_context* verbs, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                    ibv_ah_attr* attributes) {
  if (port != 1 || (wc->wc_flags & IBV_WC_GRH) == 0) return EINVAL;
  wire::Flow flow;
  uint8_t traffic_class = 0, hop_limit = 0;
  uint32_t flow_label = 0;
  if (!read_grh(reinterpret_cast<const uint8_t*>(grh), &flow, &traffic_class, &hop_limit,
                &flow_label)) {
    return EINVAL;
  }
  Device& device = *context_of(verbs)->device_state;
  std::lock_guard guard(device.mutex);
  for (size_t i = 0; i < device.gids.size(); ++i) {
    if (std::memcmp(device.gids[i].raw, flow.dst, 16) != 0) continue;
    *attributes = ibv_ah_attr{};
    attributes->is_global = 1;
    attributes->port_num = port;
    attributes->sl = wc->sl;
    std::memcpy(attributes->grh.dgid.raw, flow.src, 16);
    attributes->grh.sgid_index = static_cast<uint8_t>(i);
    attributes->grh.flow_label = flow_label;
    attributes->grh.hop_limit = 0xFF;
    attributes->grh.traffic_class = traffic_class;
    return 0;
  }
  return EINVAL;
}

}  // namespace roce::soft

// Queue pairs: creation and the way through their states.
#include <cerrno>
#include <cstdio>

#include "verbs/gid.h"
#include "verbs/objects.h"

namespace roce::verbs {
namespace {

const char* type_name(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return "RC";
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    default:
      return "other type";
  }
}

std::string values(const ibv_qp_init_attr& asked) {
  char text[160];
  std::snprintf(text, sizeof text, "%s, send queue %u x %u entries, inline %u bytes, receive %s",
                type_name(asked.qp_type), asked.cap.max_send_wr, asked.cap.max_send_sge,
                asked.cap.max_inline_data, asked.srq != nullptr ? "from an SRQ" : "queue ");
  std::string out = text;
  if (asked.srq == nullptr) {
    out += std::to_string(asked.cap.max_recv_wr) + " x " + std::to_string(asked.cap.max_recv_sge) +
           " entries";
  }
  return out;
}

// Names what exceeds the device, or else the limits.
std::string limits(const ProtectionDomain& pd, const ibv_qp_init_attr& asked) {
  ibv_device_attr device{};
  if (pd.table().query_device(pd.get()->context, &device) != 0) return "";
  const auto max_wr = static_cast<uint32_t>(device.max_qp_wr);
  const auto max_sge = static_cast<uint32_t>(device.max_sge);
  std::string out;
  const auto check = [&out](const char* what, uint32_t value, uint32_t limit) {
    if (value <= limit) return;
    out += (out.empty() ? "Too much for this device: " : "; ") + std::string(what) + " " +
           std::to_string(value) + " of at most " + std::to_string(limit);
  };
  check("send queue depth", asked.cap.max_send_wr, max_wr);
  check("receive queue depth", asked.cap.max_recv_wr, max_wr);
  check("send entries", asked.cap.max_send_sge, max_sge);
  check("receive entries", asked.cap.max_recv_sge, max_sge);
  if (!out.empty()) return out + ".";
  return "Limits of the device: " + std::to_string(device.max_qp) + " queue pairs of depth " +
         std::to_string(device.max_qp_wr) +
         "; a smaller inline size or queue depth may fit, and fewer peers or processes do.";
}

std::string path_text(const RcPath& path) {
  char text[96];
  std::snprintf(text, sizeof text, ", QPN 0x%06x, path MTU %u bytes, first PSN 0x%06x",
                path.dest_qpn, 128u << path.path_mtu, path.rq_psn);
  return address_text(path.address) + text;
}

}  // namespace

Result<QueuePair> QueuePair::create(const ProtectionDomain& pd, ibv_qp_init_attr attributes) {
  const ibv_qp_init_attr asked = attributes;
  errno = 0;
  ibv_qp* qp = pd.table().create_qp(pd.get(), &attributes);
  if (qp == nullptr) {
    const int error = errno;
    return call_failed(device_name(pd.table(), pd.get()->context),
                       "create_qp(" + values(asked) + ")", error, limits(pd, asked));
  }
  return QueuePair(pd.table(), qp);
}

Status QueuePair::modify(ibv_qp_attr attributes, int mask, const std::string& what,
                         const std::string& remedy) const {
  const int error = table().modify_qp(get(), &attributes, mask);
  if (error == 0) return Status::ok();
  char call[48];
  std::snprintf(call, sizeof call, "modify_qp(QPN 0x%06x ", get()->qp_num);
  // Some drivers return -1 and set errno.
  return call_failed(device_name(table(), get()->context), call + what + ")",
                     error > 0 ? error : errno, remedy);
}

Status QueuePair::rc_to_init(uint8_t port, int access) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port;
  attributes.qp_access_flags = static_cast<unsigned>(access);
  return modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "to INIT, port " + std::to_string(port));
}

Status QueuePair::rc_to_rtr(const RcPath& path) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = path.path_mtu;
  attributes.dest_qp_num = path.dest_qpn;
  attributes.rq_psn = path.rq_psn;
  attributes.max_dest_rd_atomic = path.max_dest_rd_atomic;
  attributes.min_rnr_timer = path.min_rnr_timer;
  attributes.ah_attr = path.address;
  return modify(attributes,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                "to RTR, peer " + path_text(path),
                "Check that the peer's address answers (ping), that the local GID index still "
                "exists and that the path MTU is not above the port's active MTU.");
}

Status QueuePair::rc_to_rts(const RcPath& path) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = path.sq_psn;
  attributes.timeout = path.timeout;
  attributes.retry_cnt = path.retry_count;
  attributes.rnr_retry = path.rnr_retry;
  attributes.max_rd_atomic = path.max_rd_atomic;
  return modify(attributes,
                IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                "to RTS, timeout " + std::to_string(path.timeout) + ", retries " +
                    std::to_string(path.retry_count) + ", outstanding reads " +
                    std::to_string(path.max_rd_atomic));
}

Status QueuePair::ud_to_rts(uint8_t port, uint32_t qkey, uint32_t sq_psn) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port;
  attributes.qkey = qkey;
  Status status = modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
                         "to INIT, UD, port " + std::to_string(port));
  if (!status) return status;
  attributes.qp_state = IBV_QPS_RTR;
  status = modify(attributes, IBV_QP_STATE, "to RTR, UD");
  if (!status) return status;
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = sq_psn;
  return modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN, "to RTS, UD");
}

Status QueuePair::to_error() const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return modify(attributes, IBV_QP_STATE, "to ERR");
}

Status QueuePair::to_reset() const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  return modify(attributes, IBV_QP_STATE, "to RESET");
}

Result<ibv_qp_state> QueuePair::state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  const int error = table().query_qp(get(), &attributes, IBV_QP_STATE, &init);
  if (error != 0) {
    return call_failed(device_name(table(), get()->context), "query_qp", error, "");
  }
  return attributes.qp_state;
}

}  // namespace roce::verbs

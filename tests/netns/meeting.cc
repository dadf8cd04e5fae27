#include "meeting.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace roce::test {
namespace {

constexpr uint16_t kTcpPort = 18600;

sockaddr_in tcp_address(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kTcpPort);
  if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1)
    die("%s is no address", text.c_str());
  return address;
}

}  // namespace

void die(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fflush(stdout);
  std::fprintf(stderr, "%s: ", program_invocation_short_name);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::_Exit(1);
}

void expect(int error, const char* what) {
  if (error != 0) die("%s: %s", what, std::strerror(error));
}

Port open_port(const std::string& own) {
  uint8_t wanted[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (inet_pton(AF_INET, own.c_str(), wanted + 12) != 1) die("%s is no address", own.c_str());
  Port port;
  ibv_device** list = soft::get_device_list(nullptr);
  for (int i = 0; list != nullptr && list[i] != nullptr && port.gid_index < 0; ++i) {
    port.context = soft::open_device(list[i]);
    if (port.context == nullptr) continue;
    for (int k = 0; port.gid_index < 0 && soft::query_gid(port.context, 1, k, &port.gid) == 0;
         ++k) {
      if (std::memcmp(port.gid.raw, wanted, 16) == 0) port.gid_index = k;
    }
    if (port.gid_index < 0) soft::close_device(port.context);
  }
  soft::free_device_list(list);
  if (port.gid_index < 0) die("no device has the address %s", own.c_str());
  return port;
}

QpName name_of(const ibv_qp& qp, const Port& port) {
  QpName name{};
  name.qpn = qp.qp_num;
  name.psn = 0xFFFF00;  // So that it wraps soon.
  name.gid = port.gid;
  soft::device_hints(port.context, &name.hints);
  return name;
}

Knowledge knowledge_of(const std::string& text) {
  if (text == "plain") return Knowledge::kAsked;
  if (text != "foreign") die("plain or foreign, not %s", text.c_str());
  return Knowledge::kForeign;
}

void initialize(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  expect(soft::modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "INIT");
}

void connect_qp(ibv_qp* qp, const Port& port, const QpName& own, const QpName& peer,
                const PathChoice& path) {
  if (path.knowledge != Knowledge::kAsked) {
    soft::PeerHints hints;
    hints.udp_port = peer.hints.udp_port;
    if (path.knowledge == Knowledge::kTold) {
      hints = peer.hints;
      hints.max_path_mtu_bytes = std::min(hints.max_path_mtu_bytes, own.hints.max_path_mtu_bytes);
    }
    expect(soft::set_peer_hints(qp, &hints), "set_peer_hints");
  }
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = 8;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(port.gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  expect(soft::modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = path.timeout;
  attr.retry_cnt = path.retry_cnt;
  attr.rnr_retry = 7;
  attr.sq_psn = own.psn;
  attr.max_rd_atomic = 8;
  expect(soft::modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
}

int listen_at(const std::string& own) {
  const sockaddr_in address = tcp_address(own);
  const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 64) != 0) {
    die("TCP port %u: %s", kTcpPort, std::strerror(errno));
  }
  return listener;
}

int accept_from(int listener) {
  const int fd = accept(listener, nullptr, nullptr);
  if (fd < 0) die("accept: %s", std::strerror(errno));
  return fd;
}

int connect_to(const std::string& server) {
  const sockaddr_in address = tcp_address(server);
  for (int tries = 0; tries < 200; ++tries) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    close(fd);
    usleep(50'000);
  }
  die("no server after 10 s");
}

void tell(int fd, const void* data, size_t bytes) {
  if (send(fd, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) die("the peer went away");
}

void hear(int fd, void* data, size_t bytes) {
  if (recv(fd, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) die("the peer went away");
}

}  // namespace roce::test

#include "soft/interfaces_netlink.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace roce::soft {
namespace {

constexpr size_t kAnswerBytes = 64 * 1024;  // The kernel fills at most 32 KiB per datagram.
constexpr int kMaxDatagrams = 4096;
constexpr int kAnswerTimeoutMs = 2000;
constexpr int kDumpTries = 5;

enum class Outcome { kDone, kInterrupted, kFailed };

size_t aligned(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

void append(std::vector<uint8_t>& to, const void* from, size_t bytes) {
  const auto* first = static_cast<const uint8_t*>(from);
  to.insert(to.end(), first, first + bytes);
  to.resize(aligned(to.size()));
}

// One datagram of answers from the kernel; false with errno.
bool read_answer(int fd, std::vector<uint8_t>& buffer, size_t* bytes) {
  for (int i = 0; i < kMaxDatagrams; ++i) {
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, kAnswerTimeoutMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      if (ready == 0) errno = ETIMEDOUT;
      return false;
    }
    sockaddr_nl from{};
    socklen_t from_bytes = sizeof from;
    const ssize_t got = recvfrom(fd, buffer.data(), buffer.size(), MSG_TRUNC | MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return false;
    if (from.nl_pid != 0) continue;  // Only the kernel is believed.
    if (static_cast<size_t>(got) > buffer.size()) {
      errno = EMSGSIZE;
      return false;
    }
    *bytes = static_cast<size_t>(got);
    return true;
  }
  errno = ETIMEDOUT;
  return false;
}

Outcome ask_once(std::span<uint8_t> request, const std::function<void(const NetlinkMessage&)>& take,
                 int* error) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  *error = errno;
  if (fd < 0) return Outcome::kFailed;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  Outcome outcome = Outcome::kFailed;
  bool finished = sendto(fd, request.data(), request.size(), 0,
                         reinterpret_cast<sockaddr*>(&kernel), sizeof kernel) < 0;
  *error = finished ? errno : EPROTO;
  bool interrupted = false;
  std::vector<uint8_t> buffer(kAnswerBytes);
  for (int i = 0; !finished && i < kMaxDatagrams; ++i) {
    size_t bytes = 0;
    if (!read_answer(fd, buffer, &bytes)) {
      *error = errno;
      break;
    }
    walk_netlink(
        {buffer.data(), bytes}, [&](const nlmsghdr& header, const NetlinkMessage& message) {
          interrupted |= (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
          if (message.type == NLMSG_ERROR) *error = -message.fixed<nlmsgerr>().error;
          const bool failed = message.type == NLMSG_ERROR && *error != 0;
          if (message.type != NLMSG_ERROR && message.type != NLMSG_DONE) take(message);
          if (message.type == NLMSG_DONE || message.type == NLMSG_ERROR ||
              (header.nlmsg_flags & NLM_F_MULTI) == 0) {
            finished = true;
            outcome =
                failed ? Outcome::kFailed : (interrupted ? Outcome::kInterrupted : Outcome::kDone);
          }
          return !finished;
        });
  }
  close(fd);
  return outcome;
}

}  // namespace

std::span<const uint8_t> find_attribute(std::span<const uint8_t> attributes, uint16_t type) {
  while (attributes.size() >= sizeof(rtattr)) {
    rtattr header;
    std::memcpy(&header, attributes.data(), sizeof header);
    if (header.rta_len < sizeof header || header.rta_len > attributes.size()) return {};
    if ((header.rta_type & NLA_TYPE_MASK) == type) {
      return attributes.subspan(sizeof header, header.rta_len - sizeof header);
    }
    attributes = attributes.subspan(std::min(aligned(header.rta_len), attributes.size()));
  }
  return {};
}

std::span<const uint8_t> attributes_after(const NetlinkMessage& message, size_t fixed_bytes) {
  return message.body.subspan(std::min(aligned(fixed_bytes), message.body.size()));
}

uint32_t attribute_u32(std::span<const uint8_t> value, uint32_t otherwise) {
  uint32_t number = otherwise;
  if (value.size() >= sizeof number) std::memcpy(&number, value.data(), sizeof number);
  return number;
}

NetlinkRequest::NetlinkRequest(uint16_t type, uint16_t flags, const void* fixed, size_t bytes) {
  nlmsghdr header{};
  header.nlmsg_type = type;
  header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  header.nlmsg_seq = 1;
  append(bytes_, &header, sizeof header);
  append(bytes_, fixed, bytes);
}

void NetlinkRequest::add_attribute(uint16_t type, const void* value, size_t bytes) {
  const rtattr header{static_cast<unsigned short>(sizeof(rtattr) + bytes), type};
  append(bytes_, &header, sizeof header);
  append(bytes_, value, bytes);
}

void walk_netlink(std::span<const uint8_t> datagram,
                  const std::function<bool(const nlmsghdr&, const NetlinkMessage&)>& take) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, datagram.data(), sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > datagram.size()) return;
    const NetlinkMessage message{header.nlmsg_type,
                                 datagram.subspan(sizeof header, header.nlmsg_len - sizeof header)};
    if (!take(header, message)) return;
    datagram = datagram.subspan(std::min(aligned(header.nlmsg_len), datagram.size()));
  }
}

Status netlink_ask(NetlinkRequest request, const std::function<void(const NetlinkMessage&)>& take,
                   int* error) {
  const std::span<uint8_t> bytes = request.bytes();
  const auto total = static_cast<uint32_t>(bytes.size());
  std::memcpy(bytes.data() + offsetof(nlmsghdr, nlmsg_len), &total, sizeof total);
  // A dump during which something changed may miss an entry: it is taken again. Callers keep the
  // last value of an entry that comes twice.
  for (int i = 0; i < kDumpTries; ++i) {
    const Outcome outcome = ask_once(bytes, take, error);
    if (outcome == Outcome::kInterrupted) continue;
    if (outcome == Outcome::kDone) {
      *error = 0;
      return Status::ok();
    }
    return Status(Code::kDevice, std::string("rtnetlink: ") + std::strerror(*error));
  }
  *error = 0;  // Something changes all the time; what came is as good as any.
  return Status::ok();
}

}  // namespace roce::soft

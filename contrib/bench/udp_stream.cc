// One-way stream over plain UDP sockets in trains of packets, each packet with a header and a CRC32
// that both sides compute: the floor of bandwidth on this host for a transport over UDP.
//
//   udp_stream -s 4096                      two processes on loopback
//   udp_stream -l 10.77.0.2                 server; ends with its client, or after -t seconds
//   udp_stream -c 10.77.0.2 -s 1024         client, on another host
//
// A packet is 12 bytes of header, -s bytes of payload gathered from a buffer of -m MiB, and the
// CRC32 (ISA-L) of both. A train of them leaves by one UDP_SEGMENT send and arrives by UDP_GRO. The
// receiver acknowledges each batch; at most -w bytes are unacknowledged (default: what the receiver
// says its receive buffer holds; 0: no bound, losses are then likely and counted). Prints payload
// MB/s that arrived. Options: -s payload (4096), -g packets of a train (as many as fit in 64 KiB),
// -n packets at most, -t seconds at most (3), -w bytes, -m MiB (16), -z no CRC, -a CPU (pinned
// there; on loopback the peer is on the next one, and the default is 0).
#include <isa-l/crc.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace {

using namespace bench;

constexpr int kPort = 18516;
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kCrcBytes = 4;
constexpr std::size_t kMaxTrainBytes = 65000;
constexpr std::size_t kMaxTrainPackets = 64;
constexpr std::size_t kReceiverDecides = SIZE_MAX;

struct Options {
  std::size_t payload_bytes = 4096;
  std::size_t train_packets = kMaxTrainPackets;
  long packets = 1L << 40;
  long seconds = 3;
  std::size_t window_bytes = kReceiverDecides;
  std::size_t memory_mib = 16;
  bool crc = true;
  int cpu = -1;  // not pinned
};

struct Header {
  std::uint64_t number;  // of the packet; kEnd asks for the last report
  std::uint32_t crc_on;
};
static_assert(sizeof(std::uint64_t) + sizeof(std::uint32_t) == kHeaderBytes);
constexpr std::uint64_t kEnd = ~std::uint64_t{0};

// What the receiver sends back.
struct Report {
  std::uint64_t highest;  // number of the last packet seen, plus 1
  std::uint64_t received;
  std::uint64_t wrong_crc;
  std::uint64_t buffer_bytes;  // of packets that the receive buffer holds
};

// ------------------------------------------------------------------------------------------------
// Receiver

class Receiver {
 public:
  Receiver(int fd, const Options& options) : fd_(fd), options_(options) {
    const int on = 1;
    if (setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on) != 0) die("setsockopt UDP_GRO", errno);
    int buffer_bytes = 0;
    socklen_t length = sizeof buffer_bytes;
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, &length) != 0) {
      die("getsockopt SO_RCVBUF", errno);
    }
    // The kernel charges trains with 2.05 times their length.
    report_.buffer_bytes = static_cast<std::uint64_t>(buffer_bytes) * 2 / 5;
    for (std::size_t i = 0; i < kBatch; ++i) {
      buffers_[i].resize(65536);
      vectors_[i] = {buffers_[i].data(), buffers_[i].size()};
    }
  }

  void run() {
    const Clock::time_point start = Clock::now();
    for (std::uint64_t polls = 0; !ended_; ++polls) {
      if (!batch() && polls % 1024 == 0 &&
          seconds_since(start) > static_cast<double>(options_.seconds) + 5) {
        return;
      }
    }
  }

 private:
  static constexpr std::size_t kBatch = 4;

  bool batch() {
    for (std::size_t i = 0; i < kBatch; ++i) {
      messages_[i].msg_hdr = {};
      messages_[i].msg_hdr.msg_name = &from_.storage;
      messages_[i].msg_hdr.msg_namelen = sizeof from_.storage;
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
      messages_[i].msg_hdr.msg_control = controls_[i].data();
      messages_[i].msg_hdr.msg_controllen = controls_[i].size();
    }
    const int count = recvmmsg(fd_, messages_.data(), kBatch, 0, nullptr);
    if (count < 0 && errno != EAGAIN) die("recvmmsg", errno);
    if (count <= 0) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      train(buffers_[i].data(), messages_[i].msg_len, segment_bytes(&messages_[i]));
    }
    from_.length = messages_[0].msg_hdr.msg_namelen;
    // A lost report is made up for by the next one; the sender asks again for the last.
    sendto(fd_, &report_, sizeof report_, 0, from_.get(), from_.length);
    return true;
  }

  static std::size_t segment_bytes(mmsghdr* message) {
    for (cmsghdr* each = CMSG_FIRSTHDR(&message->msg_hdr); each != nullptr;
         each = CMSG_NXTHDR(&message->msg_hdr, each)) {
      if (each->cmsg_level != SOL_UDP || each->cmsg_type != UDP_GRO) continue;
      int bytes = 0;
      std::memcpy(&bytes, CMSG_DATA(each), sizeof bytes);
      return static_cast<std::size_t>(bytes);
    }
    return message->msg_len;
  }

  void train(const unsigned char* data, std::size_t bytes, std::size_t segment) {
    while (bytes >= kHeaderBytes) {
      const std::size_t part = std::min(bytes, segment);
      packet(data, part);
      data += part;
      bytes -= part;
    }
  }

  void packet(const unsigned char* data, std::size_t bytes) {
    Header header;
    std::memcpy(&header.number, data, sizeof header.number);
    std::memcpy(&header.crc_on, data + sizeof header.number, sizeof header.crc_on);
    if (header.number == kEnd) {
      ended_ = true;
      return;
    }
    report_.highest = std::max(report_.highest, header.number + 1);
    ++report_.received;
    if (header.crc_on == 0 || bytes < kHeaderBytes + kCrcBytes) return;
    std::uint32_t crc;
    std::memcpy(&crc, data + bytes - kCrcBytes, sizeof crc);
    if (crc32_gzip_refl(0, data, bytes - kCrcBytes) != crc) ++report_.wrong_crc;
  }

  int fd_;
  const Options& options_;
  Address from_;
  Report report_{};
  bool ended_ = false;
  std::array<std::vector<unsigned char>, kBatch> buffers_;
  std::array<iovec, kBatch> vectors_;
  std::array<mmsghdr, kBatch> messages_{};
  alignas(cmsghdr) std::array<std::array<unsigned char, 64>, kBatch> controls_{};
};

// ------------------------------------------------------------------------------------------------
// Sender

class Sender {
 public:
  Sender(int fd, const Address& to, const Options& options)
      : fd_(fd), to_(to), options_(options), memory_(options.memory_mib << 20) {
    segment_bytes_ = kHeaderBytes + options.payload_bytes + (options.crc ? kCrcBytes : 0);
    train_packets_ = std::clamp<std::size_t>(kMaxTrainBytes / segment_bytes_, 1,
                                             std::min(options.train_packets, kMaxTrainPackets));
    const int bytes = static_cast<int>(segment_bytes_);
    if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &bytes, sizeof bytes) != 0) {
      die("setsockopt UDP_SEGMENT", errno);
    }
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      memory_[i] = static_cast<unsigned char>(i * 2654435761u >> 24);
    }
  }

  void run() {
    const Clock::time_point start = Clock::now();
    const auto limit = static_cast<std::uint64_t>(options_.packets);
    while (sent_ < limit && seconds_since(start) < static_cast<double>(options_.seconds)) {
      wait_for_window();
      train();
      poll_reports();
    }
    finish();
    const double seconds = std::chrono::duration<double>(last_report_ - start).count();
    const double bytes =
        static_cast<double>(report_.received) * static_cast<double>(options_.payload_bytes);
    std::printf("# raw UDP stream, %s CRC32\n# %-8s %8s %12s %8s %12s %10s %10s\n",
                options_.crc ? "with" : "without", "Size", "Train", "Packets", "Seconds", "MB/s",
                "Lost", "Wrong CRC");
    std::printf("%-10zu %8zu %12llu %8.3f %12.1f %10llu %10llu\n", options_.payload_bytes,
                train_packets_, static_cast<unsigned long long>(report_.received), seconds,
                bytes / seconds / 1e6, static_cast<unsigned long long>(sent_ - report_.received),
                static_cast<unsigned long long>(report_.wrong_crc));
    if (report_.wrong_crc != 0) die("packets arrived with a wrong CRC32");
  }

 private:
  // What never arrived must not hold up the stream for ever.
  void wait_for_window() {
    const std::uint64_t train_bytes = train_packets_ * segment_bytes_;
    const std::uint64_t window_bytes =
        options_.window_bytes == kReceiverDecides ? report_.buffer_bytes : options_.window_bytes;
    const Clock::time_point start = Clock::now();
    while (options_.window_bytes != 0 && sent_ > forgiven_ &&
           (sent_ - forgiven_) * segment_bytes_ + train_bytes > window_bytes) {
      poll_reports();
      if (seconds_since(start) > 0.02) forgiven_ = sent_;
    }
  }

  void train() {
    std::size_t part = 0;
    for (std::size_t i = 0; i < train_packets_; ++i) {
      if (position_ + options_.payload_bytes > memory_.size()) position_ = 0;
      unsigned char* payload = memory_.data() + position_;
      position_ += options_.payload_bytes;
      const std::uint64_t number = sent_ + i;
      const std::uint32_t crc_on = options_.crc ? 1 : 0;
      std::memcpy(headers_[i].data(), &number, sizeof number);
      std::memcpy(headers_[i].data() + sizeof number, &crc_on, sizeof crc_on);
      vectors_[part++] = {headers_[i].data(), kHeaderBytes};
      vectors_[part++] = {payload, options_.payload_bytes};
      if (!options_.crc) continue;
      crcs_[i] = crc32_gzip_refl(crc32_gzip_refl(0, headers_[i].data(), kHeaderBytes), payload,
                                 options_.payload_bytes);
      vectors_[part++] = {&crcs_[i], kCrcBytes};
    }
    send(part);
    sent_ += train_packets_;
  }

  void send(std::size_t parts) {
    msghdr message{};
    message.msg_name = to_.get();
    message.msg_namelen = to_.length;
    message.msg_iov = vectors_.data();
    message.msg_iovlen = parts;
    while (sendmsg(fd_, &message, 0) < 0) {
      if (errno == EAGAIN || errno == ECONNREFUSED) continue;
      if (errno == EINVAL) errno = EMSGSIZE;  // UDP_SEGMENT says so when a segment exceeds the MTU
      die(send_error(errno, segment_bytes_));
    }
  }

  void poll_reports() {
    Report report;
    while (recv(fd_, &report, sizeof report, 0) == sizeof report) {
      if (report.received < report_.received) continue;
      if (report.received > report_.received) last_report_ = Clock::now();
      report_ = report;
      forgiven_ = std::max(forgiven_, report.highest);
    }
  }

  // Until everything has been counted or is certainly lost.
  void finish() {
    const Clock::time_point start = Clock::now();
    while (report_.received < sent_ && seconds_since(start) < 0.2) poll_reports();
    const int off = 0;
    setsockopt(fd_, SOL_UDP, UDP_SEGMENT, &off, sizeof off);
    std::memcpy(headers_[0].data(), &kEnd, sizeof kEnd);
    for (int i = 0; i < 3; ++i) {
      sendto(fd_, headers_[0].data(), kHeaderBytes, 0, to_.get(), to_.length);
    }
    if (report_.received == 0) die("no reports from the receiver");
  }

  int fd_;
  Address to_;
  const Options& options_;
  std::vector<unsigned char> memory_;
  std::size_t segment_bytes_ = 0;
  std::size_t train_packets_ = 0;
  std::size_t position_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t forgiven_ = 0;  // packets before this one are no longer in flight
  Report report_{};
  Clock::time_point last_report_ = Clock::now();
  std::array<std::array<unsigned char, kHeaderBytes>, kMaxTrainPackets> headers_;
  std::array<std::uint32_t, kMaxTrainPackets> crcs_;
  std::array<iovec, 3 * kMaxTrainPackets> vectors_;
};

void loopback(const Options& options) {
  const int cpu = std::max(options.cpu, 0);  // two polling processes must not share one
  Address server = parse_address("127.0.0.1", 0);
  Address client = server;
  const int server_fd = open_socket(AF_INET, &server);
  const int client_fd = open_socket(AF_INET, &client);
  const pid_t child = fork();
  if (child < 0) die("fork", errno);
  if (child == 0) {
    pin(cpu + 1);
    Receiver(server_fd, options).run();
    std::_Exit(0);
  }
  pin(cpu);
  Sender(client_fd, server, options).run();
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) die("the receiving process failed");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string listen;
  std::string connect;
  for (int letter; (letter = getopt(argc, argv, "s:g:n:t:w:m:za:l:c:")) != -1;) {
    switch (letter) {
      case 's':
        options.payload_bytes = static_cast<std::size_t>(parse_number(optarg, 1, 60000, "-s"));
        break;
      case 'g':
        options.train_packets = static_cast<std::size_t>(parse_number(optarg, 1, 64, "-g"));
        break;
      case 'n':
        options.packets = parse_number(optarg, 1, 1L << 40, "-n");
        break;
      case 't':
        options.seconds = parse_number(optarg, 1, 3600, "-t");
        break;
      case 'w':
        options.window_bytes = static_cast<std::size_t>(parse_number(optarg, 0, 1L << 30, "-w"));
        break;
      case 'm':
        options.memory_mib = static_cast<std::size_t>(parse_number(optarg, 1, 1024, "-m"));
        break;
      case 'z':
        options.crc = false;
        break;
      case 'a':
        options.cpu = static_cast<int>(parse_number(optarg, 0, 4095, "-a"));
        break;
      case 'l':
        listen = optarg;
        break;
      case 'c':
        connect = optarg;
        break;
      default:
        die("options: -s BYTES -g PACKETS -n PACKETS -t SECONDS -w BYTES -m MIB -z -a CPU, "
            "-l ADDRESS or -c ADDRESS");
    }
  }
  if (!listen.empty()) {
    pin(options.cpu);
    Address local = parse_address(listen, kPort);
    Receiver(open_socket(local.family(), &local), options).run();
  } else if (!connect.empty()) {
    pin(options.cpu);
    const Address server = parse_address(connect, kPort);
    Sender(open_socket(server.family(), nullptr), server, options).run();
  } else {
    loopback(options);
  }
  return 0;
}

// Ping-pong over plain UDP sockets by two busy-polling processes: the floor of latency on this
// host.
//
//   udp_pingpong -s 8                       two processes on loopback
//   udp_pingpong -l 10.77.0.2               server; ends with its client, or after -t seconds
//   udp_pingpong -c 10.77.0.2 -s 8          client, on another host
//
// Prints half the round trip in microseconds: min, median, mean and 99th percentile. Options: -s
// payload bytes (8), -n round trips (20000), -w warm-up (1000), -t seconds at most (10), -a CPU
// (the process is pinned there; on loopback the peer is on the next one, and the default is 0).
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "udp.h"

namespace {

using namespace bench;

constexpr int kPort = 18515;
constexpr std::uint64_t kBye = ~std::uint64_t{0};

struct Options {
  std::size_t bytes = 8;
  long round_trips = 20000;
  long warmup = 1000;
  long seconds = 10;
  int cpu = -1;  // not pinned
};

std::uint64_t number_in(const std::vector<std::byte>& payload) {
  std::uint64_t number;
  std::memcpy(&number, payload.data(), sizeof number);
  return number;
}

// Answers every datagram with its own content until the client says goodbye.
void serve(int fd, const Options& options) {
  std::vector<std::byte> payload(65536);
  const Clock::time_point start = Clock::now();
  for (std::uint64_t polls = 0;; ++polls) {
    Address from;
    from.length = sizeof from.storage;
    const ssize_t got = recvfrom(fd, payload.data(), payload.size(), 0, from.get(), &from.length);
    if (got >= 0) {
      if (static_cast<std::size_t>(got) >= sizeof(std::uint64_t) && number_in(payload) == kBye) {
        return;
      }
      if (sendto(fd, payload.data(), static_cast<std::size_t>(got), 0, from.get(), from.length) <
          0) {
        die(send_error(errno, static_cast<std::size_t>(got)));
      }
    } else if (errno != EAGAIN) {
      die("recvfrom", errno);
    } else if (polls % 1024 == 0 && seconds_since(start) > static_cast<double>(options.seconds)) {
      return;
    }
  }
}

// Nanoseconds of one round trip; negative if nothing came within 100 ms.
double round_trip(int fd, const Address& to, std::vector<std::byte>* out,
                  std::vector<std::byte>* in, std::uint64_t number) {
  std::memcpy(out->data(), &number, sizeof number);
  const Clock::time_point start = Clock::now();
  if (sendto(fd, out->data(), out->size(), 0, to.get(), to.length) < 0) {
    die(send_error(errno, out->size()));
  }
  for (std::uint64_t polls = 1;; ++polls) {
    Address from;
    from.length = sizeof from.storage;
    const ssize_t got = recvfrom(fd, in->data(), in->size(), 0, from.get(), &from.length);
    if (got == static_cast<ssize_t>(out->size()) && number_in(*in) == number) {
      return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    }
    // ECONNREFUSED: the server is not there yet.
    if (got < 0 && errno != EAGAIN && errno != ECONNREFUSED) die("recvfrom", errno);
    if (polls % 1024 == 0 && seconds_since(start) > 0.1) return -1;
  }
}

void measure(int fd, const Address& to, const Options& options) {
  std::vector<std::byte> out(options.bytes);
  std::vector<std::byte> in(options.bytes + 1);
  std::vector<double> half_us;
  long lost = 0;
  long lost_in_a_row = 0;
  const Clock::time_point start = Clock::now();
  for (long i = -options.warmup; i < options.round_trips; ++i) {
    if (seconds_since(start) > static_cast<double>(options.seconds)) break;
    const double round_ns =
        round_trip(fd, to, &out, &in, static_cast<std::uint64_t>(i + options.warmup));
    if (round_ns < 0) {
      ++lost;
      if (++lost_in_a_row == 30) die("no answers for 3 seconds");
      continue;
    }
    lost_in_a_row = 0;
    if (i >= 0) half_us.push_back(round_ns / 2000);
  }
  std::memcpy(out.data(), &kBye, sizeof kBye);
  sendto(fd, out.data(), out.size(), 0, to.get(), to.length);
  if (half_us.empty()) die("no answers");
  std::sort(half_us.begin(), half_us.end());
  const double mean =
      std::accumulate(half_us.begin(), half_us.end(), 0.0) / static_cast<double>(half_us.size());
  std::printf("# raw UDP ping-pong, half round trip (us)\n# %-8s %10s %8s %8s %8s %8s %8s\n",
              "Size", "Round trips", "Min", "Median", "Mean", "P99", "Lost");
  std::printf("%-10zu %11zu %8.2f %8.2f %8.2f %8.2f %8ld\n", options.bytes, half_us.size(),
              half_us.front(), half_us[half_us.size() / 2], mean,
              half_us[half_us.size() * 99 / 100], lost);
}

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
    serve(server_fd, options);
    std::_Exit(0);
  }
  pin(cpu);
  measure(client_fd, server, options);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) die("the answering process failed");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string listen;
  std::string connect;
  for (int letter; (letter = getopt(argc, argv, "s:n:w:t:a:l:c:")) != -1;) {
    switch (letter) {
      case 's':
        options.bytes = static_cast<std::size_t>(parse_number(optarg, 8, 65507, "-s"));
        break;
      case 'n':
        options.round_trips = parse_number(optarg, 1, 100000000, "-n");
        break;
      case 'w':
        options.warmup = parse_number(optarg, 0, 100000000, "-w");
        break;
      case 't':
        options.seconds = parse_number(optarg, 1, 3600, "-t");
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
        die("options: -s BYTES -n COUNT -w WARMUP -t SECONDS -a CPU, -l ADDRESS or -c ADDRESS");
    }
  }
  if (!listen.empty()) {
    pin(options.cpu);
    Address local = parse_address(listen, kPort);
    serve(open_socket(local.family(), &local), options);
  } else if (!connect.empty()) {
    pin(options.cpu);
    const Address server = parse_address(connect, kPort);
    measure(open_socket(server.family(), nullptr), server, options);
  } else {
    loopback(options);
  }
  return 0;
}

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/roce_info.h"
#include "verbs/discovery.h"

namespace roce::tools {
namespace {

const char* distance_text(int distance) {
  switch (distance) {
    case 0:
      return "near";
    case 1:
      return "same package";
    case 2:
      return "far";
    default:
      return "";
  }
}

void print_candidate(const verbs::Candidate& candidate) {
  std::printf("  %s port %d", candidate.device.c_str(), candidate.port);
  if (candidate.table->is_soft) std::printf(" (software device)");
  if (!candidate.netdev.empty()) std::printf(", interface %s", candidate.netdev.c_str());
  if (candidate.speed_mbps != 0) std::printf(", %u Mb/s", candidate.speed_mbps);
  std::printf(", MTU %u", candidate.active_mtu_bytes);
  if (candidate.distance >= 0) std::printf(", %s", distance_text(candidate.distance));
  std::printf("\n");
  for (const verbs::Gid& gid : candidate.gids) std::printf("    %s\n", gid_text(gid).c_str());
}

void print_limits() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    if (limit.rlim_cur == RLIM_INFINITY) {
      std::printf("  locked memory: unlimited\n");
    } else {
      std::printf("  locked memory: %llu KiB (ulimit -l; RDMA devices need more than a few MiB)\n",
                  static_cast<unsigned long long>(limit.rlim_cur / 1024));
    }
  }
  if (std::FILE* file = std::fopen("/proc/sys/net/core/rmem_max", "re"); file != nullptr) {
    unsigned long long bytes = 0;
    if (std::fscanf(file, "%llu", &bytes) == 1) {
      std::printf("  net.core.rmem_max: %llu bytes (receive memory of the software device)\n",
                  bytes);
    }
    std::fclose(file);
  }
}

}  // namespace

int print_devices(const transport::Params& params) {
  std::vector<const verbs::Table*> tables;
  if (params.soft != "on") tables.push_back(&verbs::system_table());
  if (params.soft != "off") tables.push_back(&verbs::soft_table());
  verbs::Discovery found = verbs::discover(tables, true);

  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  std::printf("Usable on %s:\n", host);
  for (const verbs::Candidate& candidate : found.candidates) print_candidate(candidate);
  if (found.candidates.empty()) std::printf("  nothing\n");
  if (!found.refusals.empty()) std::printf("Not usable:\n");
  for (const verbs::Refusal& refusal : found.refusals)
    std::printf("  %s\n", refusal.reason.c_str());
  std::printf("Limits:\n");
  print_limits();
  return static_cast<int>(found.candidates.size());
}

}  // namespace roce::tools

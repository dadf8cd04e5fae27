// roce_info: what mpi-roce finds on this host, its parameters and its counters.
#include <getopt.h>

#include <cstdio>
#include <string>

#include "roce_config.h"
#include "tools/roce_info.h"
#include "transport/counters.h"

namespace roce::tools {
namespace {

constexpr char kUsage[] =
    "Usage: roce_info [OPTION]...\n"
    "Shows the RDMA devices and network interfaces of this host as mpi-roce sees them, and why\n"
    "those that cannot be used cannot.\n"
    "\n"
    "  -d, --devices   devices and refusals (what is shown without an option)\n"
    "  -c, --config    every parameter with value, range and meaning; values as set by the\n"
    "                  environment variables ROCE_<NAME>\n"
    "  -n, --counters  every counter with its meaning\n"
    "  -V, --version   version and build\n"
    "  -h, --help      this text\n"
    "\n"
    "ROCE_SOFT=off leaves out the software device, ROCE_SOFT=on the RDMA devices.\n"
    "Exit status: 0, or 1 if no usable device was found or a parameter is out of its range, or 2\n"
    "for a wrong option.\n";

void print_version() {
  std::printf("mpi-roce %s, built for ", PACKAGE_VERSION);
#ifdef ROCE_OMPI_VERSION
  std::printf("Open MPI %s\n", ROCE_OMPI_VERSION);
#else
  std::printf("no Open MPI\n");
#endif
}

void print_config(const transport::Params& params) {
  const transport::Params defaults;
  for (const transport::ParamInfo& info : transport::param_table()) {
    const std::string fallback = param_value(defaults, info);
    std::printf("%s = %s\n", info.name, param_value(params, info).c_str());
    std::printf("    %s.\n", info.help);
    std::printf("    range %s, default %s, MCA variable btl_roce_%s, environment variable %s\n",
                param_range(info).c_str(), fallback.empty() ? "empty" : fallback.c_str(), info.name,
                param_environment_name(info).c_str());
  }
}

void print_counters() {
  for (int i = 0; i < static_cast<int>(transport::Counter::kCount); ++i) {
    const auto counter = static_cast<transport::Counter>(i);
    std::printf("%-24s %s\n", counter_name(counter), counter_help(counter));
  }
}

struct Wanted {
  bool devices = false, config = false, counters = false, version = false;
  bool nothing() const { return !devices && !config && !counters && !version; }
};

/// False: the answer is printed already, with this exit status.
bool read_options(int argc, char** argv, Wanted& wanted, int& status) {
  constexpr option kOptions[] = {
      {"devices", no_argument, nullptr, 'd'},  {"config", no_argument, nullptr, 'c'},
      {"counters", no_argument, nullptr, 'n'}, {"version", no_argument, nullptr, 'V'},
      {"help", no_argument, nullptr, 'h'},     {nullptr, 0, nullptr, 0}};
  int letter = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  while ((letter = getopt_long(argc, argv, "dcnVh", kOptions, nullptr)) != -1) {
    switch (letter) {
      case 'd':
        wanted.devices = true;
        break;
      case 'c':
        wanted.config = true;
        break;
      case 'n':
        wanted.counters = true;
        break;
      case 'V':
        wanted.version = true;
        break;
      case 'h':
        std::fputs(kUsage, stdout);
        status = 0;
        return false;
      default:
        std::fputs("Try `roce_info --help`.\n", stderr);
        status = 2;
        return false;
    }
  }
  if (optind < argc) {
    std::fprintf(stderr, "roce_info: unexpected argument \"%s\"\nTry `roce_info --help`.\n",
                 argv[optind]);
    status = 2;
    return false;
  }
  return true;
}

int run(int argc, char** argv) {
  Wanted wanted;
  int status = 0;
  if (!read_options(argc, argv, wanted, status)) return status;
  if (wanted.nothing()) wanted.version = wanted.devices = true;
  if (wanted.version) print_version();
  Result<transport::Params> params = transport::params_from_environment();
  if (!params && (wanted.config || wanted.devices)) {
    std::fprintf(stderr, "roce_info: %s\n", params.status().text().c_str());
    return 1;
  }
  if (wanted.config) print_config(*params);
  if (wanted.counters) print_counters();
  if (wanted.devices && print_devices(*params) == 0) return 1;
  return 0;
}

}  // namespace
}  // namespace roce::tools

int main(int argc, char** argv) { return roce::tools::run(argc, argv); }

#include "btl/messages.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "btl/ompi_compat.h"

namespace roce::btl {
namespace {

constexpr char kHelpFile[] = "help-mpi-btl-roce.txt";

/// True for the first process on this node that comes with this line. A file in the job's session
/// directory, which Open MPI removes at the end, remembers it.
bool first_to_say(const std::string& line) {
  const char* directory = opal_process_info.job_session_dir;
  if (directory == nullptr) return true;
  const std::string path =
      std::string(directory) + "/btl_roce_said_" + std::to_string(std::hash<std::string>{}(line));
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return errno != EEXIST;
  close(fd);
  return true;
}

}  // namespace

void add_help_directory() {
  const char* directory = std::getenv("ROCE_HELP_DIR");  // NOLINT(concurrency-mt-unsafe): set-up
  (void)opal_show_help_add_dir(directory != nullptr ? directory : ROCE_PKGDATADIR);
}

void say(const std::string& line) { opal_output(0, "btl roce: %s", line.c_str()); }

void say_once(const std::string& line) {
  if (first_to_say(line)) say(line);
}

void say_verbose(int level, const std::string& line) {
  opal_output_verbose(level, opal_btl_base_framework.framework_output, "btl roce: %s",
                      line.c_str());
}

void explain_not_usable(const std::string& reason) {
  // The reason may be a list, one line for each device: here it becomes one.
  std::string line;
  for (char c : reason) {
    if (c == '\n') c = ' ';
    if (c != ' ' || line.empty() || line.back() != ' ') line += c;
  }
  say_once("not used on " + own_host_name() + ": " + line);
  opal_show_help(kHelpFile, "not usable", true, own_host_name().c_str(), reason.c_str());
}

}  // namespace roce::btl

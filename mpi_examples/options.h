// Options of the example programs, the ranks, and the way out. To be included by common.h.
#pragma once

#include <getopt.h>
#include <mpi.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

namespace examples {

inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// Every rank must call it (all of them see the same command line); rank 0 prints the line.
[[noreturn]] inline void leave(int status, const std::string& line) {
  if (world_rank() == 0 && !line.empty()) {
    std::fprintf(status == 0 ? stdout : stderr, "%s\n", line.c_str());
  }
  MPI_Finalize();
  std::exit(status);
}

struct Options {
  std::size_t min_bytes = 1;
  std::size_t max_bytes = std::size_t{4} << 20;
  int iterations = 0;  // 0: chosen for each message size
  int warmup = -1;     // -1: chosen for each message size
  bool validate = false;
  int window = 64;
  std::string datatype = "contig";
  bool separate_buffers = false;
  int grid_points = 256;
  std::string transfer;  // one of the program's own names
  int servers = 0;       // 0: half of the ranks
  int blocks = 4096;
  int read_percent = 70;
  bool create_window = false;
};

inline constexpr std::size_t kLargeBytes = 8192;  // from here on fewer iterations are enough

inline int iterations_for(const Options& options, std::size_t bytes, int small, int large) {
  if (options.iterations > 0) return options.iterations;
  return bytes > kLargeBytes ? large : small;
}

inline int warmup_for(const Options& options, int iterations) {
  return options.warmup >= 0 ? options.warmup : std::max(1, iterations / 10);
}

// "64", "64K", "4M", "1G"; false if it is anything else or does not fit.
inline bool parse_bytes(const std::string& text, std::size_t* bytes) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text.c_str(), &end, 10);
  if (errno != 0) return false;
  const std::string suffix = end;
  int shift = 0;
  if (suffix == "K" || suffix == "k") {
    shift = 10;
  } else if (suffix == "M" || suffix == "m") {
    shift = 20;
  } else if (suffix == "G" || suffix == "g") {
    shift = 30;
  } else if (!suffix.empty()) {
    return false;
  }
  if (number > (std::size_t{1} << 40) >> shift) return false;
  *bytes = static_cast<std::size_t>(number) << shift;
  return true;
}

// "MAX", "MIN:MAX", "MIN:" or ":MAX".
inline bool parse_size_range(const std::string& text, Options* options) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return parse_bytes(text, &options->max_bytes);
  const std::string low = text.substr(0, colon);
  const std::string high = text.substr(colon + 1);
  return (low.empty() || parse_bytes(low, &options->min_bytes)) &&
         (high.empty() || parse_bytes(high, &options->max_bytes)) &&
         options->min_bytes <= options->max_bytes;
}

inline bool parse_count(const char* text, int lowest, int* count) {
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || number < lowest || number > INT_MAX)
    return false;
  *count = static_cast<int>(number);
  return true;
}

// One row per option; a program names the letters it takes.
struct OptionHelp {
  option row;
  const char* value;
  const char* help;
};

inline constexpr OptionHelp kOptionHelp[] = {
    {{"message-size", required_argument, nullptr, 'm'},
     "[MIN:]MAX",
     "bytes of a message or block (K, M, G)"},
    {{"iterations", required_argument, nullptr, 'i'},
     "N",
     "timed iterations or operations of each size"},
    {{"warmup", required_argument, nullptr, 'x'}, "N", "untimed iterations before them"},
    {{"validate", no_argument, nullptr, 'c'}, "", "check every message, not only some"},
    {{"window-size", required_argument, nullptr, 'W'}, "N", "messages or operations in flight"},
    {{"datatype", required_argument, nullptr, 'd'}, "NAME", "memory layout of a message: "},
    {{"buffer-num", required_argument, nullptr, 'b'}, "NAME", "receive buffers: single|multiple"},
    {{"grid", required_argument, nullptr, 'n'}, "N", "grid points a side"},
    {{"transfer", required_argument, nullptr, 't'}, "NAME", "how data moves: "},
    {{"servers", required_argument, nullptr, 's'}, "N", "ranks that are servers, the last ones"},
    {{"blocks", required_argument, nullptr, 'k'}, "N", "blocks of a client on each server"},
    {{"reads", required_argument, nullptr, 'r'}, "PERCENT", "share of reads, 0 to 100"},
    {{"window", required_argument, nullptr, 'w'}, "NAME", "memory of a window: allocate|create"},
    {{"help", no_argument, nullptr, 'h'}, "", "this text"},
};

inline std::string usage(const char* program, const std::string& letters,
                         const std::string& choices) {
  std::string text = std::string("usage: ") + program + " [options]";
  for (const OptionHelp& each : kOptionHelp) {
    if (letters.find(static_cast<char>(each.row.val)) == std::string::npos) continue;
    char line[128];
    std::snprintf(line, sizeof line, "\n  -%c, --%-13s %-10s %s", each.row.val, each.row.name,
                  each.value, each.help);
    text += line;
    if (each.row.val == 'd' || each.row.val == 't') text += choices;
  }
  return text;
}

// choices: names with '|' between.
inline bool choose(const std::string& name, const std::string& choices, std::string* chosen) {
  *chosen = name;
  return name.find('|') == std::string::npos &&
         ("|" + choices + "|").find("|" + name + "|") != std::string::npos;
}

inline bool take_option(int letter, const char* value, const std::string& choices,
                        Options* options) {
  switch (letter) {
    case 'm':
      return parse_size_range(value, options);
    case 'i':
      return parse_count(value, 1, &options->iterations);
    case 'x':
      return parse_count(value, 0, &options->warmup);
    case 'c':
      options->validate = true;
      return true;
    case 'W':
      return parse_count(value, 1, &options->window);
    case 'd':
      return choose(value, choices, &options->datatype);
    case 't':
      return choose(value, choices, &options->transfer);
    case 'b':
      options->separate_buffers = std::strcmp(value, "multiple") == 0;
      return options->separate_buffers || std::strcmp(value, "single") == 0;
    case 'n':
      return parse_count(value, 1, &options->grid_points);
    case 's':
      return parse_count(value, 1, &options->servers);
    case 'k':
      return parse_count(value, 1, &options->blocks);
    case 'r':
      return parse_count(value, 0, &options->read_percent) && options->read_percent <= 100;
    case 'w':
      options->create_window = std::strcmp(value, "create") == 0;
      return options->create_window || std::strcmp(value, "allocate") == 0;
    default:
      return false;
  }
}

// letters: the options of kOptionHelp that this program takes; choices: the names that -d or -t
// takes. Does not return on -h or an error.
inline Options parse_options(int argc, char** argv, const char* program, std::string letters,
                             Options options = {}, const std::string& choices = "contig|vector") {
  letters += 'h';
  std::string short_options = ":";
  option long_options[std::size(kOptionHelp) + 1] = {};
  std::size_t rows = 0;
  for (const OptionHelp& each : kOptionHelp) {
    if (letters.find(static_cast<char>(each.row.val)) == std::string::npos) continue;
    short_options += static_cast<char>(each.row.val);
    if (each.row.has_arg == required_argument) short_options += ':';
    long_options[rows++] = each.row;
  }
  for (int letter;
       (letter = getopt_long(argc, argv, short_options.c_str(), long_options, nullptr)) != -1;) {
    if (letter == 'h') leave(0, usage(program, letters, choices));
    const std::string name = std::string(program) + ": option -" +
                             static_cast<char>(letter == ':' || letter == '?' ? optopt : letter);
    if (letter == '?') {
      leave(2, std::string(program) + ": unknown option " + argv[optind - 1] + "; try --help");
    }
    if (letter == ':') leave(2, name + " needs a value; try --help");
    if (!take_option(letter, optarg, choices, &options)) {
      leave(2, name + " does not take \"" + optarg + "\"; try --help");
    }
  }
  if (optind < argc) {
    leave(2, std::string(program) + ": unexpected argument " + argv[optind] + "; try --help");
  }
  return options;
}

}  // namespace examples

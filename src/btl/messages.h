// What the component prints. Reasons are lines of their own on standard error, because mpirun loses
// a part of the messages of Open MPI's show_help.
#ifndef ROCE_BTL_MESSAGES_H_
#define ROCE_BTL_MESSAGES_H_

#include <string>

namespace roce::btl {

/// Lets show_help find our texts: ROCE_HELP_DIR (uninstalled builds), else where they are
/// installed.
void add_help_directory();

/// Prints one line, once on this node however many processes of the job say it.
void say_once(const std::string& line);
/// Prints one line of this process.
void say(const std::string& line);
/// Prints the line if btl_base_verbose is at least `level` (1..9).
void say_verbose(int level, const std::string& line);

/// Why roce is not used although the user wants it: one line, and advice through show_help.
void explain_not_usable(const std::string& reason);

}  // namespace roce::btl

#endif  // ROCE_BTL_MESSAGES_H_

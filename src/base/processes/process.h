// SPDX-License-Identifier: Apache-2.0
// Programs that this one starts: the one place that does. See run_process.h for one that is started, fed and waited
// for.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace transom {

enum class ProcessStream {
  kNothing,  // reads no byte, writes to nowhere
  kPipe,     // to be written or read by who started it
  kOurs,     // that of this process
};

struct ProcessOptions {
  std::string label;               // of whom errors speak: "rank 3"
  std::vector<std::string> words;  // program, looked up in PATH where it has no slash, and arguments
  // Added to the environment of this process; an empty value takes the variable out of it.
  std::vector<std::pair<std::string, std::string>> variables;
  ProcessStream input = ProcessStream::kNothing;
  ProcessStream output = ProcessStream::kPipe, error = ProcessStream::kPipe;
  int kept = -1;  // a descriptor of this process that stays open in the program, beside its three streams
};

// Two descriptors, what is written to the second is read from the first; programs that are started do not see them, and
// none is that of a standard stream, not even where this process has closed its own. Below 0 where there are no more.
struct PipeEnds {
  int read = -1, write = -1;
};
PipeEnds make_pipe();

// The program is the leader of a group of its own, so that what comes from the terminal reaches it through `signal`
// alone, and ends by SIGTERM when the thread that started it ends. Signals have their usual effect in it.
class Process {
 public:
  // Errors: it cannot be started, with the reason of the system.
  explicit Process(const ProcessOptions& options);
  // Kills the group where the program still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // This side's ends of its pipes, which nobody waits at; below 0: there is none. What is written to a program that
  // reads no more stays in the pipe: no signal comes of it.
  int input() const { return input_.write; }
  int output() const { return output_; }
  int error() const { return error_; }
  void close_input();
  void close_output();
  void close_error();

  bool is_running();  // asks the system; of one that has ended, what it started in its group gets SIGTERM
  // Whether it has ended before then.
  bool wait_until(std::chrono::steady_clock::time_point deadline);
  void signal(int number);  // to the whole group
  // Of the end: 0 or more the exit status, below 0 minus the signal; nothing where this process ignores SIGCHLD, or
  // somebody else waited for all of its children.
  std::optional<int> status() const { return status_; }

 private:
  pid_t id_ = 0;
  std::optional<int> status_;
  PipeEnds input_;
  int output_ = -1, error_ = -1;
};

// The file that a program's name stands for: itself with a slash, else the first in PATH. Empty: there is none.
std::string find_in_path(const std::string& name);

// The file of the program that runs.
std::string own_program();

}  // namespace transom

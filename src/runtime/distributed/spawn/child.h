// SPDX-License-Identifier: Apache-2.0
// A process that this one starts, and the lines that it writes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace transom {

struct ChildOptions {
  std::string label;               // "rank 3"
  std::vector<std::string> words;  // program, looked up in PATH, and arguments
  // Added to the environment of this process; an empty value takes the variable out of it.
  std::vector<std::pair<std::string, std::string>> variables;
  bool reads_input = false;  // that of this process; else nothing is there
};

// Takes a line of a child without its end, and whether it came over standard error.
using TakeLine = std::function<void(const ChildOptions& child, bool is_error, std::string_view line)>;

class Child {
 public:
  // Throws an Error that names the program where it cannot be started. The process gets SIGTERM when the thread that
  // made it ends.
  explicit Child(ChildOptions options);
  // Kills it where it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const ChildOptions& options() const { return options_; }
  int out() const { return pipes_[0].file; }  // to poll; below 0: closed
  int error() const { return pipes_[1].file; }
  // Takes what has been written so far, without waiting.
  void read(const TakeLine& take);
  // What it wrote last without ending the line; the pipes are closed.
  void finish(const TakeLine& take);

  bool is_running();  // asks the system
  void signal(int number);
  // Of the end: 0 or more the exit status; below 0 minus the signal.
  int status() const { return status_; }

 private:
  struct Pipe {
    int file = -1;
    std::string text;  // a line that has not ended
  };
  void read(size_t number, const TakeLine& take);

  ChildOptions options_;
  pid_t process_ = 0;
  int status_ = 0;
  Pipe pipes_[2];
};

}  // namespace transom

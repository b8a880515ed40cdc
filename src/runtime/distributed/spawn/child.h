// SPDX-License-Identifier: Apache-2.0
// A process that this one starts, and the lines that it writes.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/processes/process.h"

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
  // Throws an Error that names the program where it cannot be started.
  explicit Child(ChildOptions options);

  const ChildOptions& options() const { return options_; }
  int out() const { return process_.output(); }  // to poll; below 0: closed
  int error() const { return process_.error(); }
  // Takes what has been written so far, without waiting.
  void read(const TakeLine& take);
  // What it wrote last without ending the line; the pipes are closed.
  void finish(const TakeLine& take);

  bool is_running() { return process_.is_running(); }  // asks the system
  void signal(int number) { process_.signal(number); }
  // Of the end: 0 or more the exit status; below 0 minus the signal.
  int status() const;

 private:
  void read(size_t number, const TakeLine& take);
  void close(size_t number);

  ChildOptions options_;
  Process process_;
  std::string unended_[2];  // lines that have not ended
};

}  // namespace transom

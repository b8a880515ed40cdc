// SPDX-License-Identifier: Apache-2.0
// Runs the program as its users do: words in, exit status and what it wrote out.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "testing/places.h"

namespace transom::test {

struct Outcome {
  int status = -1;  // of the exit; -1: ended by a signal
  std::string output, error;
};

// A run of the program; kill() ends it at once, wait() lets it come to its end.
class Program {
 public:
  // `folder` takes what it writes to standard output and error. `file_limit`: the largest file it may write, in bytes.
  Program(const std::vector<std::string>& words, std::filesystem::path folder,
          std::optional<rlim_t> file_limit = std::nullopt)
      : folder_(std::move(folder)) {
    std::vector<std::string> all{program_path()};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> pointers;
    for (std::string& word : all) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string out = (folder_ / "standard_output").string(), err = (folder_ / "standard_error").string();
    process_ = ::fork();
    if (process_ != 0) return;
    const int to_out = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644),
              to_err = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(to_out, 1);
    ::dup2(to_err, 2);
    if (file_limit) {
      const rlimit limit{*file_limit, *file_limit};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ~Program() {
    if (process_ > 0) kill();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t process() const { return process_; }
  bool is_running() {
    if (process_ > 0 && ::waitpid(process_, &state_, WNOHANG) == process_) process_ = 0;
    return process_ > 0;
  }
  void signal(int number) {
    if (process_ > 0) ::kill(process_, number);
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    wait();
  }
  Outcome wait() {
    if (process_ > 0) ::waitpid(process_, &state_, 0);
    process_ = 0;
    return {WIFEXITED(state_) ? WEXITSTATUS(state_) : -1, text("standard_output"), text("standard_error")};
  }

 private:
  std::string text(const char* name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::filesystem::path folder_;
  pid_t process_ = 0;
  int state_ = 0;
};

}  // namespace transom::test

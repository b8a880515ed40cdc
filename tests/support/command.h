// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace transom::test {

struct CommandOutcome {
  int status = -1;     // of the exit; -1: ended by a signal
  std::string output;  // standard output and error
};

// Runs a line of shell, whose last command stands alone.
inline CommandOutcome run_command(const std::string& line) {
  CommandOutcome outcome;
  std::FILE* pipe = popen((line + " 2>&1").c_str(), "r");
  if (!pipe) return outcome;
  std::array<char, 4096> part;
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe)) outcome.output.append(part.data(), count);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

}  // namespace transom::test

// SPDX-License-Identifier: Apache-2.0
// A program that is started, given its input, and waited for.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/processes/process.h"

namespace transom {

struct ProcessLimits {
  std::chrono::milliseconds longest{std::chrono::minutes(10)};
  size_t most_output = 64 << 20;  // bytes that it may write
  size_t most_errors = 4096;      // bytes that are kept of its standard error; the rest is read and left out
};

struct ProcessOutcome {
  int status = 0;  // 0 or more the exit status, below 0 minus the signal
  std::string output, errors;
};

// Writes `input` to its standard input, as far as it reads it, and takes all that it writes. What it started and left
// behind is not waited for. Errors: it cannot be started, takes longer, or writes more; then its group is killed.
ProcessOutcome run_process(std::string label, std::vector<std::string> words, std::string_view input,
                           const ProcessLimits& limits = {});

// "status 3", "signal 9"
std::string text_of_status(int status);

}  // namespace transom

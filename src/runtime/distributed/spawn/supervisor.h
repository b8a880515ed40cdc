// SPDX-License-Identifier: Apache-2.0
// Processes that belong together: all are started, all end when one of them fails.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/distributed/spawn/child.h"

namespace transom {

struct SuperviseOptions {
  TakeLine take;                   // the lines of all of them, on the calling thread
  std::function<int()> interrupt;  // asked again and again: a signal to pass on, or 0
  // From the first failure: until the others, which learn of it by themselves, get SIGTERM, and then SIGKILL.
  std::chrono::milliseconds until_terminated = std::chrono::seconds(5), until_killed = std::chrono::seconds(30);
};

// How they ended.
struct Supervised {
  size_t failed = 0;  // the one that counts as the cause, where status is not 0
  int status = 0;     // of its end, as Child::status; 0: all ended well
  std::string error;  // what it last wrote to standard error
  int signal = 0;     // that was passed on to them
};

// Returns when all have ended. Throws an Error where one cannot be started; the others are ended then.
Supervised supervise(const std::vector<ChildOptions>& children, const SuperviseOptions& options);

// "rank 3 was ended by signal 9 (Killed)", "rank 3 ended with status 1: ...".
std::string text_of_failure(const Supervised& end, const std::vector<ChildOptions>& children);

}  // namespace transom

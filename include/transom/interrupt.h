// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

namespace transom {

// While one lives on a thread, that thread computes nothing more once a stop is requested of `token`: the next program
// throws an Error of kind kInterrupted instead of running. A program that runs already is completed. What was computed
// before stays valid, and a step of training that is interrupted changes no parameter. Scopes nest; the innermost
// counts. Another thread may request the stop: a server whose client has gone, a button, a handler of signals.
class InterruptScope {
 public:
  explicit InterruptScope(std::stop_token token);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  std::stop_token before_;
};

}  // namespace transom

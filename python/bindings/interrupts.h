// SPDX-License-Identifier: Apache-2.0
// Long calls: other threads of Python run while the library computes, and Ctrl-C ends the computation.
#pragma once

#include <nanobind/nanobind.h>

#include <stop_token>
#include <utility>

#include "transom/error.h"
#include "transom/interrupt.h"

namespace transom::python {

// While one lives on the main thread and Python would turn Ctrl-C into KeyboardInterrupt, SIGINT also requests a stop
// of token(). Python's own handler runs as well. They nest: the outermost one counts. Needs the GIL at both ends.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  std::stop_token token() const;

 private:
  bool watches_ = false;
};

// Gives the messages of the library since the last call to the logger "transom". Needs the GIL.
void pass_messages_on();

// function() without the GIL. What it throws because of Ctrl-C becomes the exception that Python's handler raises.
template <typename Function>
auto compute(Function&& function) {
  const SignalScope signals;
  struct Messages {
    ~Messages() { pass_messages_on(); }
  } messages;
  try {
    const nanobind::gil_scoped_release released;
    const InterruptScope scope(signals.token());
    return std::forward<Function>(function)();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupted && PyErr_CheckSignals() != 0) throw nanobind::python_error();
    throw;
  }
}

}  // namespace transom::python

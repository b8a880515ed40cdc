// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace transom {

// What kind of thing went wrong; the command line turns it into its exit status.
enum class ErrorKind {
  kUsage,     // the call itself is wrong: an unknown flag, a missing argument (exit status 2)
  kInput,     // a file, a field, a tensor or a value is not what it must be
  kDevice,    // a device failed, or there is none
  kInternal,  // a defect of Transom
};

// The one exception type of Transom. `what()` is one line that says what was expected, what was found, where, and what
// to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace transom

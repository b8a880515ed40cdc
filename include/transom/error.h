// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace transom {

// What went wrong, so that a caller can decide what to do: retry with less, choose another device, report a bug.
enum class ErrorKind {
  kUsage,        // the call itself is wrong: an unknown flag, a missing argument (exit status 2 of the program)
  kInput,        // a file, a field, a tensor or a value is not what it must be
  kDevice,       // a device failed in another way than the kinds below, or there is none
  kOutOfMemory,  // memory of the host or of a device is exhausted: a smaller batch may fit
  kUnsupported,  // the request is valid, but this version or this device does not carry it out
  kDeviceLost,   // the device is gone with all tensors on it: load the model again, on this device or on another
  kInterrupted,  // the caller asked to stop, see interrupt.h
  kInternal,     // a defect of Transom
};

// "usage", "input", "device", "out_of_memory", "unsupported", "device_lost", "interrupted", "internal".
std::string_view name_of(ErrorKind kind);

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

// SPDX-License-Identifier: Apache-2.0
// Failures inside the plugin are thrown; plugin.cpp turns them into a status and one line of text.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>

#include "transom/device_plugin.h"

namespace transom::hpu {

class Failure : public std::exception {
 public:
  Failure(transom_status status, std::string text) : status_(status), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  transom_status status() const { return status_; }

 private:
  transom_status status_;
  std::string text_;
};

template <typename... Arguments>
[[noreturn]] void fail(transom_status status, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Failure(status, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace transom::hpu

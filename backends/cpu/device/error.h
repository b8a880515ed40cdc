// SPDX-License-Identifier: Apache-2.0
// Failures inside the plugin are thrown; plugin.cpp turns them into a status and one line of text.
#pragma once

#include <fmt/format.h>

#include "transom/device_plugin.hpp"

namespace transom::cpu {

using plugin::Failure;
using plugin::guarded;

template <typename... Arguments>
[[noreturn]] void fail(transom_status status, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Failure(status, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace transom::cpu

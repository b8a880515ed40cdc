// SPDX-License-Identifier: Apache-2.0
// Failures inside a plugin are thrown; plugin::guarded turns them into a status and one line of text.
#pragma once

#include <fmt/format.h>

#include "transom/device_plugin.hpp"

namespace transom::backend {

using plugin::Failure;
using plugin::guarded;

template <typename... Arguments>
[[noreturn]] void fail(transom_status status, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Failure(status, fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Refuses bytes that do not lie inside of what a binding's buffer has.
inline void expect_inside(const transom_binding& binding, size_t buffer_bytes, size_t bytes) {
  if (binding.offset > buffer_bytes || bytes > buffer_bytes - binding.offset)
    fail(TRANSOM_INVALID_ARGUMENT, "expected {} bytes at offset {}, found a buffer of {} bytes", bytes, binding.offset,
         buffer_bytes);
}

}  // namespace transom::backend

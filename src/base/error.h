// SPDX-License-Identifier: Apache-2.0
// Throwing errors: fail("{}: expected {} columns, found {}", where, expected, found).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "transom/error.h"

namespace transom {

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kInput, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

// Throws unless `condition` holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail(text, std::forward<Args>(args)...);
}

// Whether a device may be the cause: kDevice and the kinds that tell its failures apart.
bool is_device_failure(ErrorKind kind);

// `text` shortened to one line of at most `limit` bytes, with unprintable bytes escaped: for quoting hostile input.
std::string quoted(std::string_view text, size_t limit = 80);
inline std::string quoted(const char* text, size_t limit = 80) { return quoted(std::string_view(text), limit); }
// Exact matches for strings, which would otherwise find std::quoted.
inline std::string quoted(const std::string& text, size_t limit = 80) { return quoted(std::string_view(text), limit); }
inline std::string quoted(std::string& text, size_t limit = 80) { return quoted(std::string_view(text), limit); }

// The nearest of `names`, or null if none is near.
const std::string* nearest(std::string_view name, const std::vector<std::string>& names);
// The end of a sentence about a name that is not known: ", did you mean 'x'?" with the nearest of `names`, or ".".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& names);

}  // namespace transom

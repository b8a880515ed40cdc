// SPDX-License-Identifier: Apache-2.0
#include "base/text/numbers.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace transom {

std::optional<double> parse_double(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc()) return value;
  const size_t exponent = text.find_first_of("eE");
  const bool small = exponent != text.npos
                         ? text.substr(exponent + 1).starts_with('-')
                         : text.find_first_not_of("-0") != text.npos && text[text.find_first_not_of("-0")] == '.';
  const double size = small ? 0 : std::numeric_limits<double>::infinity();
  return text.starts_with('-') ? -size : size;
}

std::optional<bool> parse_bool(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char* name : {"true", "yes", "t", "y", "1"})
    if (word == name) return true;
  for (const char* name : {"false", "no", "f", "n", "0"})
    if (word == name) return false;
  return std::nullopt;
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace transom {

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text && *text ? text : nullptr;
}

std::string first_text(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* text = variable(name)) return text;
  return "";
}

std::optional<int64_t> number(const char* name, int64_t low, int64_t high) {
  const char* text = variable(name);
  if (!text) return std::nullopt;
  const std::string_view digits = text;
  int64_t value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status != std::errc() || end != digits.data() + digits.size() || value < low || value > high)
    fail(ErrorKind::kUsage, "{}: expected a number from {} to {}, found {}", name, low, high, quoted(digits));
  return value;
}

int64_t expected_number(const char* name, const char* beside, int64_t low, int64_t high) {
  if (const auto value = number(name, low, high)) return *value;
  fail(ErrorKind::kUsage, "{} is {}, but {} is not set; set both, or neither to train alone", beside,
       quoted(first_text({beside})), name);
}

}  // namespace transom

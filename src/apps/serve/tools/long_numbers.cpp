// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/long_numbers.h"

#include <algorithm>

#include "apps/serve/openai/identifiers.h"

namespace transom::serve {
namespace {

constexpr size_t kShort = 18;  // digits: any such number has less than 64 bits

std::string stand_in() { return random_text("123456789", 1) + random_text("0123456789", kShort - 1); }

}  // namespace

std::string LongNumbers::shortened(std::string_view json) {
  std::string result;
  bool quoted = false;
  for (size_t at = 0; at < json.size();) {
    const size_t end = std::min(quoted ? json.size() : json.find_first_not_of("0123456789+-.eE", at), json.size());
    const std::string_view number = json.substr(at, end - at);
    if (quoted || number.empty()) {
      const char c = json[at];
      if (c == '"') quoted = !quoted;
      result += c;
      if (quoted && c == '\\' && at + 1 < json.size()) result += json[++at];
      ++at;
      continue;
    }
    const std::string_view digits = number.substr(number.starts_with('-') ? 1 : 0);
    if (digits.size() > kShort && digits.find_first_not_of("0123456789") == digits.npos) {
      known_.emplace_back(stand_in(), digits);
      result += number.substr(0, number.size() - digits.size());
      result += known_.back().first;
    } else {
      result += number;
    }
    at = end;
  }
  return result;
}

std::string LongNumbers::restored(std::string text) const {
  for (const auto& [shown, digits] : known_)
    for (size_t at = 0; (at = text.find(shown, at)) != text.npos; at += digits.size())
      text.replace(at, shown.size(), digits);
  return text;
}

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_errors.h"

#include <algorithm>

#include "base/error.h"

namespace transom {
namespace {

// "[json.exception.type_error.302] type must be number, but is string" without its first word.
std::string_view without_class(std::string_view text) {
  const size_t end = text.find("] ");
  return text.starts_with('[') && end != text.npos ? text.substr(end + 2) : text;
}

std::string with_article(std::string_view type) {
  if (type == "null") return "nothing";
  return fmt::format("{} {}", type == "object" || type == "array" ? "an" : "a", type);
}

}  // namespace

std::string json_reason(const std::exception& error) {
  const std::string_view text = without_class(error.what());
  constexpr std::string_view kMust = "type must be ", kIs = ", but is ", kMissing = " not found";
  if (const size_t is = text.find(kIs); text.starts_with(kMust) && is != text.npos)
    return fmt::format("expected {}, found {}", with_article(text.substr(kMust.size(), is - kMust.size())),
                       with_article(text.substr(is + kIs.size())));
  if (text.starts_with("key '") && text.ends_with(kMissing))
    return fmt::format("{} is missing", text.substr(4, text.size() - 4 - kMissing.size()));
  // "number overflow parsing '1e999'"
  if (const size_t number = text.find("overflow parsing '"); number != text.npos)
    return fmt::format("a number is larger than 64 bits can hold: {}",
                       quoted(text.substr(number + 18, text.size() - number - 19), 40));
  if (text.starts_with("array index")) return "a list is too short";
  // "cannot use at() with string"
  if (const size_t with = text.rfind(" with "); text.starts_with("cannot use") && with != text.npos)
    return fmt::format("expected an object or a list, found {}", with_article(text.substr(with + 6)));
  return "a value is not of the expected type";
}

std::string json_syntax_error(std::string_view text, size_t byte) {
  const size_t at = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  const size_t before = at == 0 ? text.npos : text.rfind('\n', at - 1);
  const size_t column = at - (before == text.npos ? 0 : before + 1) + 1;
  if (at == text.size() || text[at] == '\0')
    return fmt::format("line {}, column {}: is not valid JSON: the text ends too early", line, column);
  // The rest of the word that was not understood.
  const size_t end = std::min(text.find_first_of(" \t\r\n,:[]{}", at + 1), text.size());
  return fmt::format("line {}, column {}: is not valid JSON at {}", line, column,
                     quoted(text.substr(at, end - at), 40));
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/argument_places.h"

#include "apps/serve/api/request_json.h"
#include "apps/serve/openai/identifiers.h"
#include "apps/serve/tools/json_text.h"

namespace transom::serve {
namespace {

constexpr size_t kDeepestArguments = 64;  // as scan_json takes them

}  // namespace

ArgumentPlaces::ArgumentPlaces() : secret_(new_identifier("arguments ")) {}

std::string ArgumentPlaces::operator[](size_t i) const { return fmt::format("{} {}", secret_, i); }

std::string ArgumentPlaces::filled(const Json& answer, const std::vector<std::string>& arguments) const {
  std::string text = compact(answer);
  size_t at = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string place = '"' + (*this)[i] + '"';
    at = text.find(place, at);
    if (at == text.npos) break;
    text.replace(at, place.size(), arguments[i]);
    at += arguments[i].size();
  }
  return text;
}

std::string completed_arguments(const std::string& arguments) {
  const size_t first = arguments.find_first_not_of(" \t\r\n");
  if (first == arguments.npos || arguments[first] != '{') return "{}";
  const JsonSpan whole = scan_json(arguments);
  if (whole.state == JsonSpan::kWhole) return arguments.substr(0, whole.length);
  // Behind each bracket and before each comma the values so far are whole, but for a key without its value.
  std::vector<std::pair<size_t, std::string>> ends;  // and the brackets that are open there
  std::string closing;
  bool quoted = false, escaped = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const char c = arguments[i];
    if (quoted) {
      if (escaped) escaped = false;
      else if (c == '\\') escaped = true;
      else quoted = c != '"';
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') closing.insert(closing.begin(), c == '{' ? '}' : ']');
    if ((c == '}' || c == ']') && !closing.empty()) closing.erase(0, 1);
    if (closing.size() > kDeepestArguments) break;
    if (c == ',' || c == '{' || c == '[' || c == '}' || c == ']') ends.emplace_back(c == ',' ? i : i + 1, closing);
  }
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    std::string closed = arguments.substr(0, end->first) + end->second;
    if (scan_json(closed).state == JsonSpan::kWhole) return closed;
  }
  return "{}";
}

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/json_text.h"

#include "apps/serve/api/request_json.h"

namespace transom::serve {
namespace {

constexpr size_t kDeepest = 64;

bool is_json_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

size_t skip_json_blanks(std::string_view text, size_t at) {
  while (at < text.size() && is_json_blank(text[at])) ++at;
  return at;
}

JsonSpan cut_at(std::string_view text) { return {JsonSpan::kCut, text.size()}; }

JsonSpan scan_string(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '"') return {JsonSpan::kWhole, at + 1};
    if (c < 0x20) return {JsonSpan::kBroken, at};
    if (c != '\\') continue;
    if (++at >= text.size()) break;
    if (std::string_view("\"\\/bfnrt").find(text[at]) != std::string_view::npos) continue;
    if (text[at] != 'u') return {JsonSpan::kBroken, at};
    for (int i = 0; i < 4; ++i) {
      if (++at >= text.size()) return cut_at(text);
      if (!is_hex(text[at])) return {JsonSpan::kBroken, at};
    }
  }
  return cut_at(text);
}

JsonSpan scan_word(std::string_view text, size_t at) {
  for (const std::string_view word : {"true", "false", "null"}) {
    const std::string_view found = text.substr(at, word.size());
    if (found == word) return {JsonSpan::kWhole, at + word.size()};
    if (word.starts_with(found)) return cut_at(text);
  }
  return {JsonSpan::kBroken, at};
}

JsonSpan scan_number(std::string_view text, size_t at) {
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > begin;
  };
  const auto wrong = [&] { return at >= text.size() ? cut_at(text) : JsonSpan{JsonSpan::kBroken, at}; };
  if (text[at] == '-') ++at;
  if (at < text.size() && text[at] == '0') ++at;
  else if (!digits()) return wrong();
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return wrong();
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return wrong();
  }
  return {JsonSpan::kWhole, at};
}

// A value that holds no others.
JsonSpan scan_leaf(std::string_view text, size_t at) {
  if (text[at] == '"') return scan_string(text, at);
  if (text[at] == '-' || is_digit(text[at])) return scan_number(text, at);
  return scan_word(text, at);
}

}  // namespace

JsonSpan scan_json(std::string_view text) {
  std::string closing;  // the brackets that are open, the innermost last
  enum { kValue, kValueOrEnd, kKeyOrEnd, kKey, kColon, kNext } expected = kValue;
  size_t at = 0;
  while ((at = skip_json_blanks(text, at)) < text.size()) {
    const char c = text[at];
    const bool closes = !closing.empty() && c == closing.back();
    if (closes && (expected == kNext || expected == kValueOrEnd || expected == kKeyOrEnd)) {
      closing.pop_back();
      ++at;
    } else if (expected == kNext) {
      if (c != ',') return {JsonSpan::kBroken, at};
      expected = closing.back() == '}' ? kKey : kValue;
      ++at;
      continue;
    } else if (expected == kColon) {
      if (c != ':') return {JsonSpan::kBroken, at};
      expected = kValue;
      ++at;
      continue;
    } else if (expected == kKey || expected == kKeyOrEnd) {
      if (c != '"') return {JsonSpan::kBroken, at};
      const JsonSpan key = scan_string(text, at);
      if (key.state != JsonSpan::kWhole) return key;
      at = key.length;
      expected = kColon;
      continue;
    } else if (c == '{' || c == '[') {
      if (closing.size() >= kDeepest) return {JsonSpan::kBroken, at};
      closing += c == '{' ? '}' : ']';
      expected = c == '{' ? kKeyOrEnd : kValueOrEnd;
      ++at;
      continue;
    } else {
      const JsonSpan leaf = scan_leaf(text, at);
      if (leaf.state != JsonSpan::kWhole) return leaf;
      at = leaf.length;
    }
    if (closing.empty()) return {JsonSpan::kWhole, at};
    expected = kNext;
  }
  return cut_at(text);
}

std::string without_blanks(std::string_view value) {
  std::string text;
  bool quoted = false;
  for (size_t i = 0; i < value.size(); ++i) {
    if (!quoted && is_json_blank(value[i])) continue;
    text += value[i];
    if (value[i] == '"') quoted = !quoted;
    else if (quoted && value[i] == '\\' && i + 1 < value.size()) text += value[++i];
  }
  return text;
}

std::vector<std::pair<std::string, std::string_view>> members_of(std::string_view object) {
  std::vector<std::pair<std::string, std::string_view>> members;
  if (!object.starts_with('{')) return members;
  size_t at = skip_json_blanks(object, 1);
  while (at < object.size() && object[at] == '"') {
    const size_t end = scan_string(object, at).length;
    const std::optional<std::string> key = text_of_json(object.substr(at, end - at));
    at = skip_json_blanks(object, skip_json_blanks(object, end) + 1);  // behind the colon
    const size_t length = scan_json(object.substr(at)).length;
    if (key) members.emplace_back(*key, object.substr(at, length));
    at = skip_json_blanks(object, at + length);
    if (at < object.size() && object[at] == ',') at = skip_json_blanks(object, at + 1);
  }
  return members;
}

std::optional<std::string> text_of_json(std::string_view value) {
  const Json json = value.starts_with('"') ? Json::parse(value, nullptr, false) : Json();
  return json.is_string() ? std::optional(json.get<std::string>()) : std::nullopt;
}

std::string json_of_text(std::string_view text) { return compact(Json(text)); }

}  // namespace transom::serve

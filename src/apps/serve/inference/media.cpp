// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/inference/media.h"

#include <charconv>

#include "apps/serve/api/api_error.h"
#include "apps/serve/http/message.h"
#include "base/json/json.h"

namespace transom::serve {
namespace {

// What stands before the first colon, in small letters; base64 has none. Empty: there is none.
std::string scheme_of(std::string_view text) {
  constexpr size_t kLongest = 32;
  const size_t colon = text.substr(0, kLongest).find(':');
  return colon == text.npos ? "" : lower_case(std::string(text.substr(0, colon)));
}

// %2B of a URL, of which the first character has been seen; else the character itself.
char unescaped(std::string_view text, size_t& at) {
  unsigned char value = 0;
  const std::string_view digits = text.substr(at + 1, 2);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (text[at] != '%' || digits.size() < 2 || read.ptr != digits.data() + 2) return text[at];
  at += 2;
  return static_cast<char>(value);
}

}  // namespace

TaskInput media_input(const TaskRecord& task, std::string bytes) {
  if (task.input == InputKind::kAudio) return SoundInput(FileBytes{std::move(bytes)});
  if (task.input == InputKind::kVideo) return VideoInput(FileBytes{std::move(bytes)});
  return ImageInput(FileBytes{std::move(bytes)});
}

std::string media_bytes(std::string_view text, const char* field) {
  const std::string scheme = scheme_of(text);
  const bool is_url = scheme == "data";
  if (!scheme.empty() && !is_url)
    refuse_field(field, "{}: this server fetches nothing: send the bytes as base64 or as a data: URL", field);
  if (is_url) {
    const size_t comma = text.find(',');
    constexpr size_t kLongest = 1024;  // of what describes the bytes
    if (comma == text.npos || comma > kLongest ||
        lower_case(std::string(text.substr(0, comma))).find(";base64") == std::string::npos)
      refuse_field(field, "{}: expected a data: URL with base64", field);
    text.remove_prefix(comma + 1);
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  size_t padding = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = is_url ? unescaped(text, at) : text[at];
    int value = -1;
    if (c >= 'A' && c <= 'Z') value = c - 'A';
    else if (c >= 'a' && c <= 'z') value = c - 'a' + 26;
    else if (c >= '0' && c <= '9') value = c - '0' + 52;
    else if (c == '+' || c == '-') value = 62;
    else if (c == '/' || c == '_') value = 63;
    else if (c == '\r' || c == '\n') continue;
    else if (c == '=') {
      ++padding;
      continue;
    }
    if (value < 0 || padding > 0)
      refuse_field(field, "{}: expected base64, found {}", field, quoted(std::string_view(&c, 1)));
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (++count == 4) {
      for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 0xff);
      bits = 0, count = 0;
    }
  }
  if (count == 1 || padding > 2) refuse_field(field, "{}: the base64 is cut off", field);
  if (count == 2) bytes += static_cast<char>(bits >> 4 & 0xff);
  if (count == 3) bytes += static_cast<char>(bits >> 10 & 0xff), bytes += static_cast<char>(bits >> 2 & 0xff);
  if (bytes.empty()) refuse_field(field, "{}: expected bytes as base64, found none", field);
  return bytes;
}

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
// JSON where it stands in what a model writes: the digits of its numbers and its escapes stay as they are written.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom::serve {

struct JsonSpan {
  enum State { kWhole, kCut, kBroken } state = kBroken;  // kCut: the text ends before the value does
  size_t length = 0;                                     // of a whole value; else what was looked at
};

// The value at the front of the text, as strictly as the grammar of JSON has it, nested at most 64 levels. Looks no
// further than the first byte that no JSON has there.
JsonSpan scan_json(std::string_view text);

// ---- of whole values, as scan_json finds them
// Without the blanks between its tokens.
std::string without_blanks(std::string_view value);
// Keys and values of an object, in order; nothing of another value. Keys that are no UTF-8 are left out.
std::vector<std::pair<std::string, std::string_view>> members_of(std::string_view object);
// What a string says; nothing for another value, and for escapes that are no characters.
std::optional<std::string> text_of_json(std::string_view value);
// A text as a string of JSON.
std::string json_of_text(std::string_view text);

}  // namespace transom::serve

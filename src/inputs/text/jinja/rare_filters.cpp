// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/jinja/rare_filters.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/numbers.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::jinja {
namespace {

// As Python's round(): halves of whole numbers to the even one.
int64_t rounded_whole(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t scale = 1;
  for (int64_t i = digits; i < 0; ++i) scale *= 10;
  const int64_t rest = value % scale, magnitude = std::abs(rest);
  const int64_t down = value - rest, away = value < 0 ? -scale : scale;
  const bool up = magnitude > scale / 2 || (2 * magnitude == scale && (down / scale) % 2 != 0);
  int64_t result = down;
  require(!up || !__builtin_add_overflow(down, away, &result), "an integer does not fit in 64 bits");
  return result;
}

std::string quoted_for_url(const std::string& text, bool keep_slash) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (keep_slash && c == '/');
    if (plain) result += c;
    else if (c == ' ' && !keep_slash) result += '+';
    else result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

}  // namespace

Value rounded(const Value& value, const Arguments& arguments) {
  require(value.number(), "round: expected a number, found {}", value.type_name());
  const int64_t digits = std::clamp<int64_t>(integer_argument(arguments, 0, "precision", 0), -300, 300);
  const std::string method = text_argument(arguments, 1, "method", "common");
  require(method == "common" || method == "ceil" || method == "floor", "round: method must be common, ceil or floor");
  int64_t whole = 0;
  const double x = value.as_double();
  if (method == "common") {
    if (value.as_integer(whole)) return rounded_whole(whole, digits);
    if (digits >= 0) return parse_double(fmt::format("{:.{}f}", x, digits)).value_or(x);
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(x / scale) * scale;
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  return (method == "ceil" ? std::ceil(x * scale) : std::floor(x * scale)) / scale;
}

Value columns_of(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const int64_t count = integer_argument(arguments, 0, "slices", 0);
  require(count > 0 && count <= 10000, "slice: expected a number of lists above 0, found {}", count);
  const Value fill = argument(arguments, 1, "fill_with");
  const List items = interpreter.items_of(value);
  const auto length = static_cast<int64_t>(items.size()), each = length / count, longer = length % count;
  List result;
  for (int64_t i = 0, at = 0; i < count; ++i) {
    const int64_t end = at + each + (i < longer ? 1 : 0);
    List part(items.begin() + at, items.begin() + end);
    if (!fill.undefined() && !fill.none() && i >= longer) part.push_back(fill);
    result.push_back(interpreter.list(std::move(part)));
    at = end;
  }
  return interpreter.list(std::move(result));
}

Value url_encoded(Interpreter& interpreter, const Value& value) {
  if (value.text() != nullptr || (value.dictionary() == nullptr && value.sequence() == nullptr))
    return interpreter.text(quoted_for_url(to_text(value), true));
  std::string result;
  const auto add = [&](const Value& key, const Value& item) {
    if (!result.empty()) result += '&';
    result += quoted_for_url(to_text(key), false) + "=" + quoted_for_url(to_text(item), false);
  };
  if (const auto* dictionary = value.dictionary()) {
    for (const auto& [key, item] : dictionary->items) add(key, item);
  } else {
    for (const Value& pair : value.sequence()->items) {
      const List both = interpreter.items_of(pair);
      require(both.size() == 2, "urlencode: expected pairs, found {} values", both.size());
      add(both[0], both[1]);
    }
  }
  return interpreter.text(std::move(result));
}

std::string titled(const std::string& text) {
  std::string result;
  bool begins = true;
  for (const char32_t c : text::characters(text)) {
    const auto code = static_cast<UChar32>(c);
    const bool between = text::is_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
    text::append_character(result, static_cast<char32_t>(begins ? u_toupper(code) : u_tolower(code)));
    begins = between;
  }
  return result;
}

Value truncated(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const int64_t length = integer_argument(arguments, 0, "length", 255);
  const bool kill_words = flag_argument(arguments, 1, "killwords", false);
  const std::string end = text_argument(arguments, 2, "end", "...");
  const int64_t leeway = integer_argument(arguments, 3, "leeway", 5);
  const auto of_end = static_cast<int64_t>(text::count_characters(end));
  require(length >= of_end, "truncate: expected length >= {}, found {}", of_end, length);
  require(leeway >= 0, "truncate: expected leeway >= 0, found {}", leeway);
  if (value.undefined()) return value;
  if (value.text() == nullptr) {
    require(value.sequence() != nullptr || value.dictionary() != nullptr, "object of type '{}' has no len()",
            value.type_name());
    const int64_t size =
        value.sequence() != nullptr ? std::ssize(value.sequence()->items) : std::ssize(value.dictionary()->items);
    require(size <= length + leeway, "truncate: expected a text, found {}", value.type_name());
    return value;
  }
  const std::u32string all = text::characters(*value.text());
  if (static_cast<int64_t>(all.size()) <= length + leeway) return interpreter.text(to_text(value));
  std::u32string kept = all.substr(0, static_cast<size_t>(length - of_end));
  if (!kill_words)
    if (const size_t space = kept.rfind(U' '); space != kept.npos) kept.resize(space);
  std::string result;
  for (const char32_t c : kept) text::append_character(result, c);
  return interpreter.text(result + end);
}

Value file_size(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  require(value.number(), "filesizeformat: expected a number, found {}", value.type_name());
  const bool binary = flag_argument(arguments, 0, "binary", false);
  const double bytes = value.as_double(), base = binary ? 1024 : 1000;
  if (bytes == 1) return interpreter.text("1 Byte");
  if (bytes < base) return interpreter.text(fmt::format("{} Bytes", static_cast<int64_t>(bytes)));
  double unit = base;
  std::string name;
  for (const char letter : {'k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'}) {
    name = binary ? fmt::format("{}iB", letter == 'k' ? 'K' : letter) : fmt::format("{}B", letter);
    unit *= base;
    if (bytes < unit) break;
  }
  return interpreter.text(fmt::format("{:.1f} {}", base * bytes / unit, name));
}

}  // namespace transom::jinja

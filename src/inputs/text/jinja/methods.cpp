// SPDX-License-Identifier: Apache-2.0
// The methods of Python's texts, lists and dictionaries that change nothing.
#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "base/error.h"
#include "inputs/text/jinja/interpreter.h"
#include "inputs/text/jinja/rare_filters.h"
#include "inputs/text/unicode/clean_up.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::jinja {
namespace {

using Characters = std::u32string;

bool is_blank(char32_t c) { return text::is_space(c) || (c >= 0x1C && c <= 0x1F); }

std::string to_utf8(const Characters& characters) {
  std::string result;
  for (const char32_t c : characters) text::append_character(result, c);
  return result;
}

std::string cased(const std::string& input, bool upper) {
  UErrorCode error = U_ZERO_ERROR;
  UCaseMap* map = ucasemap_open("", 0, &error);
  std::string result(input.size() * 3 + 16, '\0');
  const auto convert = upper ? ucasemap_utf8ToUpper : ucasemap_utf8ToLower;
  const int32_t size = U_FAILURE(error) ? 0
                                        : convert(map, result.data(), static_cast<int32_t>(result.size()), input.data(),
                                                  static_cast<int32_t>(input.size()), &error);
  ucasemap_close(map);
  if (U_FAILURE(error)) fail(ErrorKind::kInternal, "ICU cannot change the case of a text: {}", u_errorName(error));
  result.resize(static_cast<size_t>(size));
  return result;
}

// From the ends of the text: blanks, or the characters of the argument.
std::string stripped(const std::string& input, const Value& characters, bool left, bool right) {
  const Characters from = text::characters(input);
  const Characters set = characters.text() != nullptr ? text::characters(*characters.text()) : Characters();
  const auto goes = [&](char32_t c) {
    return characters.text() != nullptr ? set.find(c) != Characters::npos : is_blank(c);
  };
  size_t begin = 0, end = from.size();
  while (left && begin < end && goes(from[begin])) ++begin;
  while (right && end > begin && goes(from[end - 1])) --end;
  return to_utf8(from.substr(begin, end - begin));
}

List split(const std::string& input, const Value& separator, int64_t maximum, bool from_right) {
  List result;
  if (separator.text() == nullptr) {
    const Characters from = text::characters(input);
    std::vector<std::pair<size_t, size_t>> words;
    for (size_t i = 0; i < from.size();) {
      while (i < from.size() && is_blank(from[i])) ++i;
      const size_t begin = i;
      while (i < from.size() && !is_blank(from[i])) ++i;
      if (begin < i) words.emplace_back(begin, i);
    }
    const size_t limit = maximum < 0 ? SIZE_MAX : static_cast<size_t>(maximum);
    if (words.size() > limit) {
      if (from_right) {
        const size_t joined = words.size() - limit;
        words[joined - 1].first = 0;
        words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(joined - 1));
        if (joined == 0) words.clear();
      } else {
        words.resize(limit + 1);
        size_t end = from.size();
        words.back().second = end;
      }
    }
    for (const auto& [begin, end] : words) result.emplace_back(to_utf8(from.substr(begin, end - begin)));
    return result;
  }
  const std::string& by = *separator.text();
  require(!by.empty(), "empty separator");
  std::vector<std::string> parts;
  if (from_right) {
    size_t end = input.size();
    for (; maximum != 0 && end > 0; --maximum) {
      const size_t at = end >= by.size() ? input.rfind(by, end - by.size()) : std::string::npos;
      if (at == std::string::npos) break;
      parts.push_back(input.substr(at + by.size(), end - at - by.size()));
      end = at;
    }
    parts.push_back(input.substr(0, end));
    std::reverse(parts.begin(), parts.end());
  } else {
    size_t begin = 0;
    for (; maximum != 0; --maximum) {
      const size_t at = input.find(by, begin);
      if (at == std::string::npos) break;
      parts.push_back(input.substr(begin, at - begin));
      begin = at + by.size();
    }
    parts.push_back(input.substr(begin));
  }
  for (std::string& part : parts) result.emplace_back(std::move(part));
  return result;
}

std::string replaced(const std::string& input, const std::string& from, const std::string& to, int64_t count) {
  std::string result;
  size_t last = 0;
  if (from.empty()) {
    for (size_t i = 0; count != 0; --count) {
      result += to;
      if (i >= input.size()) {
        last = i;
        break;
      }
      text::next_character(input, i);
      result.append(input, last, i - last);
      last = i;
    }
    return result.append(input, last);
  }
  for (; count != 0; --count) {
    const size_t at = input.find(from, last);
    if (at == std::string::npos) break;
    require(result.size() < (size_t{1} << 28), "replace: the text becomes too long");
    result.append(input, last, at - last).append(to);
    last = at + from.size();
  }
  return result.append(input, last);
}

// "title" begins each word with a capital, "capitalize" the text.
std::string with_capitals(const std::string& input, bool each_word) {
  Characters result;
  bool at_begin = true;
  for (const char32_t c : text::characters(input)) {
    const auto code = static_cast<UChar32>(c);
    result.push_back(static_cast<char32_t>(at_begin ? u_totitle(code) : u_tolower(code)));
    at_begin = each_word && !u_isalpha(code);
  }
  return to_utf8(result);
}

bool starts_or_ends(const std::string& input, const Value& what, bool starts) {
  if (const auto* sequence = what.sequence())
    return std::any_of(sequence->items.begin(), sequence->items.end(),
                       [&](const Value& item) { return starts_or_ends(input, item, starts); });
  require(what.text() != nullptr, "startswith and endswith: expected a text, found {}", what.type_name());
  return starts ? input.starts_with(*what.text()) : input.ends_with(*what.text());
}

template <typename Test>
bool all_characters(const std::string& input, const Test& test) {
  const Characters characters = text::characters(input);
  return !characters.empty() &&
         std::all_of(characters.begin(), characters.end(), [&](char32_t c) { return test(static_cast<UChar32>(c)); });
}

bool is_cased(const std::string& input, bool upper) {
  bool seen = false;
  for (const char32_t character : text::characters(input)) {
    const auto c = static_cast<UChar32>(character);
    if (upper ? u_isULowercase(c) || u_istitle(c) : u_isUUppercase(c) || u_istitle(c)) return false;
    seen = seen || (upper ? u_isUUppercase(c) : u_isULowercase(c));
  }
  return seen;
}

List lines(const std::string& input, bool keep) {
  List result;
  for (size_t begin = 0; begin < input.size();) {
    size_t end = input.find_first_of("\n\r\v\f", begin);
    const size_t stop = std::min(end, input.size());
    end = stop;
    if (end < input.size()) end += input.compare(end, 2, "\r\n") == 0 ? 2 : 1;
    result.emplace_back(input.substr(begin, (keep ? end : stop) - begin));
    begin = end;
  }
  return result;
}

std::string swapped(const std::string& input) {
  Characters result;
  for (const char32_t c : text::characters(input)) {
    const auto code = static_cast<UChar32>(c);
    result.push_back(static_cast<char32_t>(u_isULowercase(code) ? u_toupper(code) : u_tolower(code)));
  }
  return to_utf8(result);
}

std::string with_spaces(const std::string& input, int64_t size) {
  std::string result;
  int64_t column = 0;
  const int64_t width = std::clamp<int64_t>(size, 0, 1000);
  for (const char32_t c : text::characters(input)) {
    if (c == '\t') {
      const int64_t count = width > 0 ? width - column % width : 0;
      result.append(static_cast<size_t>(count), ' ');
      column += count;
    } else {
      text::append_character(result, c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return result;
}

std::string padded(const std::string& input, const Arguments& given, int side) {
  const auto length = static_cast<int64_t>(text::count_characters(input));
  const int64_t width = std::min<int64_t>(integer_argument(given, 0, "width", 80), 100000);
  const std::string fill = side == 2 ? "0" : text_argument(given, 1, "fillchar", " ");
  const int64_t total = std::max<int64_t>(width - length, 0);
  const int64_t left = side == 0 ? total / 2 + (total & width & 1) : side > 0 ? total : 0;
  std::string result;
  for (int64_t i = 0; i < left; ++i) result += fill;
  result += input;
  for (int64_t i = left; i < total; ++i) result += fill;
  return result;
}

Value text_method(Interpreter& interpreter, const std::string& self, const std::string& name, Arguments& given) {
  const auto text = [&](std::string value) { return interpreter.text(std::move(value)); };
  const Value first = argument(given, 0, "");
  spend(self.size() / 16 + 1);
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return text(stripped(self, argument(given, 0, "chars"), name != "rstrip", name != "lstrip"));
  if (name == "upper" || name == "lower" || name == "casefold") return text(cased(self, name == "upper"));
  if (name == "title" || name == "capitalize") return text(with_capitals(self, name == "title"));
  if (name == "split" || name == "rsplit")
    return interpreter.list(
        split(self, argument(given, 0, "sep"), integer_argument(given, 1, "maxsplit", -1), name == "rsplit"));
  if (name == "splitlines") return interpreter.list(lines(self, flag_argument(given, 0, "keepends", false)));
  if (name == "replace") {
    const Value to = argument(given, 1, "new");
    require(!to.undefined(), "replace: expected two texts");
    return text(
        replaced(self, to_text(argument(given, 0, "old")), to_text(to), integer_argument(given, 2, "count", -1)));
  }
  if (name == "startswith" || name == "endswith") return starts_or_ends(self, first, name == "startswith");
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count") {
    const std::string what = to_text(first);
    if (name == "count") {
      if (what.empty()) return static_cast<int64_t>(text::count_characters(self)) + 1;
      int64_t count = 0;
      for (size_t at = self.find(what); at != std::string::npos; at = self.find(what, at + what.size())) ++count;
      return count;
    }
    const size_t at = name[0] == 'r' ? self.rfind(what) : self.find(what);
    require(at != std::string::npos || name.ends_with("find"), "substring not found");
    if (at == std::string::npos) return -1;
    return static_cast<int64_t>(text::count_characters(std::string_view(self).substr(0, at)));
  }
  if (name == "join") {
    std::string result;
    bool begun = false;
    for (const Value& item : interpreter.items_of(first)) {
      require(item.text() != nullptr, "join: expected texts, found {}", item.type_name());
      if (std::exchange(begun, true)) result += self;
      result += *item.text();
      spend(1);
    }
    return text(std::move(result));
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string what = to_text(first);
    if (name == "removeprefix") return text(self.starts_with(what) ? self.substr(what.size()) : self);
    return text(self.ends_with(what) ? self.substr(0, self.size() - what.size()) : self);
  }
  if (name == "partition" || name == "rpartition") {
    const std::string what = to_text(first);
    require(!what.empty(), "empty separator");
    const size_t at = name == "partition" ? self.find(what) : self.rfind(what);
    if (at == std::string::npos)
      return name == "partition" ? Value(List{self, "", ""}, true) : Value(List{"", "", self}, true);
    return Value(List{self.substr(0, at), what, self.substr(at + what.size())}, true);
  }
  if (name == "isdigit" || name == "isnumeric" || name == "isdecimal") return all_characters(self, u_isdigit);
  if (name == "isalpha") return all_characters(self, u_isalpha);
  if (name == "isalnum") return all_characters(self, u_isalnum);
  if (name == "isspace") return all_characters(self, [](UChar32 c) { return is_blank(static_cast<char32_t>(c)); });
  if (name == "isupper" || name == "islower") return is_cased(self, name == "isupper");
  if (name == "center") return text(padded(self, given, 0));
  if (name == "ljust") return text(padded(self, given, -1));
  if (name == "rjust") return text(padded(self, given, 1));
  if (name == "zfill") return text(padded(self, given, 2));
  if (name == "swapcase") return text(swapped(self));
  if (name == "isascii") return std::all_of(self.begin(), self.end(), [](char c) { return (c & 0x80) == 0; });
  if (name == "expandtabs") return text(with_spaces(self, integer_argument(given, 0, "tabsize", 8)));
  if (name == "format") return text(brace_formatted(interpreter, self, given));
  fail(ErrorKind::kUnsupported, "the method {} of texts is not supported", quoted(name));
}

constexpr std::string_view kTextMethods[] = {"strip",        "lstrip",       "rstrip",       "upper",
                                             "lower",        "casefold",     "title",        "capitalize",
                                             "split",        "rsplit",       "splitlines",   "replace",
                                             "startswith",   "endswith",     "find",         "rfind",
                                             "index",        "rindex",       "count",        "join",
                                             "removeprefix", "removesuffix", "partition",    "rpartition",
                                             "isdigit",      "isnumeric",    "isdecimal",    "isalpha",
                                             "isalnum",      "isspace",      "isupper",      "islower",
                                             "center",       "ljust",        "rjust",        "zfill",
                                             "format",       "swapcase",     "isascii",      "expandtabs",
                                             "encode",       "format_map",   "isidentifier", "isprintable",
                                             "istitle",      "maketrans",    "translate"};  // these are refused
// What a template may not call, since it changes its value: there, as in Transformers' sandbox, as if it were not.
constexpr std::string_view kOfLists[] = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"};
constexpr std::string_view kOfDictionaries[] = {"update", "pop", "clear", "popitem", "setdefault"};

}  // namespace

Value find_method(Interpreter& interpreter, const Value& value, const std::string& name) {
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  Interpreter* const owner = &interpreter;
  if (value.text() != nullptr) {
    if (!among(kTextMethods)) return {};
    return Function([owner, value, name](Arguments& given) { return text_method(*owner, *value.text(), name, given); });
  }
  if (value.sequence() == nullptr && value.dictionary() == nullptr) return {};
  const bool of_list = value.sequence() != nullptr && !value.sequence()->tuple;
  if (of_list ? among(kOfLists) : value.dictionary() != nullptr && among(kOfDictionaries))
    return Undefined{fmt::format("access to the method '{}' is unsafe: a template changes no value", name)};
  if (value.sequence() != nullptr) {
    if (name != "index" && name != "count") return {};
    return Function([value, name](Arguments& given) {
      const Value what = argument(given, 0, "value");
      int64_t count = 0;
      const List& items = value.sequence()->items;
      for (size_t i = 0; i < items.size(); ++i) {
        if (!equal(items[i], what)) continue;
        if (name == "index") return Value(static_cast<int64_t>(i));
        ++count;
      }
      require(name == "count", "{} is not in list", representation(what));
      return Value(count);
    });
  }
  if (name == "get") {
    return Function([value](Arguments& given) {
      const Value* found = value.dictionary()->find(argument(given, 0, "key"));
      if (found != nullptr) return *found;
      const Value otherwise = argument(given, 1, "default");
      return otherwise.undefined() && given.positional.size() < 2 ? Value(None{}) : otherwise;
    });
  }
  if (name == "copy")
    return Function([value](Arguments&) { return Value(std::make_shared<Dictionary>(*value.dictionary())); });
  if (name != "items" && name != "keys" && name != "values") return {};
  return Function([owner, value, name](Arguments&) {
    List result;
    for (const auto& [key, item] : value.dictionary()->items) {
      if (name == "items") result.push_back(Value(List{key, item}, true));
      else result.push_back(name == "keys" ? key : item);
    }
    return owner->list(std::move(result));
  });
}

}  // namespace transom::jinja

// SPDX-License-Identifier: Apache-2.0
// The filters of Jinja that templates of chats use.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/numbers.h"
#include "inputs/text/jinja/interpreter.h"
#include "inputs/text/jinja/rare_filters.h"
#include "inputs/text/unicode/clean_up.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::jinja {
namespace {

// value.a.b, or value[0]: what "attribute" of a filter names.
Value path(Interpreter& interpreter, Value value, const Value& name) {
  int64_t index = 0;
  if (name.as_integer(index)) return interpreter.subscript(value, name);
  const std::string text = to_text(name);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (value.undefined()) return value;
    value = interpreter.subscript(value, number && part.size() < 10 ? Value(int64_t{std::stoi(part)}) : Value(part));
    begin = end + 1;
  }
  return value;
}

// What sorting and comparing see: texts without regard to case, unless it is asked for.
Value folded(const Value& value, bool case_sensitive) {
  if (case_sensitive || value.text() == nullptr) return value;
  std::string result;
  for (const char32_t c : text::characters(*value.text()))
    for (const char32_t lower : text::lower_case(c)) text::append_character(result, lower);
  return result;
}

// The arguments behind the first `count`, for a filter that hands them on.
Arguments behind(const Arguments& arguments, size_t count) {
  Arguments result = arguments;
  result.positional.erase(
      result.positional.begin(),
      result.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size())));
  return result;
}

Value call_method(Interpreter& interpreter, const Value& value, const char* name, Arguments arguments) {
  const Value method = find_method(interpreter, Value(to_text(value)), name);
  return (*method.function())(arguments);
}

Value selected(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool by_attribute, bool keep) {
  if (!value.truth()) return interpreter.list({});  // None and 0 too
  const size_t first = by_attribute ? 1 : 0;
  require(arguments.positional.size() >= first, "selectattr and rejectattr: expected an attribute");
  List result;
  for (const Value& item : interpreter.items_of(value)) {
    const Value subject = by_attribute ? path(interpreter, item, arguments.positional[0]) : item;
    bool holds = subject.truth();
    if (arguments.positional.size() > first)
      holds = interpreter.test(to_text(arguments.positional[first]), subject, behind(arguments, first + 1));
    if (holds == keep) result.push_back(item);
  }
  return interpreter.list(std::move(result));
}

Value mapped(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (!value.truth()) return interpreter.list({});
  const Value name = argument(arguments, SIZE_MAX, "attribute"), otherwise = argument(arguments, SIZE_MAX, "default");
  List result;
  for (const Value& item : interpreter.items_of(value)) {
    if (!name.undefined()) {
      Value found = path(interpreter, item, name);
      result.push_back(found.undefined() && !otherwise.undefined() ? otherwise : found);
    } else {
      require(!arguments.positional.empty(), "map: expected a filter or attribute=");
      Arguments rest = behind(arguments, 1);
      result.push_back(interpreter.filter(to_text(arguments.positional[0]), item, rest));
    }
  }
  return interpreter.list(std::move(result));
}

Value sorted(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool dictionary) {
  std::vector<std::pair<Value, Value>> items;  // key, item
  if (dictionary) {
    require(value.dictionary() != nullptr, "dictsort: expected a dict, found {}", value.type_name());
    const bool by_value = text_argument(arguments, 1, "by", "key") == "value";
    for (const auto& [key, item] : value.dictionary()->items)
      items.emplace_back(folded(by_value ? item : key, flag_argument(arguments, 0, "case_sensitive", false)),
                         Value(List{key, item}, true));
  } else {
    const Value name = argument(arguments, 2, "attribute");
    for (const Value& item : interpreter.items_of(value)) {
      const Value key = name.undefined() || name.none() ? item : path(interpreter, item, name);
      items.emplace_back(folded(key, flag_argument(arguments, 1, "case_sensitive", false)), item);
    }
  }
  const bool reverse = flag_argument(arguments, dictionary ? 2 : 0, "reverse", false);
  spend(items.size() * 20);
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return reverse ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0;
  });
  List result;
  for (auto& [key, item] : items) result.push_back(std::move(item));
  return interpreter.list(std::move(result));
}

Value grouped(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value name = argument(arguments, 0, "attribute");
  Arguments by;
  by.named = {{"attribute", name}};
  const Value ordered = sorted(interpreter, value, by, false);
  List result, group;
  Value key;
  const auto flush = [&] {
    if (!group.empty()) result.push_back(Value(List{key, interpreter.list(std::move(group))}, true));
    group.clear();
  };
  for (const Value& item : interpreter.items_of(ordered)) {
    const Value now = path(interpreter, item, name);
    if (group.empty() || !equal(folded(now, false), folded(key, false))) flush(), key = now;
    group.push_back(item);
  }
  flush();
  return interpreter.list(std::move(result));
}

Value json_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  JsonStyle style;
  style.ascii = flag_argument(arguments, 0, "ensure_ascii", false);
  const Value indent = argument(arguments, 1, "indent");
  if (!indent.undefined() && !indent.none()) {
    style.lines = true, style.item_separator = ",";
    int64_t count = 0;
    if (indent.as_integer(count)) style.indent.assign(static_cast<size_t>(std::clamp<int64_t>(count, 0, 100)), ' ');
    else style.indent = to_text(indent);
  }
  const Value separators = argument(arguments, 2, "separators");
  if (!separators.undefined() && !separators.none()) {
    const List pair = interpreter.items_of(separators);
    require(pair.size() == 2, "tojson: separators: expected two texts, found {}", pair.size());
    style.item_separator = to_text(pair[0]), style.key_separator = to_text(pair[1]);
  }
  style.sort_keys = flag_argument(arguments, 3, "sort_keys", false);
  return interpreter.text(json_text(value, style));
}

Value joined(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const std::string separator = text_argument(arguments, 0, "d", "");
  const Value name = argument(arguments, 1, "attribute");
  std::string result;
  bool first = true;
  for (const Value& item : interpreter.items_of(value)) {
    if (!std::exchange(first, false)) result += separator;
    result += to_text(name.undefined() || name.none() ? item : path(interpreter, item, name));
    if (result.size() > (size_t{1} << 20)) spend(result.size() >> 20);
  }
  return interpreter.text(std::move(result));
}

Value indented(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value width = argument(arguments, 0, "width");
  int64_t count = 4;
  std::string unit;
  if (width.text() != nullptr) unit = *width.text();
  else unit.assign(static_cast<size_t>(width.as_integer(count) || true ? std::clamp<int64_t>(count, 0, 1000) : 4), ' ');
  const bool first = flag_argument(arguments, 1, "first", false), blank = flag_argument(arguments, 2, "blank", false);
  require(value.text() != nullptr, "indent: expected a text, found {}", value.type_name());
  const std::string& text = *value.text();
  std::string result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const bool empty = begin == end;
    if (begin == 0 ? first : blank || !empty) result += unit;
    result.append(text, begin, end - begin);
    if (end < text.size()) result += '\n';
    spend(1);
    begin = end + 1;
  }
  return interpreter.text(std::move(result));
}

Value to_integer(const Value& value, const Arguments& arguments) {
  if (value.undefined()) undefined(value);
  int64_t result = 0;
  if (value.as_integer(result)) return result;
  if (const double* real = value.real(); real != nullptr && std::abs(*real) < 9e18) return static_cast<int64_t>(*real);
  if (value.text() != nullptr) {
    const std::string text = text::stripped(*value.text());
    const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), result);
    if (error == std::errc() && end == text.data() + text.size() && !text.empty()) return result;
    if (const auto real = parse_double(text); real && std::abs(*real) < 9e18) return static_cast<int64_t>(*real);
  }
  const Value otherwise = argument(arguments, 0, "default");
  return otherwise.undefined() ? Value(0) : otherwise;
}

Value to_real(const Value& value, const Arguments& arguments) {
  if (value.undefined()) undefined(value);
  if (value.number()) return value.as_double();
  if (value.text() != nullptr) {
    if (const auto real = parse_double(text::stripped(*value.text()))) return *real;
  }
  const Value otherwise = argument(arguments, 0, "default");
  return otherwise.undefined() ? Value(0.0) : otherwise;
}

Value extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool largest) {
  const Value name = argument(arguments, 1, "attribute");
  const bool case_sensitive = flag_argument(arguments, 0, "case_sensitive", false);
  const auto key = [&](const Value& item) {
    return folded(name.undefined() ? item : path(interpreter, item, name), case_sensitive);
  };
  const List items = interpreter.items_of(value);
  if (items.empty()) return Undefined{"No aggregated item, sequence was empty."};
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const int order = compare(key(items[i]), key(items[best]));
    if (largest ? order > 0 : order < 0) best = i;
  }
  return items[best];
}

Value cut(Interpreter& interpreter, const Value& value, const Arguments& arguments) {  // batch
  const int64_t size = integer_argument(arguments, 0, "linecount", 1);
  require(size > 0, "batch: expected at least 1, found {}", size);
  const Value fill = argument(arguments, 1, "fill_with");
  List result, line;
  for (const Value& item : interpreter.items_of(value)) {
    line.push_back(item);
    if (std::ssize(line) == size) result.push_back(interpreter.list(std::exchange(line, {})));
  }
  while (!line.empty() && !fill.undefined() && !fill.none() && std::ssize(line) < size) {
    spend(1);
    line.push_back(fill);
  }
  if (!line.empty()) result.push_back(interpreter.list(std::move(line)));
  return interpreter.list(std::move(result));
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '\'') result += "&#39;";
    else if (c == '"') result += "&#34;";
    else result += c;
  }
  return result;
}

Value length_of(Interpreter&, const Value& value, const Arguments&) {
  if (value.undefined()) return 0;
  if (const auto* text = value.text()) return static_cast<int64_t>(text::count_characters(*text));
  if (const auto* sequence = value.sequence()) return std::ssize(sequence->items);
  require(value.dictionary() != nullptr, "object of type '{}' has no len()", value.type_name());
  return std::ssize(value.dictionary()->items);
}

Value value_or_default(Interpreter&, const Value& value, const Arguments& arguments) {
  const bool falsy = flag_argument(arguments, 1, "boolean", false);
  if (!value.undefined() && !(falsy && !value.truth())) return value;
  const Value otherwise = argument(arguments, 0, "default_value");
  return otherwise.undefined() && arguments.positional.empty() ? Value("") : otherwise;
}

Value pairs_of(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (value.undefined()) return interpreter.list({});
  require(value.dictionary() != nullptr, "items: can only get item pairs from a mapping, found {}", value.type_name());
  Arguments given = arguments;
  return (*find_method(interpreter, value, "items").function())(given);
}

template <bool kFirst>
Value end_of(Interpreter& interpreter, const Value& value, const Arguments&) {
  const List items = interpreter.items_of(value);
  if (items.empty()) return Undefined{"No first item, sequence was empty."};
  return kFirst ? items.front() : items.back();
}

Value absolute(Interpreter&, const Value& value, const Arguments&) {
  require(value.number(), "abs: expected a number, found {}", value.type_name());
  int64_t integer = 0;
  if (value.as_integer(integer) && integer > INT64_MIN) return std::abs(integer);
  return std::abs(value.as_double());
}

Value reversed(Interpreter& interpreter, const Value& value, const Arguments&) {
  List items = interpreter.items_of(value);
  std::reverse(items.begin(), items.end());
  if (value.text() == nullptr) return interpreter.list(std::move(items));
  std::string result;
  for (const Value& item : items) result += *item.text();
  return interpreter.text(std::move(result));
}

Value without_repeats(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Dictionary seen;
  List result;
  const Value attribute_name = argument(arguments, 1, "attribute");
  for (const Value& item : interpreter.items_of(value)) {
    const Value key = folded(attribute_name.undefined() ? item : path(interpreter, item, attribute_name),
                             flag_argument(arguments, 0, "case_sensitive", false));
    if (seen.find(key) != nullptr) continue;
    seen.set(key, true);
    result.push_back(item);
  }
  return interpreter.list(std::move(result));
}

Value total_of(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value attribute_name = argument(arguments, 0, "attribute"), start = argument(arguments, 1, "start");
  Value total = start.undefined() ? Value(0) : start;
  for (const Value& item : interpreter.items_of(value))
    total = interpreter.binary(
        "+", total,
        attribute_name.undefined() || attribute_name.none() ? item : path(interpreter, item, attribute_name));
  return total;
}

Value replaced_text(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  require(arguments.positional.size() >= 2, "replace: expected two texts");
  return call_method(interpreter, value, "replace", arguments);
}

Value words_in(Interpreter& interpreter, const Value& value, const Arguments&) {
  return std::ssize(interpreter.items_of(call_method(interpreter, value, "split", {})));
}

Value escaped_text(Interpreter& interpreter, const Value& value, const Arguments&) {
  return interpreter.text(escaped(to_text(value)));
}

Value sorted_pairs(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return value.undefined() ? interpreter.list({}) : sorted(interpreter, value, arguments, true);
}

struct Filter {
  std::string_view name;
  Value (*compute)(Interpreter&, const Value&, const Arguments&) = nullptr;
  const char* method = nullptr;  // of texts, which the filter is; neither: Jinja has it, and it is not here
};

// All that Jinja has, in order of the alphabet.
constexpr Filter kFilters[] = {
    {"abs", absolute},
    {"attr", [](auto& i, auto& value, auto& given) { return i.attribute(value, text_argument(given, 0, "name", "")); }},
    {"batch", cut},
    {"capitalize", nullptr, "capitalize"},
    {"center", nullptr, "center"},
    {"count", length_of},
    {"d", value_or_default},
    {"default", value_or_default},
    {"dictsort", sorted_pairs},
    {"e", escaped_text},
    {"escape", escaped_text},
    {"filesizeformat", file_size},
    {"first", end_of<true>},
    {"float", [](auto&, auto& value, auto& given) { return to_real(value, given); }},
    {"forceescape", escaped_text},
    {"format", [](auto& i, auto& value, auto& given) { return percent_formatted(i, value, given); }},
    {"groupby", grouped},
    {"indent", indented},
    {"int", [](auto&, auto& value, auto& given) { return to_integer(value, given); }},
    {"items", pairs_of},
    {"join", joined},
    {"last", end_of<false>},
    {"length", length_of},
    {"list", [](auto& i, auto& value, auto&) { return i.list(i.items_of(value)); }},
    {"lower", nullptr, "lower"},
    {"map", mapped},
    {"max", [](auto& i, auto& value, auto& given) { return extreme(i, value, given, true); }},
    {"min", [](auto& i, auto& value, auto& given) { return extreme(i, value, given, false); }},
    {"pprint"},
    {"random"},
    {"reject", [](auto& i, auto& value, auto& given) { return selected(i, value, given, false, false); }},
    {"rejectattr", [](auto& i, auto& value, auto& given) { return selected(i, value, given, true, false); }},
    {"replace", replaced_text},
    {"reverse", reversed},
    {"round", [](auto&, auto& value, auto& given) { return rounded(value, given); }},
    {"safe", [](auto&, auto& value, auto&) { return value; }},
    {"select", [](auto& i, auto& value, auto& given) { return selected(i, value, given, false, true); }},
    {"selectattr", [](auto& i, auto& value, auto& given) { return selected(i, value, given, true, true); }},
    {"slice", columns_of},
    {"sort", [](auto& i, auto& value, auto& given) { return sorted(i, value, given, false); }},
    {"string", [](auto& i, auto& value, auto&) { return i.text(to_text(value)); }},
    {"striptags"},
    {"sum", total_of},
    {"title", [](auto& i, auto& value, auto&) { return i.text(titled(to_text(value))); }},
    {"tojson", json_filter},
    {"trim", nullptr, "strip"},
    {"truncate", truncated},
    {"unique", without_repeats},
    {"upper", nullptr, "upper"},
    {"urlencode", [](auto& i, auto& value, auto&) { return url_encoded(i, value); }},
    {"urlize"},
    {"wordcount", words_in},
    {"wordwrap"},
    {"xmlattr"}};

const Filter* find_filter(std::string_view name) {
  const auto found = std::ranges::lower_bound(kFilters, name, {}, &Filter::name);
  return found != std::end(kFilters) && found->name == name ? found : nullptr;
}
static_assert(std::ranges::is_sorted(kFilters, {}, &Filter::name));

}  // namespace

Value Interpreter::filter(const std::string& name, const Value& value, Arguments& arguments) {
  spend(1);
  if (const auto* text = value.text()) spend(text->size() / 16);
  const Filter* filter = find_filter(name);
  if (filter != nullptr && filter->compute != nullptr) return filter->compute(*this, value, arguments);
  if (filter != nullptr && filter->method != nullptr) return call_method(*this, value, filter->method, arguments);
  fail("No filter named {}", quoted(name));
}

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

}  // namespace transom::jinja

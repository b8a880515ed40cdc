// SPDX-License-Identifier: Apache-2.0
// The filters and tests of Jinja that templates of chats use.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

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

Value call_method(Interpreter& interpreter, const Value& value, const char* name, Arguments& arguments) {
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

// What Jinja has, for the tests `filter` and `test`; filter() and test() refuse by name those that are not here.
constexpr std::string_view kFilters[] = {
    "abs",    "attr",       "batch",       "capitalize", "center",   "count",
    "d",      "default",    "dictsort",    "e",          "escape",   "filesizeformat",
    "first",  "float",      "forceescape", "format",     "groupby",  "indent",
    "int",    "items",      "join",        "last",       "length",   "list",
    "lower",  "map",        "max",         "min",        "pprint",   "random",
    "reject", "rejectattr", "replace",     "reverse",    "round",    "safe",
    "select", "selectattr", "slice",       "sort",       "string",   "striptags",
    "sum",    "title",      "tojson",      "trim",       "truncate", "unique",
    "upper",  "urlencode",  "urlize",      "wordcount",  "wordwrap", "xmlattr"};
constexpr std::string_view kTests[] = {
    "!=",       "<",           "<=",          "==",      ">",       ">=",        "boolean",  "callable",
    "defined",  "divisibleby", "eq",          "equalto", "escaped", "even",      "false",    "filter",
    "float",    "ge",          "greaterthan", "gt",      "in",      "integer",   "iterable", "le",
    "lessthan", "lower",       "lt",          "mapping", "ne",      "none",      "number",   "odd",
    "sameas",   "sequence",    "string",      "test",    "true",    "undefined", "upper"};

}  // namespace

Value Interpreter::filter(const std::string& name, const Value& value, Arguments& arguments) {
  spend(1);
  if (const auto* text = value.text()) spend(text->size() / 16);
  if (name == "trim") return call_method(*this, value, "strip", arguments);
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize" || name == "center")
    return name == "title" ? text(titled(to_text(value))) : call_method(*this, value, name.c_str(), arguments);
  if (name == "replace") {
    require(arguments.positional.size() >= 2, "replace: expected two texts");
    return call_method(*this, value, "replace", arguments);
  }
  if (name == "tojson") return json_filter(*this, value, arguments);
  if (name == "length" || name == "count") {
    if (value.undefined()) return 0;
    if (const auto* text = value.text()) return static_cast<int64_t>(text::count_characters(*text));
    if (const auto* sequence = value.sequence()) return std::ssize(sequence->items);
    require(value.dictionary() != nullptr, "object of type '{}' has no len()", value.type_name());
    return std::ssize(value.dictionary()->items);
  }
  if (name == "join") return joined(*this, value, arguments);
  if (name == "default" || name == "d") {
    const bool falsy = flag_argument(arguments, 1, "boolean", false);
    if (!value.undefined() && !(falsy && !value.truth())) return value;
    const Value otherwise = argument(arguments, 0, "default_value");
    return otherwise.undefined() && arguments.positional.empty() ? Value("") : otherwise;
  }
  if (name == "map") return mapped(*this, value, arguments);
  if (name == "select" || name == "reject") return selected(*this, value, arguments, false, name == "select");
  if (name == "selectattr" || name == "rejectattr")
    return selected(*this, value, arguments, true, name == "selectattr");
  if (name == "list") return list(items_of(value));
  if (name == "items" || name == "dictsort") {
    if (value.undefined()) return list({});
    if (name == "dictsort") return sorted(*this, value, arguments, true);
    require(value.dictionary() != nullptr, "items: can only get item pairs from a mapping, found {}",
            value.type_name());
    const Value method = find_method(*this, value, "items");
    return (*method.function())(arguments);
  }
  if (name == "first" || name == "last") {
    const List items = items_of(value);
    if (items.empty()) return Undefined{"No first item, sequence was empty."};
    return name == "first" ? items.front() : items.back();
  }
  if (name == "string") return text(to_text(value));
  if (name == "int") return to_integer(value, arguments);
  if (name == "float") return to_real(value, arguments);
  if (name == "abs") {
    require(value.number(), "abs: expected a number, found {}", value.type_name());
    int64_t integer = 0;
    if (value.as_integer(integer) && integer > INT64_MIN) return std::abs(integer);
    return std::abs(value.as_double());
  }
  if (name == "round") return rounded(value, arguments);
  if (name == "slice") return columns_of(*this, value, arguments);
  if (name == "sort") return sorted(*this, value, arguments, false);
  if (name == "groupby") return grouped(*this, value, arguments);
  if (name == "reverse") {
    List items = items_of(value);
    std::reverse(items.begin(), items.end());
    if (value.text() == nullptr) return list(std::move(items));
    std::string result;
    for (const Value& item : items) result += *item.text();
    return text(std::move(result));
  }
  if (name == "unique") {
    Dictionary seen;
    List result;
    const Value attribute_name = argument(arguments, 1, "attribute");
    for (const Value& item : items_of(value)) {
      const Value key = folded(attribute_name.undefined() ? item : path(*this, item, attribute_name),
                               flag_argument(arguments, 0, "case_sensitive", false));
      if (seen.find(key) != nullptr) continue;
      seen.set(key, true);
      result.push_back(item);
    }
    return list(std::move(result));
  }
  if (name == "sum") {
    const Value attribute_name = argument(arguments, 0, "attribute"), start = argument(arguments, 1, "start");
    Value total = start.undefined() ? Value(0) : start;
    for (const Value& item : items_of(value))
      total = binary("+", total,
                     attribute_name.undefined() || attribute_name.none() ? item : path(*this, item, attribute_name));
    return total;
  }
  if (name == "min" || name == "max") return extreme(*this, value, arguments, name == "max");
  if (name == "batch") return cut(*this, value, arguments);
  if (name == "indent") return indented(*this, value, arguments);
  if (name == "wordcount") {
    Arguments none;
    return std::ssize(items_of(call_method(*this, value, "split", none)));
  }
  if (name == "format") return percent_formatted(*this, value, arguments);
  if (name == "urlencode") return url_encoded(*this, value);
  if (name == "truncate") return truncated(*this, value, arguments);
  if (name == "filesizeformat") return file_size(*this, value, arguments);
  if (name == "attr") return attribute(value, text_argument(arguments, 0, "name", ""));
  if (name == "safe") return value;
  if (name == "escape" || name == "e" || name == "forceescape") return text(escaped(to_text(value)));
  fail("No filter named {}", quoted(name));
}

bool Interpreter::test(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto other = [&] {
    require(!arguments.positional.empty(), "the test '{}' expects a value to compare with", name);
    return arguments.positional[0];
  };
  int64_t integer = 0;
  if (name == "defined") return !value.undefined();
  if (name == "undefined") return value.undefined();
  if (name == "none") return value.none();
  if (name == "string") return value.text() != nullptr;
  if (name == "number") return value.number();
  if (name == "integer") return value.integer() != nullptr;
  if (name == "float") return value.real() != nullptr;
  if (name == "boolean") return value.boolean() != nullptr;
  if (name == "true") return value.boolean() != nullptr && *value.boolean();
  if (name == "false") return value.boolean() != nullptr && !*value.boolean();
  if (name == "mapping") return value.dictionary() != nullptr && !value.dictionary()->name_space;
  if (name == "sequence")
    return value.text() != nullptr || value.sequence() != nullptr || value.dictionary() != nullptr || value.undefined();
  if (name == "iterable")
    return value.text() != nullptr || value.sequence() != nullptr || value.undefined() ||
           (value.dictionary() != nullptr && !value.dictionary()->name_space);
  if (name == "callable") return value.function() != nullptr;
  if (name == "sameas") {
    const Value same = other();
    return value.sequence() != nullptr ? value.sequence() == same.sequence()
                                       : std::string_view(value.type_name()) == same.type_name() && equal(value, same);
  }
  if (name == "eq" || name == "equalto" || name == "==") return equal(value, other());
  if (name == "ne" || name == "!=") return !equal(value, other());
  if (name == "lt" || name == "lessthan" || name == "<") return compare(value, other()) < 0;
  if (name == "le" || name == "<=") return compare(value, other()) <= 0;
  if (name == "gt" || name == "greaterthan" || name == ">") return compare(value, other()) > 0;
  if (name == "ge" || name == ">=") return compare(value, other()) >= 0;
  if (name == "in") {
    const Value container = other();
    if (container.undefined()) return false;
    if (const auto* text = container.text()) {
      require(value.text() != nullptr, "'in <string>' requires string as left operand, not {}", value.type_name());
      spend(text->size() / 16);
      return text->find(*value.text()) != std::string::npos;
    }
    if (const auto* dictionary = container.dictionary()) return dictionary->find(value) != nullptr;
    const auto* sequence = container.sequence();
    require(sequence != nullptr, "argument of type '{}' is not iterable", container.type_name());
    spend(sequence->items.size());
    return std::any_of(sequence->items.begin(), sequence->items.end(),
                       [&](const Value& item) { return equal(item, value); });
  }
  if (name == "odd" || name == "even") {
    require(value.number(), "the test '{}' expects a number, found {}", name, value.type_name());
    if (!value.as_integer(integer)) return std::abs(std::fmod(value.as_double(), 2)) == (name == "odd" ? 1 : 0);
    return (integer % 2 != 0) == (name == "odd");
  }
  if (name == "divisibleby") {
    int64_t by = 0;
    require(value.as_integer(integer) && other().as_integer(by) && by != 0, "divisibleby: expected integers");
    return by == -1 || integer % by == 0;
  }
  if (name == "lower" || name == "upper") {
    Arguments none;
    const Value method = find_method(*this, Value(to_text(value)), name == "lower" ? "islower" : "isupper");
    return (*method.function())(none).truth();
  }
  if (name == "filter" || name == "test") {
    const auto known = name == "filter" ? std::span<const std::string_view>(kFilters) : std::span(kTests);
    return value.text() != nullptr && std::find(known.begin(), known.end(), *value.text()) != known.end();
  }
  if (name == "escaped") return false;
  fail("No test named {}", quoted(name));
}

}  // namespace transom::jinja

// SPDX-License-Identifier: Apache-2.0
// Values in texts: by % and by str.format.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "inputs/text/jinja/rare_filters.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::jinja {
namespace {

// [[fill]align][sign][#][0][width][,][.precision][type] of Python.
struct Specification {
  std::string fill = " ";
  char align = 0, sign = '-', grouping = 0, type = 0;
  bool alternate = false, zeros = false;
  int64_t width = 0, precision = -1;
};

int64_t number_of(const std::string& spec, size_t& at) {
  int64_t value = 0;
  for (; at < spec.size() && spec[at] >= '0' && spec[at] <= '9'; ++at) {
    value = value * 10 + (spec[at] - '0');
    require(value < 1000, "format: a width of {} or more", 1000);
  }
  return value;
}

Specification specification_of(const std::string& spec) {
  const auto aligns = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  Specification result;
  size_t at = 0;
  if (!spec.empty()) {
    size_t next = 0;
    text::next_character(spec, next);
    if (next < spec.size() && aligns(spec[next])) result.fill = spec.substr(0, next), at = next;
    if (at < spec.size() && aligns(spec[at])) result.align = spec[at++];
  }
  const auto take = [&](std::string_view known) {
    return at < spec.size() && known.find(spec[at]) != known.npos ? spec[at++] : '\0';
  };
  if (const char sign = take("+- ")) result.sign = sign;
  result.alternate = take("#") != 0;
  result.zeros = take("0") != 0;
  result.width = number_of(spec, at);
  result.grouping = take(",_");
  if (take(".")) result.precision = number_of(spec, at);
  if (at < spec.size()) result.type = spec[at++];
  require(at == spec.size(), "format: the specification {} is not known", quoted(spec));
  return result;
}

std::string aligned(const std::string& text, const Specification& spec, char usual, size_t sign_size) {
  const auto length = static_cast<int64_t>(text::count_characters(text));
  const int64_t missing = std::max<int64_t>(0, spec.width - length);
  const char align = spec.align ? spec.align : spec.zeros ? '=' : usual;
  const std::string& fill = spec.zeros && !spec.align ? "0" : spec.fill;
  const auto filled = [&](int64_t count) {
    std::string result;
    for (int64_t i = 0; i < count; ++i) result += fill;
    return result;
  };
  if (align == '<') return text + filled(missing);
  if (align == '^') return filled(missing / 2) + text + filled(missing - missing / 2);
  if (align == '=') return text.substr(0, sign_size) + filled(missing) + text.substr(sign_size);
  return filled(missing) + text;
}

std::string grouped_digits(const std::string& digits, char grouping) {
  const size_t whole =
      digits.find_first_not_of("0123456789") == digits.npos ? digits.size() : digits.find_first_not_of("0123456789");
  std::string result;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) result += grouping;
    result += digits[i];
  }
  return result + digits.substr(whole);
}

std::string number_text(const Value& value, const Specification& spec) {
  int64_t whole = 0;
  const bool integer = value.as_integer(whole);
  const std::string_view of_integer = "bcdoxXn", of_real = "eEfFgG%n";
  const bool as_integer = integer && (spec.type == 0 || of_integer.find(spec.type) != of_integer.npos);
  require(as_integer || spec.type == 0 || of_real.find(spec.type) != of_real.npos,
          "format: unknown format code '{}' for object of type '{}'", spec.type, value.type_name());
  require(!as_integer || spec.precision < 0, "format: precision not allowed in integer format specifier");
  require(!spec.zeros || !spec.grouping, "format: 0 and {} together are not supported", spec.grouping);
  std::string digits;
  bool negative = false;
  if (as_integer) {
    require(spec.type != 'c', "format: the code 'c' is not supported");
    negative = whole < 0;
    const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(whole) : static_cast<uint64_t>(whole);
    digits = spec.type == 'b'   ? fmt::format("{:b}", magnitude)
             : spec.type == 'o' ? fmt::format("{:o}", magnitude)
             : spec.type == 'x' ? fmt::format("{:x}", magnitude)
             : spec.type == 'X' ? fmt::format("{:X}", magnitude)
                                : fmt::format("{}", magnitude);
    if (spec.alternate && spec.type != 'd' && spec.type != 0) digits = std::string("0") + spec.type + digits;
  } else {
    const double real = spec.type == '%' ? value.as_double() * 100 : value.as_double();
    require(std::isfinite(real), "format: expected a finite number");
    negative = std::signbit(real);
    const double magnitude = std::abs(real);
    const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
    if (spec.type == 0 && spec.precision < 0) digits = to_text(Value(magnitude));
    else if (spec.type == 0) {
      digits = fmt::format("{:.{}g}", magnitude, std::max<int64_t>(precision, 1));
      if (digits.find_first_of(".e") == digits.npos) digits += ".0";
    } else {
      const char type = spec.type == '%' || spec.type == 'F' ? 'f' : spec.type == 'n' ? 'g' : spec.type;
      char buffer[1500];
      const std::string form = std::string("%.*") + type;
      std::snprintf(buffer, sizeof buffer, form.c_str(), static_cast<int>(precision), magnitude);
      digits = buffer;
      if (spec.type == '%') digits += '%';
    }
  }
  if (spec.grouping) digits = grouped_digits(digits, spec.grouping);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return aligned(sign + digits, spec, '>', sign.size());
}

std::string with_specification(const Value& value, const std::string& given) {
  if (given.empty()) return to_text(value);
  const Specification spec = specification_of(given);
  const bool boolean = value.boolean() != nullptr && (spec.type == 0 || spec.type == 's');
  if (value.number() && !boolean) return number_text(value, spec);
  require(value.text() != nullptr || value.boolean() != nullptr, "format: unsupported format string passed to {}",
          value.type_name());
  require(spec.type == 0 || spec.type == 's', "format: unknown format code '{}' for object of type '{}'", spec.type,
          value.type_name());
  require(spec.align != '=' && spec.sign == '-', "format: '=' and signs are for numbers");
  std::u32string characters = text::characters(to_text(value));
  if (spec.precision >= 0) characters.resize(std::min(characters.size(), static_cast<size_t>(spec.precision)));
  std::string text;
  for (const char32_t c : characters) text::append_character(text, c);
  Specification plain = spec;
  if (plain.zeros && !plain.align) plain.align = '<', plain.fill = "0";
  return aligned(text, plain, '<', 0);
}

// "0.name[key]": an argument, and what is taken of it.
Value field_value(Interpreter& interpreter, const std::string& field, const Arguments& arguments, size_t& used) {
  size_t at = std::min(field.find_first_of(".["), field.size());
  const std::string first = field.substr(0, at);
  const auto number = [](const std::string& text) {
    return !text.empty() && text.size() < 5 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const size_t index = first.empty() ? used++ : number(first) ? static_cast<size_t>(std::stoi(first)) : SIZE_MAX;
  Value value = argument(arguments, index, first.c_str());
  require(!value.undefined(), "format: no value for {}", quoted("{" + field + "}"));
  while (at < field.size()) {
    const bool bracket = field[at] == '[';
    const size_t end = bracket ? field.find(']', at) : std::min(field.find_first_of(".[", at + 1), field.size());
    require(end != field.npos && end > at + 1, "format: the field {} is not complete", quoted(field));
    const std::string name = field.substr(at + 1, end - at - 1);
    value = !bracket       ? interpreter.attribute(value, name)
            : number(name) ? interpreter.subscript(value, Value(int64_t{std::stoi(name)}))
                           : interpreter.subscript(value, Value(name));
    if (value.undefined()) undefined(value);
    at = bracket ? end + 1 : end;
  }
  return value;
}

}  // namespace

Value percent_formatted(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool spare) {
  const std::string pattern = to_text(value);
  std::string result;
  size_t used = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      result += pattern[i];
      continue;
    }
    size_t end = i + 1;
    while (end < pattern.size() && std::string_view("-+ #0123456789.").find(pattern[end]) != std::string_view::npos)
      ++end;
    require(end < pattern.size(), "format: incomplete format");
    const char conversion = pattern[end];
    const std::string flags = pattern.substr(i + 1, end - i - 1);
    i = end;
    if (conversion == '%') {
      result += '%';
      continue;
    }
    require(used < arguments.positional.size(), "format: not enough arguments for format string");
    const Value& item = arguments.positional[used++];
    require(flags.size() < 8, "format: a width is too long");
    const std::string spec = "%" + flags;
    char buffer[1200];
    int64_t integer = 0;
    if (conversion == 's' || conversion == 'r') {
      const std::string text = conversion == 's' ? to_text(item) : representation(item);
      const size_t width = static_cast<size_t>(std::min(std::abs(std::atoi(flags.c_str())), 1000));
      const std::string fill(text.size() < width ? width - text.size() : 0, ' ');
      result += flags.starts_with('-') ? text + fill : fill + text;
      continue;
    }
    require(item.number(), "format: %{} expects a number, found {}", conversion, item.type_name());
    for (const char c : {'d', 'i', 'x', 'X'}) {
      if (conversion != c) continue;
      if (!item.as_integer(integer)) integer = static_cast<int64_t>(std::clamp(item.as_double(), -9e18, 9e18));
      require(std::abs(std::atoi(flags.c_str())) < 1000, "format: a width is too large");
      std::snprintf(buffer, sizeof buffer, (spec + "l" + conversion).c_str(), integer);
      result += buffer;
    }
    if (conversion == 'f' || conversion == 'g' || conversion == 'e') {
      std::snprintf(buffer, sizeof buffer, (spec + conversion).c_str(), item.as_double());
      result += buffer;
    } else {
      require(std::string_view("dixX").find(conversion) != std::string_view::npos, "format: %{} is not known",
              conversion);
    }
  }
  require(spare || used == arguments.positional.size(), "not all arguments converted during string formatting");
  return interpreter.text(std::move(result));
}

std::string brace_formatted(Interpreter& interpreter, const std::string& pattern, const Arguments& arguments) {
  std::string result;
  size_t used = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view two = std::string_view(pattern).substr(i, 2);
    if (two == "{{" || two == "}}") {
      result += pattern[i++];
      continue;
    }
    require(pattern[i] != '}', "format: single '}}' encountered in format string");
    if (pattern[i] != '{') {
      result += pattern[i];
      continue;
    }
    size_t end = i + 1;
    for (int open = 1; end < pattern.size(); ++end)
      if ((open += pattern[end] == '{' ? 1 : pattern[end] == '}' ? -1 : 0) == 0) break;
    require(end < pattern.size(), "format: expected '}}'");
    const std::string inside = pattern.substr(i + 1, end - i - 1);
    const size_t colon = inside.find(':');
    std::string field = inside.substr(0, colon);
    std::string spec = colon == inside.npos ? "" : inside.substr(colon + 1);
    char conversion = 0;
    if (const size_t mark = field.find('!'); mark != field.npos) {
      require(mark + 2 == field.size() && (field.back() == 'r' || field.back() == 's'),
              "format: the conversion {} is not supported", quoted(field.substr(mark)));
      conversion = field.back();
      field.resize(mark);
    }
    const Value value = field_value(interpreter, field, arguments, used);
    while (spec.find('{') != spec.npos) {  // a width that is an argument itself
      const size_t begin = spec.find('{'), stop = spec.find('}', begin);
      require(stop != spec.npos, "format: expected '}}'");
      const Value inner = field_value(interpreter, spec.substr(begin + 1, stop - begin - 1), arguments, used);
      const std::string text = to_text(inner);
      require(text.find('{') == text.npos, "format: a specification is nested too deep");
      spec.replace(begin, stop + 1 - begin, text);
    }
    result += with_specification(conversion == 'r'   ? Value(representation(value))
                                 : conversion == 's' ? Value(to_text(value))
                                                     : value,
                                 spec);
    require(result.size() < kMaximumBytes, "format: the text becomes too long");
    i = end;
  }
  return result;
}

}  // namespace transom::jinja

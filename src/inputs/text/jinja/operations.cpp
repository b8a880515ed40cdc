// SPDX-License-Identifier: Apache-2.0
// Slices, arithmetic, and the functions that every template has.
#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/error.h"
#include "inputs/text/jinja/interpreter.h"
#include "inputs/text/jinja/rare_filters.h"

namespace transom::jinja {

constexpr int64_t kMaximumRange = 100'000;  // as in Jinja's sandbox

Value Interpreter::slice(const Expression& expression, const ScopePointer& scope) {
  const Value value = evaluate(*expression.parts[0], scope);
  if (value.undefined()) undefined(value);
  require(value.text() != nullptr || value.sequence() != nullptr, "'{}' object cannot be sliced", value.type_name());
  const List items = items_of(value);
  const auto count = static_cast<int64_t>(items.size());
  const auto bound = [&](size_t part, int64_t otherwise) {
    if (!expression.parts[part]) return otherwise;
    const Value given = evaluate(*expression.parts[part], scope);
    if (given.none()) return otherwise;
    int64_t result = 0;
    require(given.as_integer(result), "slice indices must be integers or None, found {}", given.type_name());
    return std::clamp(result, -(int64_t{1} << 40), int64_t{1} << 40);
  };
  const int64_t step = bound(3, 1);
  require(step != 0, "slice step cannot be zero");
  const auto clipped = [&](int64_t at) {
    if (at < 0) at += count;
    return std::clamp(at, step > 0 ? int64_t{0} : int64_t{-1}, step > 0 ? count : count - 1);
  };
  const int64_t none = INT64_MIN;
  const int64_t from = bound(1, none), to = bound(2, none);
  const int64_t begin = from == none ? (step > 0 ? 0 : count - 1) : clipped(from);
  const int64_t end = to == none ? (step > 0 ? count : -1) : clipped(to);
  List result;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) result.push_back(items[static_cast<size_t>(i)]);
  if (value.sequence() != nullptr) return list(std::move(result), value.sequence()->tuple);
  std::string joined;
  for (const Value& item : result) joined += *item.text();
  return text(std::move(joined));
}

Value Interpreter::binary(const std::string& symbol, const Value& a, const Value& b) {
  if (a.undefined()) undefined(a);
  if (b.undefined()) undefined(b);
  const char operation = symbol[0];
  int64_t x = 0, y = 0;
  const bool integers = a.as_integer(x) && b.as_integer(y);
  if (symbol == "+" && a.text() != nullptr && b.text() != nullptr) return text(*a.text() + *b.text());
  if (symbol == "+" && a.sequence() != nullptr && b.sequence() != nullptr) {
    List items = a.sequence()->items;
    items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
    return list(std::move(items), a.sequence()->tuple);
  }
  if (symbol == "*" && (a.text() != nullptr || b.text() != nullptr || a.sequence() != nullptr) &&
      (a.as_integer(x) || b.as_integer(x))) {
    const int64_t times = std::max<int64_t>(x, 0);
    if (const auto* sequence = a.sequence()) {
      require(static_cast<double>(times) * static_cast<double>(sequence->items.size()) < 1e6, "a list is too long");
      List items;
      for (int64_t i = 0; i < times; ++i) items.insert(items.end(), sequence->items.begin(), sequence->items.end());
      return list(std::move(items), sequence->tuple);
    }
    const std::string& unit = a.text() != nullptr ? *a.text() : *b.text();
    require(static_cast<double>(times) * static_cast<double>(unit.size()) < static_cast<double>(kMaximumBytes),
            "the template makes more than {} bytes of text", kMaximumBytes);
    std::string result;
    for (int64_t i = 0; i < times && !unit.empty(); ++i) result += unit;
    return text(std::move(result));
  }
  if (symbol == "%" && a.text() != nullptr) {
    Arguments given;
    given.positional = b.sequence() != nullptr && b.sequence()->tuple ? b.sequence()->items : List{b};
    // A list or a dictionary may be left over, as in Python.
    return percent_formatted(*this, a, given, b.dictionary() != nullptr || (b.sequence() && !b.sequence()->tuple));
  }
  require(a.number() && b.number(), "unsupported operand type(s) for {}: '{}' and '{}'", symbol, a.type_name(),
          b.type_name());
  if (integers && symbol != "/" && symbol != "**") {
    int64_t result = 0;
    bool overflow = false;
    if (operation == '+') overflow = __builtin_add_overflow(x, y, &result);
    if (operation == '-') overflow = __builtin_sub_overflow(x, y, &result);
    if (operation == '*') overflow = __builtin_mul_overflow(x, y, &result);
    if (operation == '/' || operation == '%') {
      require(y != 0, "integer division or modulo by zero");
      overflow = x == INT64_MIN && y == -1;
      const int64_t rest = overflow ? 0 : x % y;
      const int64_t remainder = rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
      if (!overflow) result = operation == '%' ? remainder : (x - remainder) / y;
    }
    require(!overflow, "an integer does not fit in 64 bits");
    return result;
  }
  if (integers && symbol == "**" && y >= 0) {
    int64_t result = 1;
    for (int64_t i = 0; i < y && result != 0; ++i) {
      require(i < 64 || x == 1 || x == -1, "an integer does not fit in 64 bits");
      require(!__builtin_mul_overflow(result, x, &result), "an integer does not fit in 64 bits");
      if (x == 1 || (x == -1 && i >= 1)) return x == 1 || y % 2 == 0 ? int64_t{1} : int64_t{-1};
    }
    return result;
  }
  const double p = a.as_double(), q = b.as_double();
  if (symbol == "+") return p + q;
  if (symbol == "-") return p - q;
  if (symbol == "*") return p * q;
  if (symbol == "**") return std::pow(p, q);
  require(q != 0, "division by zero");
  if (symbol == "/") return p / q;
  if (symbol == "//") return std::floor(p / q);
  const double rest = std::fmod(p, q);
  return rest != 0 && (rest < 0) != (q < 0) ? rest + q : rest;
}

void Interpreter::define_functions(Scope& scope) {
  auto& names = scope.variables;
  names["range"] = Function([this](Arguments& given) {
    const bool one = given.positional.size() == 1;
    const int64_t begin = one ? 0 : integer_argument(given, 0, "start", 0);
    const int64_t end = integer_argument(given, one ? 0 : 1, "stop", 0), step = integer_argument(given, 2, "step", 1);
    require(step != 0 && !given.positional.empty(), "range: expected one to three integers, the last not 0");
    const double count = std::ceil((static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step));
    require(count <= static_cast<double>(kMaximumRange), "range: expected at most {} items", kMaximumRange);
    List items;
    for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) items.emplace_back(i);
    return list(std::move(items));
  });
  const auto dictionary = [](Arguments& given) {
    auto result = std::make_shared<Dictionary>();
    if (!given.positional.empty() && given.positional[0].dictionary() != nullptr)
      for (const auto& [key, value] : given.positional[0].dictionary()->items) result->set(key, value);
    for (const auto& [name, value] : given.named) result->set(Value(name), value);
    return result;
  };
  names["dict"] = Function([dictionary](Arguments& given) { return Value(dictionary(given)); });
  names["namespace"] = Function([this, dictionary](Arguments& given) {
    auto result = dictionary(given);
    result->name_space = true;
    spend(100);
    name_spaces_.push_back(result);
    return Value(result);
  });
  names["raise_exception"] = Function([](Arguments& given) -> Value {
    fail("the template refuses: {}", quoted(text_argument(given, 0, "message", ""), 300));
  });
  names["strftime_now"] = Function([this](Arguments& given) {
    const std::string format = text_argument(given, 0, "format", "");
    require(format.size() < 1000, "strftime_now: expected a format of less than 1000 bytes, found {}", format.size());
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    std::string buffer(format.size() * 100 + 100, '\0');
    buffer.resize(format.empty() ? 0 : std::strftime(buffer.data(), buffer.size(), format.c_str(), &local));
    return text(std::move(buffer));
  });
  for (const char* name : {"cycler", "lipsum"})
    names[name] = Function(
        [name](Arguments&) -> Value { fail(ErrorKind::kUnsupported, "the function {} is not supported", name); });
  names["joiner"] = Function([](Arguments& given) {
    auto used = std::make_shared<bool>(false);
    const Value separator(text_argument(given, 0, "sep", ", "));
    return Value(
        Function([used, separator](Arguments&) { return std::exchange(*used, true) ? separator : Value(""); }));
  });
}

}  // namespace transom::jinja

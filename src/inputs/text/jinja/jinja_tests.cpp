// SPDX-License-Identifier: Apache-2.0
// The tests of Jinja (`x is defined`) that templates of chats use.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "inputs/text/jinja/interpreter.h"

namespace transom::jinja {
namespace {

// What Jinja has, for the test `test`.
constexpr std::string_view kTests[] = {
    "!=",       "<",           "<=",          "==",      ">",       ">=",        "boolean",  "callable",
    "defined",  "divisibleby", "eq",          "equalto", "escaped", "even",      "false",    "filter",
    "float",    "ge",          "greaterthan", "gt",      "in",      "integer",   "iterable", "le",
    "lessthan", "lower",       "lt",          "mapping", "ne",      "none",      "number",   "odd",
    "sameas",   "sequence",    "string",      "test",    "true",    "undefined", "upper"};

}  // namespace

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
  if (name == "filter") return value.text() != nullptr && is_filter(*value.text());
  if (name == "test") return value.text() != nullptr && std::ranges::count(kTests, *value.text()) > 0;
  if (name == "escaped") return false;
  fail("No test named {}", quoted(name));
}

}  // namespace transom::jinja

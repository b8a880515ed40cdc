// SPDX-License-Identifier: Apache-2.0
// Filters of Jinja that have rules of their own, and Python's two ways to put values into a text.
#pragma once

#include "inputs/text/jinja/interpreter.h"

namespace transom::jinja {

// round: a whole number stays one, as Python's round() has it.
Value rounded(const Value& value, const Arguments& arguments);
// slice: so many lists, the first ones one longer where it does not come out even.
Value columns_of(Interpreter& interpreter, const Value& value, const Arguments& arguments);
// urlencode: of a text, or the pairs of a dictionary or a list.
Value url_encoded(Interpreter& interpreter, const Value& value);
// title: words begin behind blanks, dashes and opening brackets, unlike in Python's own str.title.
std::string titled(const std::string& text);
Value truncated(Interpreter& interpreter, const Value& value, const Arguments& arguments);
Value file_size(Interpreter& interpreter, const Value& value, const Arguments& arguments);

// "%s and %d" with values: the conversions s, r, d, i, f, e, g, x and %, with width and precision. Values that are left
// over are refused unless they may be `spare`.
Value percent_formatted(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool spare = false);
// "{:>5} and {name!r}": str.format, with Python's format specifications of texts and numbers.
std::string brace_formatted(Interpreter& interpreter, const std::string& pattern, const Arguments& arguments);

}  // namespace transom::jinja

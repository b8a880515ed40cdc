// SPDX-License-Identifier: Apache-2.0
// Calls that models write as Python does: [f(a=1, b="x"), g()]. Nothing is evaluated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/tools/json_text.h"

namespace transom::serve {

struct PythonCall {
  std::string name;
  std::string arguments;      // an object of JSON; empty: they are no literals by name
  size_t begin = 0, end = 0;  // where the call stands
};

struct PythonSpan {
  JsonSpan::State state = JsonSpan::kBroken;
  size_t length = 0;
  std::vector<PythonCall> calls;  // those that are whole, also of a text that is cut
};

// The list of calls, or the one call, at the front of the text. Of what is no literal (strings, numbers, True, False,
// None, lists, tuples, dictionaries) only the end is looked for.
PythonSpan scan_python_calls(std::string_view text);

}  // namespace transom::serve

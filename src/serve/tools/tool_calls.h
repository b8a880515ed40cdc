// SPDX-License-Identifier: Apache-2.0
// Calls of tools in what models write, each family in its own form. Nothing is evaluated, and no text makes a parser
// take more than linear time. What cannot be parsed is content.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace transom::serve {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object as text
};

struct ParsedAnswer {
  std::string content;  // what is no call, without blanks before the first one
  std::vector<ToolCall> calls;
};

// `tools` are those of the request: names that are not among them are no calls, and parameters without quotes get their
// types from them.
ParsedAnswer parse_tool_calls(std::string_view text, const Json& tools);

// How many bytes at the front of a text that is still being written are content for certain: those before a marker of a
// call, and before what may be the beginning of one, without blanks at their end. `at_start`: nothing was written
// before it.
size_t certain_content(std::string_view text, bool at_start);

}  // namespace transom::serve

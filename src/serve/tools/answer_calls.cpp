// SPDX-License-Identifier: Apache-2.0
#include "serve/tools/answer_calls.h"

#include "serve/tools/written_calls.h"

namespace transom::serve {

std::string certain_text(const ToolChoice& tools, const std::string& text, size_t given) {
  if (tools.what == ToolChoice::kNone) return text.substr(given);
  if (!tools.schema.is_null()) return "";
  const std::string_view rest = std::string_view(text).substr(given);
  return std::string(rest.substr(0, certain_content(rest, given == 0)));
}

ParsedAnswer calls_of_answer(const ToolChoice& tools, const std::string& text) {
  ParsedAnswer parsed;
  if (!tools.schema.is_null()) {
    WrittenCalls written(tools);
    written.add(text);
    return {"", written.calls()};
  }
  if (tools.what == ToolChoice::kNone) parsed.content = text;
  else parsed = parse_tool_calls(text, tools.tools);
  if (parsed.calls.empty()) parsed.content = text;
  return parsed;
}

}  // namespace transom::serve

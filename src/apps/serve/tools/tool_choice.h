// SPDX-License-Identifier: Apache-2.0
// tools and tool_choice of a request: which calls the model may or must make.
#pragma once

#include <string>

#include "apps/serve/api/request_json.h"

namespace transom::serve {

struct ToolChoice {
  enum What { kNone, kAuto, kRequired, kNamed } what = kNone;
  std::string name;      // of kNamed
  Json tools;            // checked; null: none
  bool parallel = true;  // several calls in an answer
  // What the answer must be: of kRequired a list of {"name", "parameters"}, of kNamed the arguments. Null: free text.
  Json schema;
};

// Of the tools those that the choice {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}} leaves; all of them
// where it is another one. Refuses by 400 what is not among them.
Json allowed_tools(const Json& tools, const Json* choice);
// Refuses by 400 tools without a name or with a schema that is none, and choices that are not among them.
ToolChoice read_tool_choice(RequestFields& fields);

}  // namespace transom::serve

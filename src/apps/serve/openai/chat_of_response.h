// SPDX-License-Identifier: Apache-2.0
// The conversation and the tools of /v1/responses in the form that /v1/chat/completions has for them.
#pragma once

#include <string>
#include <vector>

#include "apps/serve/api/request_json.h"

namespace transom::serve {

struct ChatOfResponse {
  Json body;               // messages, tools, tool_choice, parallel_tool_calls
  std::vector<int> items;  // of each message the first item of the input that it is of; -1: the instructions
  // An error of the chat as the client knows its fields: "messages[2].content" as "input[1].content".
  std::string named(const std::string& text) const;
};

// Reads input, instructions, tools, tool_choice and parallel_tool_calls. Refuses by 400 other items than messages,
// calls of functions and their outputs, outputs without their call, and other tools than functions.
ChatOfResponse read_chat_of_response(RequestFields& fields);

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
// The calls in an answer that is being written, as the tools and the choice of its request ask for them.
#pragma once

#include <string>

#include "serve/tools/tool_calls.h"
#include "serve/tools/tool_choice.h"

namespace transom::serve {

// What may be sent of a text that is still written, of which `given` bytes are sent: without tools all, else what is no
// call for certain.
std::string certain_text(const ToolChoice& tools, const std::string& text, size_t given);
// The whole text: calls, and what is none. Where the tools shape the answer, a limit may have cut its last call, and a
// beginning that names no tool yet is nothing.
ParsedAnswer calls_of_answer(const ToolChoice& tools, const std::string& text);

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
// The way of a chat through every interface: a dialect says in OpenAI's fields what its request asks for, and writes
// what comes out of WrittenAnswer.
#pragma once

#include "apps/serve/chat/chat_prompt.h"
#include "apps/serve/generation/generation_request.h"
#include "apps/serve/tools/tool_choice.h"
#include "apps/serve/tools/written_answer.h"

namespace transom::serve {

struct ChatTurn {
  ToolChoice tools;
  ChatPrompt prompt;
  WrittenAnswer answer(bool skip_special_tokens) const {
    return {tools, prompt.call_ids, skip_special_tokens, prompt.thoughts};
  }
};

// Reads what read_tool_choice and read_chat_prompt read, and `thinking_token_budget`, the tokens that the model may
// think. `sampling` has the form of the answer that the dialect has read, if any, and gets the one that tools and
// thoughts ask for: forms of answers hold behind the thoughts. Refuses by 400. `budget`: the same limit, which is only
// logged where the model shows no thoughts.
ChatTurn read_chat_turn(RequestFields& fields, const ServedModel& model, const ServeOptions& options,
                        SamplingFields& sampling, std::optional<int64_t> budget = std::nullopt);

}  // namespace transom::serve

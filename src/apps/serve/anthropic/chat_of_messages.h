// SPDX-License-Identifier: Apache-2.0
// A request of /v1/messages in the words of a chat, which is what prompts are made of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/serve/api/request_json.h"

namespace transom::serve {

struct ChatOfMessages {
  Json body;                      // as read_chat_turn reads it
  std::vector<int> origins;       // of each message in it the number of the one that it comes from; -1: `system`
  bool thinks = false;            // the request asks for thoughts
  std::optional<int64_t> budget;  // tokens of them
  // A text that begins with the place of a message or a tool, with the place that the client knows.
  std::string named(const std::string& text) const;
};

// Reads system, messages, tools, tool_choice, thinking and output_config.effort. Refuses by 400 blocks and tools that
// this server does not take, and results of calls that nobody has made.
ChatOfMessages read_chat_of_messages(RequestFields& fields);

}  // namespace transom::serve

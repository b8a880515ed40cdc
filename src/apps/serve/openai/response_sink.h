// SPDX-License-Identifier: Apache-2.0
// What is written for /v1/responses: thoughts, a message and calls of functions as items of the output, whole or as
// events.
#pragma once

#include <memory>
#include <string>

#include "apps/serve/chat/chat_turn.h"

namespace transom::serve {

struct ResponseSettings {
  std::string id, model;
  int64_t created = 0, prompt_tokens = 0;
  bool stream = false, parallel_tool_calls = true, skip_special_tokens = true, include_stop = false,
       include_stop_token = false;
  std::optional<int64_t> logprobs;  // so many likeliest tokens beside each
  Json metadata = Json::object();
  Json tools, tool_choice;  // as the request has them
  Json asked;               // further fields of the request, which answers repeat
  ChatTurn turn;
};

std::shared_ptr<GenerationSink> response_sink(std::shared_ptr<Call> call, const ServedModel& model,
                                              ResponseSettings settings);

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
// What is written for /v1/messages: blocks of thoughts, text and calls, whole or as events.
#pragma once

#include <memory>
#include <string>

#include "apps/serve/chat/chat_turn.h"

namespace transom::serve {

struct MessageSettings {
  std::string id, model;
  bool stream = false, shows_thoughts = false;
  bool is_cut_by_context = false;  // the context ends before max_tokens are written
  ChatTurn turn;
};

std::shared_ptr<GenerationSink> message_sink(std::shared_ptr<Call> call, const ServedModel& model,
                                             MessageSettings settings);

}  // namespace transom::serve

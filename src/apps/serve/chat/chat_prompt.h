// SPDX-License-Identifier: Apache-2.0
// The messages of a chat as tokens for the model, by its chat template.
#pragma once

#include "apps/serve/api/request_json.h"
#include "apps/serve/generation/chat_images.h"
#include "apps/serve/models/served_model.h"
#include "apps/serve/reasoning/reasoning_form.h"
#include "apps/serve/tools/call_ids.h"
#include "apps/serve/tools/long_numbers.h"
#include "transom/generation.h"

namespace transom::serve {

struct ChatPrompt {
  std::string text;
  ModelInputs inputs;
  Json tools;  // those of the request; null: none
  CallIds call_ids;
  ThoughtStart thoughts;
  bool asks_for_thoughts = false;  // by a field
};

// Reads messages, tools, documents, add_generation_prompt, continue_final_message, chat_template_kwargs,
// reasoning_effort, think. What the assistant has thought (`reasoning_content`, `reasoning`, `thinking` of a message)
// goes to the template as reasoning_content. Refuses by 400 roles and parts that this server does not take.
ChatPrompt read_chat_prompt(RequestFields& fields, const ServedModel& model, const ServeOptions& options);
// Messages with the roles that templates expect: contents as texts or lists of parts, of which pictures go to `images`
// (null: they are refused); arguments of calls as the values that their texts stand for, long numbers by
// their stand-ins. A text that is no JSON, which a limit has cut or a model got wrong, stays one.
Json normalised_messages(const Json& messages, LongNumbers& numbers, ChatImages* images);

}  // namespace transom::serve

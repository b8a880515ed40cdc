// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/chat/chat_turn.h"

#include "apps/serve/api/known_fields.h"
#include "apps/serve/structured/structured_output.h"
#include "work/generation/constraint/thoughts_first.h"

namespace transom::serve {
namespace {

// An answer that something shapes is thought about where the prompt begins the thoughts, or the request asks for them.
void constrain_thoughts(const ChatPrompt& prompt, std::optional<int64_t> budget, const ServedModel& model,
                        EngineRequest& request) {
  if (!prompt.thoughts.form) return;
  const bool shaped = request.constraint != nullptr;
  if (!budget && !(shaped && (prompt.thoughts.begun || prompt.asks_for_thoughts))) return;
  const ReasoningForm& form = *prompt.thoughts.form;
  request.constraint = constraint::thoughts_first(model.generator->vocabulary(), *model.tokenizer,
                                                  {.open = std::string(form.open),
                                                   .close = std::string(form.close),
                                                   .forced_close = std::string(form.forced_close),
                                                   .answer_behind = std::string(form.answer_behind),
                                                   .begun = prompt.thoughts.begun,
                                                   .may_begin = prompt.asks_for_thoughts,
                                                   .budget = budget},
                                                  request.constraint);
}

}  // namespace

ChatTurn read_chat_turn(RequestFields& fields, const ServedModel& model, const ServeOptions& options,
                        SamplingFields& sampling, std::optional<int64_t> budget) {
  ChatTurn turn;
  turn.tools = read_tool_choice(fields);
  if (!turn.tools.schema.is_null()) {
    if (sampling.request.constraint) refuse_field("tool_choice", "tool_choice: excludes another form of the answer");
    sampling.request.constraint = schema_constraint(model, turn.tools.schema, "tools");
  }
  const auto given = fields.integer("thinking_token_budget", 0, INT32_MAX);
  turn.prompt = read_chat_prompt(fields, model, options);
  constexpr const char* kNoThoughts =
      "this model shows no thoughts that could be counted, or the server does not tell them from the text";
  if (given && !turn.prompt.thoughts.form)
    refuse_field("thinking_token_budget", "thinking_token_budget: {}", kNoThoughts);
  if (budget && !turn.prompt.thoughts.form)
    report_once(model.name, "thoughts",
                fmt::format("{}: a limit of thoughts has no effect: {}", model.name, kNoThoughts));
  if (given) budget = given;
  constrain_thoughts(turn.prompt, budget, model, sampling.request);
  return turn;
}

}  // namespace transom::serve

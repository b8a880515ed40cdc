// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses without a memory: each request brings the whole conversation.
#include <ctime>

#include "serve/generation/generation_request.h"
#include "serve/openai/chat_of_response.h"
#include "serve/openai/chat_prompt.h"
#include "serve/openai/identifiers.h"
#include "serve/openai/response_sink.h"
#include "serve/openai/routes.h"
#include "serve/structured/structured_output.h"

namespace transom::serve {
namespace {

// The format as a chat has it; errors name it as this interface does.
ConstraintPointer read_text_format(const Json& as_chat, const ServedModel& model) {
  RequestFields fields(as_chat);
  try {
    return read_structured_output(fields, model);
  } catch (const ApiError& error) {
    const auto renamed = [](std::string text) {
      for (const std::string name : {"response_format.json_schema", "response_format"})
        if (text.starts_with(name)) return "text.format" + text.substr(name.size());
      return text;
    };
    throw ApiError(error.status(), renamed(error.what()), renamed(error.param()), error.code());
  }
}

}  // namespace

void responses(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = call->use_model(name ? &*name : nullptr, can_generate, "responses");
  const ServeOptions& options = call->services().options;
  if (fields.any("previous_response_id"))
    refuse_field("previous_response_id",
                 "previous_response_id: this server keeps no responses; send the whole conversation");
  if (fields.any("conversation"))
    refuse_field("conversation", "conversation: this server keeps none; send the whole conversation as input");
  if (fields.any("prompt")) refuse_field("prompt", "prompt: this server keeps no prompts; send instructions and input");
  fields.unsupported("background", false);
  const ChatOfResponse chat = read_chat_of_response(fields);
  ResponseSettings settings{.id = new_identifier("resp_"), .created = std::time(nullptr)};
  settings.tools = fields.any("tools") ? *fields.any("tools") : Json::array();
  settings.tool_choice = fields.any("tool_choice") ? *fields.any("tool_choice") : Json("auto");
  settings.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  RequestFields chat_fields(chat.body);
  const ChatPrompt prompt = [&] {
    try {
      settings.choice = read_tool_choice(chat_fields);
      return read_chat_prompt(chat_fields, model, options);
    } catch (const ApiError& error) {
      throw ApiError(error.status(), chat.named(error.what()), chat.named(error.param()), error.code());
    }
  }();
  SamplingFields sampling = default_sampling(model, options);
  settings.model = read_adapter(name, model, sampling);
  read_sampling(fields, model, sampling);
  sampling.max_tokens = fields.integer("max_output_tokens", 1, INT32_MAX);
  sampling.names = {.prompt = "input", .tokens = "max_output_tokens"};
  if (const Json* text = fields.object("text"); text && text->contains("format") && (*text)["format"].is_object()) {
    const Json& format = (*text)["format"];
    Json as_chat{{"response_format", format}};
    if (format.value("type", Json()) == "json_schema")
      as_chat = {{"response_format", {{"type", "json_schema"}, {"json_schema", format}}}};
    sampling.request.constraint = read_text_format(as_chat, model);
  }
  if (!settings.choice.schema.is_null()) {
    if (sampling.request.constraint) refuse_field("tool_choice", "tool_choice: excludes another form of the answer");
    sampling.request.constraint = schema_constraint(model, settings.choice.schema, "tools");
  }
  settings.stream = fields.boolean("stream").value_or(false);
  settings.skip_special_tokens = sampling.request.skip_special_tokens;
  settings.include_stop = sampling.include_stop;
  settings.include_stop_token = sampling.include_stop_token;
  settings.call_ids = prompt.call_ids;
  settings.prompt_tokens = static_cast<int64_t>(prompt.ids.size());
  fields.ignore({"reasoning", "truncation", "include"});
  log_unknown_fields(fields.unknown(), "/v1/responses");
  std::vector<EngineRequest> requests{request_for(sampling, prompt.ids, model, 0)};
  start_generation(call, model, std::move(requests), response_sink(call, std::move(settings)), sampling.names);
}

}  // namespace transom::serve

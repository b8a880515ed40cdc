// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses without a memory: each request brings the whole conversation.
#include <ctime>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/generation/generation_request.h"
#include "apps/serve/openai/chat_of_response.h"
#include "apps/serve/openai/identifiers.h"
#include "apps/serve/openai/response_sink.h"
#include "apps/serve/openai/routes.h"
#include "apps/serve/structured/structured_output.h"

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

// What an answer repeats of its request. Nothing is kept or cut, whatever the request says.
Json asked_of_response(const Json& body) {
  Json asked{{"background", false}, {"previous_response_id", nullptr}, {"store", false}, {"truncation", "disabled"}};
  for (const char* name :
       {"instructions", "max_output_tokens", "reasoning", "temperature", "text", "top_logprobs", "top_p", "user"})
    asked[name] = body.value(name, Json());
  Json& text = asked["text"];
  if (text.is_null()) text = Json::object();
  if (!text.contains("format") || text["format"].is_null()) text["format"] = {{"type", "text"}};
  return asked;
}

// `include`: what is about tools that there are not, or thoughts, includes nothing.
bool wants_logprobs(const Json* include) {
  bool wants = false;
  if (!include) return wants;
  for (const Json& each : *include) {
    static const std::vector<std::string> kOfOthers{
        "reasoning.encrypted_content",    "file_search_call.results",      "web_search_call.results",
        "web_search_call.action.sources", "message.input_image.image_url", "computer_call_output.output.image_url",
        "code_interpreter_call.outputs"};
    if (each == "message.output_text.logprobs") wants = true;
    else if (std::find(kOfOthers.begin(), kOfOthers.end(), each) == kOfOthers.end())
      refuse_field("include", "include: expected \"message.output_text.logprobs\", found {}", quoted(compact(each)));
  }
  return wants;
}

}  // namespace

void responses(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = call->use_model(name ? &*name : nullptr, can_generate, "responses");
  const ServeOptions& options = call->services().options;
  const ChatOfResponse chat = read_chat_of_response(fields);
  ResponseSettings settings{.id = new_identifier("resp_"), .created = std::time(nullptr)};
  settings.tools = fields.any("tools") ? *fields.any("tools") : Json::array();
  settings.tool_choice = fields.any("tool_choice") ? *fields.any("tool_choice") : Json("auto");
  settings.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  SamplingFields sampling = default_sampling(model, options);
  settings.model = read_adapter(name, model, sampling);
  read_sampling(fields, model, sampling);
  expect_one_plain_answer(sampling);
  sampling.max_tokens = fields.integer("max_output_tokens", 1, INT32_MAX);
  sampling.names = {.prompt = "input", .tokens = "max_output_tokens"};
  if (const Json* text = fields.object("text"); text && text->contains("format") && (*text)["format"].is_object()) {
    const Json& format = (*text)["format"];
    Json as_chat{{"response_format", format}};
    if (format.value("type", Json()) == "json_schema")
      as_chat = {{"response_format", {{"type", "json_schema"}, {"json_schema", format}}}};
    sampling.request.constraint = read_text_format(as_chat, model);
  }
  if (const Json* text = fields.object("text")) {
    RequestFields inner(*text, "text");
    inner.object("format");
    expect_known_fields(inner, "/v1/responses");
  }
  RequestFields chat_fields(chat.body);
  try {
    settings.turn = read_chat_turn(chat_fields, model, options, sampling);
  } catch (const ApiError& error) {
    throw ApiError(error.status(), chat.named(error.what()), chat.named(error.param()), error.code());
  }
  settings.stream = fields.boolean("stream").value_or(false);
  settings.skip_special_tokens = sampling.request.skip_special_tokens;
  settings.include_stop = sampling.include_stop;
  settings.include_stop_token = sampling.include_stop_token;
  if (const Json* stream = fields.object("stream_options"))
    expect_known_fields(RequestFields(*stream, "stream_options"), "/v1/responses");
  if (const auto top = fields.integer("top_logprobs", 0, 20); top && *top > 0) settings.logprobs = *top;
  if (wants_logprobs(fields.list("include"))) settings.logprobs = settings.logprobs.value_or(0);
  sampling.request.logprobs = settings.logprobs;
  if (const Json* metadata = fields.object("metadata")) settings.metadata = *metadata;
  settings.prompt_tokens = static_cast<int64_t>(settings.turn.prompt.inputs.tokens.size());
  settings.asked = asked_of_response(body);
  expect_known_fields(fields, "/v1/responses");
  std::vector<EngineRequest> requests{request_for(sampling, settings.turn.prompt.inputs, model, 0)};
  start_generation(call, model, std::move(requests), response_sink(call, model, std::move(settings)), sampling.names);
}

}  // namespace transom::serve

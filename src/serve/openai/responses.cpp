// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses without a memory: each request brings the whole conversation.
#include <ctime>

#include "serve/generation/generation_request.h"
#include "serve/openai/chat_prompt.h"
#include "serve/openai/identifiers.h"
#include "serve/openai/routes.h"
#include "serve/structured/structured_output.h"

namespace transom::serve {
namespace {

struct ResponseSettings {
  std::string id, message_id, model;
  int64_t created = 0, prompt_tokens = 0;
  bool stream = false;
};

class ResponseSink : public GenerationSink {
 public:
  ResponseSink(std::shared_ptr<Call> call, ResponseSettings settings)
      : call_(std::move(call)), settings_(std::move(settings)) {}

  void on_event(int64_t /*choice*/, EngineEvent& event) override {
    tokens_ += static_cast<int64_t>(event.tokens.size());
    if (event.finish) complete_ = *event.finish != FinishReason::kLength;
    text_ += event.text;
    if (!settings_.stream) return;
    begin();
    if (!event.text.empty())
      send("response.output_text.delta", place({{"delta", event.text}, {"logprobs", Json::array()}}));
  }

  void on_wait() override {
    if (settings_.stream) begin();
  }

  void on_done() override {
    if (!settings_.stream) return call_->reply(response(true));
    begin();
    send("response.output_text.done", place({{"text", text_}, {"logprobs", Json::array()}}));
    send("response.content_part.done", place({{"part", part()}}));
    send("response.output_item.done", {{"output_index", 0}, {"item", item(true)}});
    send(complete_ ? "response.completed" : "response.incomplete", {{"response", response(true)}});
    call_->finish_stream();
  }

 private:
  // What clients take for granted is there though it is empty.
  static Json part_of(const std::string& text) {
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }
  Json part() const { return part_of(text_); }
  const char* status(bool done) const { return !done ? "in_progress" : complete_ ? "completed" : "incomplete"; }
  Json item(bool done) const {
    return {{"type", "message"},
            {"id", settings_.message_id},
            {"status", status(done)},
            {"role", "assistant"},
            {"content", done ? Json::array({part()}) : Json::array()}};
  }
  Json place(Json more) const {
    Json event{{"item_id", settings_.message_id}, {"output_index", 0}, {"content_index", 0}};
    event.update(more);
    return event;
  }

  Json response(bool done) const {
    Json json{{"id", settings_.id},
              {"object", "response"},
              {"created_at", settings_.created},
              {"status", status(done)},
              {"error", nullptr},
              {"incomplete_details", done && !complete_ ? Json{{"reason", "max_output_tokens"}} : Json()},
              {"instructions", nullptr},
              {"metadata", Json::object()},
              {"model", settings_.model},
              {"output", done ? Json::array({item(true)}) : Json::array()},
              {"parallel_tool_calls", true},
              {"tool_choice", "auto"},
              {"tools", Json::array()},
              {"temperature", nullptr},
              {"top_p", nullptr},
              {"usage", nullptr}};
    if (done)
      json["usage"] = {{"input_tokens", settings_.prompt_tokens},
                       {"input_tokens_details", {{"cached_tokens", call_->cached_tokens}}},
                       {"output_tokens", tokens_},
                       {"output_tokens_details", {{"reasoning_tokens", 0}}},
                       {"total_tokens", settings_.prompt_tokens + tokens_}};
    return json;
  }

  void begin() {
    if (call_->streams()) return;
    call_->begin_stream();
    send("response.created", {{"response", response(false)}});
    send("response.in_progress", {{"response", response(false)}});
    send("response.output_item.added", {{"output_index", 0}, {"item", item(false)}});
    send("response.content_part.added", place({{"part", part_of("")}}));
  }

  void send(const char* type, const Json& content) {
    Json event{{"type", type}, {"sequence_number", number_++}};
    event.update(content);
    call_->write(fmt::format("event: {}\ndata: {}\n\n", type, compact(event)));
  }

  std::shared_ptr<Call> call_;
  ResponseSettings settings_;
  std::string text_;
  bool complete_ = true;
  int64_t tokens_ = 0, number_ = 0;
};

// Items of the input as messages of a chat.
Json messages_of(const Json& input, const std::optional<std::string>& instructions) {
  Json messages = Json::array();
  if (instructions) messages.push_back({{"role", "system"}, {"content", *instructions}});
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
    return messages;
  }
  if (!input.is_array() || input.empty()) refuse_field("input", "input: expected a string or a list of items");
  for (size_t i = 0; i < input.size(); ++i) {
    const std::string where = fmt::format("input[{}]", i);
    if (!input[i].is_object()) refuse_field(where, "{}: expected an object", where);
    const std::string type =
        input[i].value("type", Json("message")).is_string() ? input[i].value("type", std::string("message")) : "";
    if (type != "message")
      refuse_field(where, "{}: items of the type {} are not supported by this server", where, quoted(type));
    messages.push_back({{"role", input[i].value("role", Json())}, {"content", input[i].value("content", Json())}});
  }
  return messages;
}

// "messages[2].content" as "input[1].content", where instructions are the first message.
std::string item_named(const std::string& text, bool instructions) {
  const size_t begin = std::string("messages[").size(), end = text.find(']');
  const long number = std::strtol(text.c_str() + begin, nullptr, 10) - (instructions ? 1 : 0);
  return end == text.npos || number < 0 ? text : fmt::format("input[{}{}", number, text.substr(end));
}

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
  if (const Json* tools = fields.list("tools"); tools && !tools->empty())
    refuse_field("tools", "tools: not supported here; use /v1/chat/completions");
  const Json* input = fields.any("input");
  if (!input) refuse_field("input", "input: missing; expected a string or a list of items");
  Json chat{{"messages", messages_of(*input, fields.text("instructions"))}};
  RequestFields chat_fields(chat);
  const ChatPrompt prompt = [&] {
    try {
      return read_chat_prompt(chat_fields, model, options);
    } catch (const ApiError& error) {  // the messages are made of the input
      const auto renamed = [&](const std::string& text) {
        return text.starts_with("messages[") ? item_named(text, fields.any("instructions") != nullptr) : text;
      };
      throw ApiError(error.status(), renamed(error.what()), renamed(error.param()), error.code());
    }
  }();
  SamplingFields sampling = default_sampling(model, options);
  const std::string answering = read_adapter(name, model, sampling);
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
  ResponseSettings settings{.id = new_identifier("resp_"),
                            .message_id = new_identifier("msg_"),
                            .model = answering,
                            .created = std::time(nullptr)};
  settings.stream = fields.boolean("stream").value_or(false);
  settings.prompt_tokens = static_cast<int64_t>(prompt.ids.size());
  fields.ignore({"tool_choice", "parallel_tool_calls", "reasoning", "truncation", "include", "tools"});
  log_unknown_fields(fields.unknown(), "/v1/responses");
  std::vector<EngineRequest> requests{request_for(sampling, prompt.ids, model, 0)};
  start_generation(call, model, std::move(requests), std::make_shared<ResponseSink>(call, std::move(settings)),
                   sampling.names);
}

}  // namespace transom::serve

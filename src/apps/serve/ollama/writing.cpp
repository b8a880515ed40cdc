// SPDX-License-Identifier: Apache-2.0
// POST /api/chat and /api/generate.
#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/stream_form.h"
#include "apps/serve/chat/chat_turn.h"
#include "apps/serve/generation/encode_prompt.h"
#include "apps/serve/models/served_model.h"
#include "apps/serve/ollama/routes.h"
#include "apps/serve/tools/argument_places.h"

namespace transom::serve {
namespace {

struct OllamaSettings {
  std::string model;  // as the client named it
  bool chat = false, stream = true;
  int64_t prompt_tokens = 0;
  TokenIds context;         // of /api/generate: the prompt, to which what is written is added
  bool has_context = true;  // not with pictures, which tokens do not hold
  ChatTurn turn;            // of prompts without a template: nothing
  bool logprobs = false;
};

class OllamaSink : public GenerationSink {
 public:
  OllamaSink(std::shared_ptr<Call> call, const ServedModel& model, OllamaSettings settings)
      : call_(std::move(call)), model_(model), settings_(std::move(settings)), answer_(settings_.turn.answer(true)) {}

  void on_event(int64_t /*choice*/, EngineEvent& event) override {
    tokens_ += static_cast<int64_t>(event.tokens.size());
    if (settings_.logprobs)
      for (Json& each : logprob_list(*model_.tokenizer, event.logprobs)) logprobs_.push_back(std::move(each));
    settings_.context.insert(settings_.context.end(), event.tokens.begin(), event.tokens.end());
    answer_.add(event);
    if (event.finish) {
      reason_ = *event.finish == FinishReason::kLength ? "length" : "stop";
      answer_.finish();
    }
    const std::string text = answer_.take_content(), thoughts = answer_.take_thoughts();
    text_ += text;
    thoughts_ += thoughts;
    const std::vector<ToolCall>& calls = answer_.calls();
    if (!settings_.stream || (text.empty() && thoughts.empty() && calls.size() == given_)) return;
    begin();
    const auto more = std::span(calls).subspan(given_);
    write(part(text, thoughts, more), more);
    given_ = calls.size();
  }

  void on_wait() override {
    if (settings_.stream) begin();
  }

  void on_done() override {
    if (settings_.stream) {
      begin();
      Json last = part("", "", {});
      add_figures(last);
      write(last);
      return call_->finish_stream();
    }
    Json answer = part(text_, thoughts_, answer_.calls());
    add_figures(answer);
    call_->respond({.status = 200, .body = text_of(answer, answer_.calls())});
  }

 private:
  void begin() {
    if (!call_->streams()) call_->begin_stream(kLinesOfJson);
  }

  std::string text_of(const Json& line, std::span<const ToolCall> calls = {}) const {
    std::vector<std::string> arguments;
    for (const ToolCall& call : calls) arguments.push_back(call.arguments);
    return places_.filled(line, arguments);
  }

  void write(const Json& line, std::span<const ToolCall> calls = {}) { call_->write(text_of(line, calls) + "\n"); }

  Json part(const std::string& text, const std::string& thoughts, std::span<const ToolCall> calls) {
    Json line{{"model", settings_.model}, {"created_at", ollama_time()}};
    if (settings_.chat) {
      line["message"] = {{"role", "assistant"}, {"content", text}};
      for (size_t i = 0; i < calls.size(); ++i)
        line["message"]["tool_calls"].push_back(
            {{"id", calls[i].id}, {"function", {{"name", calls[i].name}, {"arguments", places_[i]}}}});
    } else {
      line["response"] = text;
    }
    if (!thoughts.empty()) (settings_.chat ? line["message"] : line)["thinking"] = thoughts;
    if (settings_.logprobs && !logprobs_.empty()) line["logprobs"] = std::exchange(logprobs_, Json::array());
    line["done"] = false;
    return line;
  }

  void add_figures(Json& line) const {
    const auto nanoseconds = [](double milliseconds) {
      return static_cast<int64_t>(std::max(0.0, milliseconds) * 1e6);
    };
    const double total = call_->milliseconds(), first = call_->first_token_ms;
    line["done"] = true;
    line["done_reason"] = reason_;
    if (!settings_.chat && settings_.has_context) line["context"] = settings_.context;
    line["total_duration"] = nanoseconds(total);
    line["load_duration"] = 0;
    line["prompt_eval_count"] = settings_.prompt_tokens;
    line["prompt_eval_duration"] = nanoseconds(first);
    line["eval_count"] = tokens_;
    line["eval_duration"] = nanoseconds(first >= 0 ? total - first : 0);
  }

  std::shared_ptr<Call> call_;
  const ServedModel& model_;
  OllamaSettings settings_;
  WrittenAnswer answer_;
  const ArgumentPlaces places_;
  Json logprobs_ = Json::array();  // that are not sent
  std::string text_, thoughts_, reason_ = "stop";
  size_t given_ = 0;  // calls that are sent
  int64_t tokens_ = 0;
};

// A request without a prompt only wants the model in memory.
void answer_loaded(const std::shared_ptr<Call>& call, const std::string& name, bool chat) {
  Json answer{{"model", name}, {"created_at", ollama_time()}};
  if (chat) answer["message"] = {{"role", "assistant"}, {"content", ""}};
  else answer["response"] = "";
  answer["done"] = true;
  answer["done_reason"] = "load";
  call->reply(answer);
}

void start(const std::shared_ptr<Call>& call, ServedModel& model, SamplingFields sampling, ModelInputs inputs,
           OllamaSettings settings) {
  sampling.names = {.prompt = settings.chat ? "messages" : "prompt", .tokens = "options.num_predict"};
  settings.prompt_tokens = static_cast<int64_t>(inputs.tokens.size());
  std::vector<EngineRequest> requests{request_for(sampling, std::move(inputs), model, 0)};
  start_generation(call, model, std::move(requests), std::make_shared<OllamaSink>(call, model, std::move(settings)),
                   sampling.names);
}

// Messages as OpenAI's interface has them.
Json openai_messages(const Json& messages) {
  Json result = Json::array();
  for (const Json& given : messages) {
    Json message = given;
    if (message.is_object()) {
      if (message.contains("tool_name")) message["name"] = message["tool_name"];
      if (!message.contains("content")) message["content"] = "";
      const auto images = message.find("images");
      message["content"] = ollama_content(message["content"], images == message.end() ? nullptr : &*images);
      message.erase("images");
    }
    result.push_back(std::move(message));
  }
  return result;
}

}  // namespace

void ollama_chat(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const std::string name = ollama_model_name(fields, call->services());
  ServedModel& model = call->use_model(&name, can_generate, "chat");
  OllamaSettings settings{.model = fields.text("model").value_or(name), .chat = true};
  settings.stream = fields.boolean("stream").value_or(true);
  fields.any("think");  // read with the chat
  SamplingFields sampling = read_ollama_options(fields, model, call->services().options);
  settings.logprobs = read_ollama_logprobs(fields, sampling.request);
  read_adapter(name, model, sampling);
  const Json* messages = fields.list("messages", 1024);
  const Json* tools = fields.list("tools", 128);
  expect_known_fields(fields, "/api/chat");
  if (!messages || messages->empty()) return answer_loaded(call, settings.model, true);
  Json chat{{"messages", openai_messages(*messages)}};
  if (tools && !tools->empty()) chat["tools"] = *tools;
  if (const Json* think = fields.any("think")) chat["think"] = *think;
  RequestFields openai(chat);
  settings.turn = read_chat_turn(openai, model, call->services().options, sampling);
  ModelInputs inputs = settings.turn.prompt.inputs;
  start(call, model, sampling, std::move(inputs), std::move(settings));
}

void ollama_generate(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const std::string name = ollama_model_name(fields, call->services());
  ServedModel& model = call->use_model(&name, can_generate, "text generation");
  OllamaSettings settings{.model = fields.text("model").value_or(name)};
  settings.stream = fields.boolean("stream").value_or(true);
  fields.any("think");  // read with the chat
  const Json* images = fields.list("images", 1024);
  SamplingFields sampling = read_ollama_options(fields, model, call->services().options);
  settings.logprobs = read_ollama_logprobs(fields, sampling.request);
  read_adapter(name, model, sampling);
  const std::string prompt = fields.text("prompt").value_or(""), system = fields.text("system").value_or("");
  const bool raw = fields.boolean("raw").value_or(false);
  if (raw && !system.empty()) refuse_field("system", "system: not together with raw, which takes the prompt as it is");
  const Json* context = fields.list("context", 1 << 20);
  expect_known_fields(fields, "/api/generate");
  if (prompt.empty()) return answer_loaded(call, settings.model, false);
  TokenIds ids;
  if (context)
    for (const Json& token : *context) {
      if (!token.is_number_integer() || token.get<int64_t>() < 0 ||
          token.get<int64_t>() >= model.tokenizer->vocab_size())
        refuse_field("context", "context: expected token ids from 0 to {}, found {}", model.tokenizer->vocab_size() - 1,
                     quoted(compact(token)));
      ids.push_back(token.get<int64_t>());
    }
  const bool has_images = images && !images->empty();
  if (has_images && !model.images) refuse_field("images", "images: not supported by this model, which reads texts");
  if (has_images && (raw || context))
    refuse_field("images", "images: not together with {}, which is what pictures would stand in",
                 raw ? "raw" : "context");
  const bool templated = has_images || (!raw && (model.tokenizer->has_chat_template() || !system.empty()));
  ModelInputs rest;
  if (templated) {
    Json chat{{"messages", Json::array()}};
    if (!system.empty()) chat["messages"].push_back({{"role", "system"}, {"content", system}});
    chat["messages"].push_back({{"role", "user"}, {"content", ollama_content(prompt, images)}});
    if (const Json* think = fields.any("think")) chat["think"] = *think;
    RequestFields openai(chat);
    settings.turn = read_chat_turn(openai, model, call->services().options, sampling);
    rest = settings.turn.prompt.inputs;
  } else {
    if (fields.any("think"))
      report_once("/api/generate", "think", "/api/generate: think has no effect on prompts without a template");
    rest = encode_prompt(prompt, {.add_special_tokens = ids.empty()}, *model.tokenizer, model.max_length.value_or(0),
                         "prompt");
  }
  rest.tokens.insert(rest.tokens.begin(), ids.begin(), ids.end());
  settings.context = rest.tokens;
  settings.has_context = !has_images;
  start(call, model, sampling, std::move(rest), std::move(settings));
}

}  // namespace transom::serve

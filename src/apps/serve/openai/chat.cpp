// SPDX-License-Identifier: Apache-2.0
// POST /v1/chat/completions.
#include <ctime>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/written_numbers.h"
#include "apps/serve/chat/chat_turn.h"
#include "apps/serve/generation/generation_request.h"
#include "apps/serve/openai/functions.h"
#include "apps/serve/openai/identifiers.h"
#include "apps/serve/openai/routes.h"
#include "apps/serve/structured/structured_output.h"

namespace transom::serve {
namespace {

struct ChatSettings {
  std::string id, model;
  int64_t created = 0, prompt_tokens = 0;
  bool stream = false, include_usage = false, logprobs = false, include_stop = false, include_stop_token = false,
       skip_special_tokens = true;
  bool continuous_usage = false;
  bool functions = false;  // calls in OpenAI's older form
  TokenDetails details;
  bool shows_thoughts = true;
  ChatTurn turn;
};

class ChatSink : public GenerationSink {
 public:
  ChatSink(std::shared_ptr<Call> call, ServedModel& model, ChatSettings settings, int64_t n)
      : call_(std::move(call)),
        model_(model),
        settings_(std::move(settings)),
        choices_(static_cast<size_t>(n), Choice(settings_)) {}

  void on_event(int64_t number, EngineEvent& event) override {
    Choice& choice = choices_.at(static_cast<size_t>(number));
    if (!event.prompt.empty() && prompt_logprobs_.empty()) prompt_logprobs_ = std::move(event.prompt);
    for (const int64_t token : event.tokens) choice.ids.push_back(token);
    const Json logprobs = settings_.logprobs ? logprob_list(*model_.tokenizer, event.logprobs) : Json::array();
    choice.tokens += static_cast<int64_t>(event.tokens.size());
    choice.answer.add(event, shown_end(event, settings_.include_stop, settings_.include_stop_token));
    if (event.finish) finish(choice, *event.finish);
    const std::string content = choice.answer.take_content(), thoughts = choice.answer.take_thoughts();
    choice.thoughts += thoughts;
    if (!settings_.stream) {
      for (const Json& item : logprobs) choice.logprobs.push_back(item);
      choice.text += content;
      return;
    }
    begin();
    const bool thinks = settings_.shows_thoughts && !thoughts.empty();
    if (thinks) write(number, {{"reasoning_content", thoughts}}, content.empty() ? logprobs : Json::array(), nullptr);
    if (!content.empty() || (!thinks && (!logprobs.empty() || has_ids(choice))))
      write(number, {{"content", content}}, logprobs, nullptr);
    write_calls(number, choice);
    if (event.finish) write(number, Json::object(), Json::array(), choice.finish);
  }

  void on_wait() override {
    if (settings_.stream) begin();
  }

  void on_done() override {
    if (settings_.stream) {
      begin();
      if (settings_.include_usage) {
        Json chunk = head("chat.completion.chunk");
        chunk["choices"] = Json::array();
        chunk["usage"] = usage();
        call_->event(chunk);
      }
      call_->write("data: [DONE]\n\n");
      return call_->finish_stream();
    }
    Json answer = head("chat.completion");
    answer["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      const std::vector<ToolCall>& calls = choice.answer.calls();
      Json message{{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
      if (settings_.shows_thoughts && !choice.thoughts.empty()) message["reasoning_content"] = choice.thoughts;
      if (!calls.empty()) {
        if (choice.text.empty()) message["content"] = nullptr;
        message["tool_calls"] = Json::array();
        for (const ToolCall& call : calls) message["tool_calls"].push_back(call_json(call));
        if (settings_.functions) {
          message["function_call"] = message["tool_calls"][0]["function"];
          message.erase("tool_calls");
        }
      }
      answer["choices"].push_back(
          {{"index", i},
           {"message", std::move(message)},
           {"logprobs", settings_.logprobs ? Json{{"content", choice.logprobs}, {"refusal", nullptr}} : Json()},
           {"finish_reason", choice.finish}});
      if (settings_.details.ids) answer["choices"].back()["token_ids"] = choice.ids;
    }
    add_prompt_details(answer, settings_.details, *model_.tokenizer, prompt_tokens(), prompt_logprobs_);
    answer["usage"] = usage();
    answer["system_fingerprint"] = nullptr;
    call_->reply(answer);
  }

 private:
  struct Choice {
    explicit Choice(const ChatSettings& settings) : answer(settings.turn.answer(settings.skip_special_tokens)) {}
    WrittenAnswer answer;
    std::string text, thoughts, finish = "stop";
    Json logprobs = Json::array();
    std::vector<size_t> given_of_calls;  // bytes of the arguments of each call that are sent
    int64_t tokens = 0;
    Json ids = Json::array();  // of its tokens; in a stream those that are not sent
  };
  bool has_ids(const Choice& choice) const { return settings_.details.ids && !choice.ids.empty(); }

  void finish(Choice& choice, FinishReason reason) const {
    choice.answer.finish();
    choice.finish = reason_of(reason);
    if (!choice.answer.calls().empty() && settings_.turn.tools.what != ToolChoice::kNamed && choice.finish == "stop" &&
        !choice.answer.cut())
      choice.finish = settings_.functions ? "function_call" : "tool_calls";
  }

  static Json call_json(const ToolCall& call) {
    return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
  }

  Json delta_of(const Json& call) const {
    if (settings_.functions) return {{"function_call", call["function"]}};
    return {{"tool_calls", Json::array({call})}};
  }

  // What is new: of each call the name whole, then the arguments.
  void write_calls(int64_t number, Choice& choice) {
    const std::vector<ToolCall>& calls = choice.answer.calls();
    std::vector<size_t>& given = choice.given_of_calls;
    for (size_t i = std::max<size_t>(given.size(), 1) - 1; i < calls.size(); ++i) {
      if (i == given.size()) {
        Json first = call_json({calls[i].name, "", calls[i].id});
        first["index"] = i;
        write(number, delta_of(first), Json::array(), nullptr);
        given.push_back(0);
      }
      const std::string more = calls[i].arguments.substr(given[i]);
      if (more.empty()) continue;
      given[i] += more.size();
      const Json rest{{"index", i}, {"function", {{"arguments", more}}}};
      write(number, delta_of(rest), Json::array(), nullptr);
    }
  }

  static const char* reason_of(FinishReason reason) { return reason == FinishReason::kLength ? "length" : "stop"; }

  Json head(const char* object) const {
    return {{"id", settings_.id}, {"object", object}, {"created", settings_.created}, {"model", settings_.model}};
  }

  Json usage() const {
    int64_t written = 0, thought = 0;
    for (const Choice& choice : choices_) {
      written += choice.tokens;
      thought += std::min(choice.tokens, tokens_of_thoughts(choice.thoughts, *model_.tokenizer));
    }
    return {{"prompt_tokens", settings_.prompt_tokens},
            {"completion_tokens", written},
            {"total_tokens", settings_.prompt_tokens + written},
            {"prompt_tokens_details", {{"cached_tokens", call_->cached_tokens}}},
            {"completion_tokens_details", {{"reasoning_tokens", thought}}}};
  }

  const TokenIds& prompt_tokens() const { return settings_.turn.prompt.inputs.tokens; }

  // The first chunk of each choice says who speaks.
  void begin() {
    if (call_->streams()) return;
    call_->begin_stream();
    for (size_t i = 0; i < choices_.size(); ++i)
      write(static_cast<int64_t>(i), {{"role", "assistant"}, {"content", ""}}, Json::array(), nullptr);
  }

  void write(int64_t number, const Json& delta, const Json& logprobs, const Json& finish) {
    Json chunk = head("chat.completion.chunk");
    chunk["choices"] =
        Json::array({{{"index", number},
                      {"delta", delta},
                      {"logprobs", logprobs.empty() ? Json() : Json{{"content", logprobs}, {"refusal", nullptr}}},
                      {"finish_reason", finish}}});
    if (settings_.include_usage) chunk["usage"] = settings_.continuous_usage ? usage() : Json();
    if (settings_.details.ids) {
      chunk["choices"][0]["token_ids"] = std::exchange(choices_[static_cast<size_t>(number)].ids, Json::array());
      if (!std::exchange(prompt_sent_, true)) chunk["prompt_token_ids"] = prompt_tokens();
    }
    call_->event(chunk);
  }

  std::shared_ptr<Call> call_;
  ServedModel& model_;
  ChatSettings settings_;
  std::vector<Choice> choices_;
  std::vector<TokenLogprobs> prompt_logprobs_;
  bool prompt_sent_ = false;
};

}  // namespace

void chat_completions(const std::shared_ptr<Call>& call) {
  Json body = call->body();
  const bool functions = replace_functions(body);
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = call->use_model(name ? &*name : nullptr, can_generate, "chat");
  const ServeOptions& options = call->services().options;
  SamplingFields sampling = default_sampling(model, options);
  const std::string answering = read_adapter(name, model, sampling);
  read_sampling(fields, model, sampling);
  sampling.max_tokens = fields.integer("max_completion_tokens", 1, INT32_MAX);
  const auto older = fields.integer("max_tokens", 1, INT32_MAX);
  sampling.names = {.prompt = "messages", .tokens = sampling.max_tokens ? "max_completion_tokens" : "max_tokens"};
  if (!sampling.max_tokens) sampling.max_tokens = older;
  ChatSettings settings{.id = new_identifier("chatcmpl-"), .model = answering, .created = std::time(nullptr)};
  settings.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (top.value_or(0) > 0 && !settings.logprobs)
    refuse_field("top_logprobs", "top_logprobs: needs logprobs to be true");
  if (settings.logprobs) sampling.request.logprobs = top.value_or(0);
  settings.stream = fields.boolean("stream").value_or(false);
  const StreamUsage usage = read_stream_usage(fields, settings.stream, "/v1/chat/completions");
  settings.include_usage = usage.at_end, settings.continuous_usage = usage.in_chunks;
  settings.details = sampling.details;
  settings.functions = functions;
  settings.include_stop = sampling.include_stop;
  settings.include_stop_token = sampling.include_stop_token;
  settings.skip_special_tokens = sampling.request.skip_special_tokens;
  settings.shows_thoughts = fields.boolean("include_reasoning").value_or(true);
  sampling.request.constraint = read_structured_output(fields, model);
  settings.turn = read_chat_turn(fields, model, options, sampling);
  expect_known_fields(fields, "/v1/chat/completions");
  settings.prompt_tokens = static_cast<int64_t>(settings.turn.prompt.inputs.tokens.size());
  std::vector<EngineRequest> requests{request_for(sampling, settings.turn.prompt.inputs, model, 0)};
  start_generation(call, model, std::move(requests),
                   std::make_shared<ChatSink>(call, model, std::move(settings), sampling.n), sampling.names);
}

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/response_sink.h"

#include "serve/openai/identifiers.h"
#include "serve/tools/answer_calls.h"

namespace transom::serve {
namespace {

// What clients take for granted is there though it is empty.
Json part_of(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

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
    send_text(certain_text(settings_.choice, text_, given_));
  }

  void on_wait() override {
    if (settings_.stream) begin();
  }

  void on_done() override {
    ParsedAnswer answer = calls_of_answer(settings_.choice, text_);
    text_ = std::move(answer.content);
    if (settings_.stream) {
      begin();
      send_text(text_.substr(std::min(given_, text_.size())));
    }
    // Where nothing is called there is a message, though it is empty.
    if (!text_.empty() || answer.calls.empty()) end_message();
    for (const ToolCall& call : answer.calls) add_call(call);
    if (!settings_.stream) return call_->reply(response(true));
    send(complete_ ? "response.completed" : "response.incomplete", {{"response", response(true)}});
    call_->finish_stream();
  }

 private:
  const char* status(bool done) const { return !done ? "in_progress" : complete_ ? "completed" : "incomplete"; }

  Json message(bool done) const {
    return {{"type", "message"},
            {"id", message_id_},
            {"status", status(done)},
            {"role", "assistant"},
            {"content", done ? Json::array({part_of(text_)}) : Json::array()}};
  }

  // Of the message, which is always the first item.
  void send_of_message(const char* type, Json more) {
    Json event{{"item_id", message_id_}, {"output_index", 0}, {"content_index", 0}};
    event.update(more);
    send(type, event);
  }

  void begin_message() {
    if (begun_) return;
    begun_ = true;
    send("response.output_item.added", {{"output_index", 0}, {"item", message(false)}});
    send_of_message("response.content_part.added", {{"part", part_of("")}});
  }

  void send_text(const std::string& text) {
    given_ += text.size();
    if (text.empty()) return;
    begin_message();
    send_of_message("response.output_text.delta", {{"delta", text}, {"logprobs", Json::array()}});
  }

  void end_message() {
    output_.push_back(message(true));
    if (!settings_.stream) return;
    begin_message();
    send_of_message("response.output_text.done", {{"text", text_}, {"logprobs", Json::array()}});
    send_of_message("response.content_part.done", {{"part", part_of(text_)}});
    send("response.output_item.done", {{"output_index", 0}, {"item", message(true)}});
  }

  void add_call(const ToolCall& call) {
    const size_t index = output_.size();
    Json item{{"type", "function_call"}, {"id", new_identifier("fc_")}, {"call_id", new_identifier("call_")},
              {"name", call.name},       {"arguments", call.arguments}, {"status", status(true)}};
    output_.push_back(item);
    if (!settings_.stream) return;
    Json first = item;
    first["arguments"] = "";
    first["status"] = status(false);
    const Json place{{"item_id", item["id"]}, {"output_index", index}};
    const auto of_arguments = [&](const char* type, const Json& more) {
      Json event = place;
      event.update(more);
      send(type, event);
    };
    send("response.output_item.added", {{"output_index", index}, {"item", first}});
    of_arguments("response.function_call_arguments.delta", {{"delta", call.arguments}});
    of_arguments("response.function_call_arguments.done", {{"name", call.name}, {"arguments", call.arguments}});
    send("response.output_item.done", {{"output_index", index}, {"item", item}});
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
              {"output", output_},
              {"parallel_tool_calls", settings_.parallel_tool_calls},
              {"tool_choice", settings_.tool_choice},
              {"tools", settings_.tools},
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

  // Where there are tools, the answer may have no message.
  void begin() {
    if (call_->streams()) return;
    call_->begin_stream();
    send("response.created", {{"response", response(false)}});
    send("response.in_progress", {{"response", response(false)}});
    if (settings_.choice.what == ToolChoice::kNone) begin_message();
  }

  void send(const char* type, const Json& content) {
    Json event{{"type", type}, {"sequence_number", number_++}};
    event.update(content);
    call_->write(fmt::format("event: {}\ndata: {}\n\n", type, compact(event)));
  }

  std::shared_ptr<Call> call_;
  ResponseSettings settings_;
  std::string text_;
  const std::string message_id_ = new_identifier("msg_");
  Json output_ = Json::array();  // items that are complete
  bool complete_ = true, begun_ = false;
  size_t given_ = 0;  // bytes of the text that are sent
  int64_t tokens_ = 0, number_ = 0;
};

}  // namespace

std::shared_ptr<GenerationSink> response_sink(std::shared_ptr<Call> call, ResponseSettings settings) {
  return std::make_shared<ResponseSink>(std::move(call), std::move(settings));
}

}  // namespace transom::serve

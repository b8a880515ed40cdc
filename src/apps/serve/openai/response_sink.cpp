// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/response_sink.h"

#include "apps/serve/openai/identifiers.h"

namespace transom::serve {
namespace {

// What clients take for granted is there though it is empty.
Json part_of(const std::string& text, const Json& logprobs = Json::array()) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", logprobs}};
}

class ResponseSink : public GenerationSink {
 public:
  ResponseSink(std::shared_ptr<Call> call, const ServedModel& model, ResponseSettings settings)
      : call_(std::move(call)),
        model_(model),
        settings_(std::move(settings)),
        answer_(settings_.turn.answer(settings_.skip_special_tokens)) {}

  void on_event(int64_t /*choice*/, EngineEvent& event) override {
    tokens_ += static_cast<int64_t>(event.tokens.size());
    if (settings_.logprobs)
      for (Json& each : logprob_list(*model_.tokenizer, event.logprobs)) new_logprobs_.push_back(std::move(each));
    if (event.finish) complete_ = *event.finish != FinishReason::kLength;
    answer_.add(event, shown_end(event, settings_.include_stop, settings_.include_stop_token));
    if (event.finish) answer_.finish();
    const std::string text = answer_.take_content(), thoughts = answer_.take_thoughts();
    text_ += text;
    if (settings_.stream) begin();
    think(thoughts);
    if (!settings_.stream) return;
    send_text(text);
    // The message comes before the calls: those beside text come behind all of it.
    if (settings_.turn.tools.what != ToolChoice::kAuto) take_calls(answer_.calls());
  }

  void on_wait() override {
    if (settings_.stream) begin();
  }

  void on_done() override {
    const std::vector<ToolCall>& calls = answer_.calls();
    if (settings_.stream) begin();
    end_thoughts();
    // Where nothing is called there is a message, though it is empty.
    if (!text_.empty() || calls.empty()) end_message();
    take_calls(calls);
    if (open_) end_call(calls.back(), status(true));
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
            {"content", done ? Json::array({part_of(text_, logprobs_)}) : Json::array()}};
  }

  // Thoughts are the first item where there are any.
  void think(const std::string& thoughts) {
    if (thoughts.empty()) return;
    if (thoughts_.empty())
      send("response.output_item.added", {{"output_index", 0}, {"item", thought_item(Json::array(), false)}});
    thoughts_ += thoughts;
    send_of_thoughts("response.reasoning_text.delta", {{"delta", thoughts}});
  }

  void end_thoughts() {
    if (thoughts_.empty() || !output_.empty()) return;
    const Json item = thought_item(Json::array({{{"type", "reasoning_text"}, {"text", thoughts_}}}), true);
    send_of_thoughts("response.reasoning_text.done", {{"text", thoughts_}});
    send("response.output_item.done", {{"output_index", 0}, {"item", item}});
    output_.push_back(item);
  }

  Json thought_item(Json content, bool done) const {
    return {{"type", "reasoning"},
            {"id", thoughts_id_},
            {"status", done ? "completed" : "in_progress"},
            {"summary", Json::array()},
            {"content", std::move(content)}};
  }

  void send_of_thoughts(const char* type, const Json& more) {
    Json event{{"item_id", thoughts_id_}, {"output_index", 0}, {"content_index", 0}};
    event.update(more);
    send(type, event);
  }

  void send_of_message(const char* type, Json more) {
    Json event{{"item_id", message_id_}, {"output_index", message_index_}, {"content_index", 0}};
    event.update(more);
    send(type, event);
  }

  void begin_message() {
    if (begun_) return;
    begun_ = true;
    end_thoughts();
    message_index_ = output_.size();
    send("response.output_item.added", {{"output_index", message_index_}, {"item", message(false)}});
    send_of_message("response.content_part.added", {{"part", part_of("")}});
  }

  void send_text(const std::string& text) {
    if (text.empty()) return;
    begin_message();
    send_of_message("response.output_text.delta", {{"delta", text}, {"logprobs", take_logprobs()}});
  }

  // Of the tokens behind the last part of the text.
  Json take_logprobs() {
    Json fresh = std::exchange(new_logprobs_, Json::array());
    for (const Json& each : fresh) logprobs_.push_back(each);
    return fresh;
  }

  void end_message() {
    take_logprobs();
    begin_message();
    output_.push_back(message(true));
    send_of_message("response.output_text.done", {{"text", text_}, {"logprobs", logprobs_}});
    send_of_message("response.content_part.done", {{"part", part_of(text_, logprobs_)}});
    send("response.output_item.done", {{"output_index", message_index_}, {"item", message(true)}});
  }

  // What is new of the calls. One item is open at a time: the next call ends it.
  void take_calls(const std::vector<ToolCall>& calls) {
    for (size_t i = open_ ? calls_ - 1 : calls_; i < calls.size(); ++i) {
      if (i == calls_) {
        if (open_) end_call(calls[i - 1], "completed");
        begin_call(calls[i]);
      }
      const std::string more = calls[i].arguments.substr(given_of_call_);
      given_of_call_ += more.size();
      if (!more.empty()) send_of_call("response.function_call_arguments.delta", {{"delta", more}});
    }
  }

  void begin_call(const ToolCall& call) {
    end_thoughts();
    item_ = {{"type", "function_call"}, {"id", new_identifier("fc_")}, {"call_id", call.id}, {"name", call.name},
             {"arguments", ""},         {"status", status(false)}};
    ++calls_;
    open_ = true;
    given_of_call_ = 0;
    send("response.output_item.added", {{"output_index", output_.size()}, {"item", item_}});
  }

  void end_call(const ToolCall& call, const char* how) {
    item_["arguments"] = call.arguments;
    item_["status"] = how;
    send_of_call("response.function_call_arguments.done", {{"name", call.name}, {"arguments", call.arguments}});
    send("response.output_item.done", {{"output_index", output_.size()}, {"item", item_}});
    output_.push_back(item_);
    open_ = false;
  }

  void send_of_call(const char* type, const Json& more) {
    Json event{{"item_id", item_["id"]}, {"output_index", output_.size()}};
    event.update(more);
    send(type, event);
  }

  Json response(bool done) const {
    Json json{{"id", settings_.id},
              {"object", "response"},
              {"created_at", settings_.created},
              {"status", status(done)},
              {"error", nullptr},
              {"incomplete_details", done && !complete_ ? Json{{"reason", "max_output_tokens"}} : Json()},
              {"metadata", settings_.metadata},
              {"model", settings_.model},
              {"output", output_},
              {"parallel_tool_calls", settings_.parallel_tool_calls},
              {"tool_choice", settings_.tool_choice},
              {"tools", settings_.tools},
              {"usage", nullptr}};
    json.update(settings_.asked);
    if (done)
      json["usage"] = {{"input_tokens", settings_.prompt_tokens},
                       {"input_tokens_details", {{"cached_tokens", call_->cached_tokens}}},
                       {"output_tokens", tokens_},
                       {"output_tokens_details",
                        {{"reasoning_tokens", std::min(tokens_, tokens_of_thoughts(thoughts_, *model_.tokenizer))}}},
                       {"total_tokens", settings_.prompt_tokens + tokens_}};
    return json;
  }

  // Where there are tools, the answer may have no message; thoughts come before it.
  void begin() {
    if (call_->streams()) return;
    call_->begin_stream();
    send("response.created", {{"response", response(false)}});
    send("response.in_progress", {{"response", response(false)}});
    if (settings_.turn.tools.what == ToolChoice::kNone && !settings_.turn.prompt.thoughts.form) begin_message();
  }

  void send(const char* type, const Json& content) {
    if (!settings_.stream) return;
    Json event{{"type", type}, {"sequence_number", number_++}};
    event.update(content);
    call_->write(fmt::format("event: {}\ndata: {}\n\n", type, compact(event)));
  }

  std::shared_ptr<Call> call_;
  const ServedModel& model_;
  ResponseSettings settings_;
  Json logprobs_ = Json::array(), new_logprobs_ = Json::array();  // of the text; of tokens whose text is not sent
  std::string text_, thoughts_;
  WrittenAnswer answer_;
  Json item_;  // the call that is being written
  bool open_ = false;
  size_t calls_ = 0, given_of_call_ = 0;  // begun; bytes of the last one's arguments that are sent
  const std::string message_id_ = new_identifier("msg_"), thoughts_id_ = new_identifier("rs_");
  size_t message_index_ = 0;
  Json output_ = Json::array();  // items that are complete
  bool complete_ = true, begun_ = false;
  int64_t tokens_ = 0, number_ = 0;
};

}  // namespace

std::shared_ptr<GenerationSink> response_sink(std::shared_ptr<Call> call, const ServedModel& model,
                                              ResponseSettings settings) {
  return std::make_shared<ResponseSink>(std::move(call), model, std::move(settings));
}

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/anthropic/message_sink.h"

#include <openssl/evp.h>

#include <algorithm>

#include "apps/serve/api/stream_form.h"
#include "apps/serve/tools/argument_places.h"

namespace transom::serve {
namespace {

// Clients send thoughts back with their signature, and some leave out those without one. Nothing is checked by it.
std::string signature_of(const std::string& thoughts) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(thoughts.data(), thoughts.size(), digest, &size, EVP_sha256(), nullptr) != 1) size = 0;
  std::string text = "transom-";
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

// Ids of calls, as this interface has them where the model's template does not ask for others.
std::string tool_use_id(const std::string& id) {
  const std::string usual = "call_";
  return id.starts_with(usual) ? "toolu_" + id.substr(usual.size()) : id;
}

class MessageSink : public GenerationSink {
 public:
  MessageSink(std::shared_ptr<Call> call, const ServedModel& model, MessageSettings settings)
      : call_(std::move(call)), model_(model), settings_(std::move(settings)), answer_(settings_.turn.answer(true)) {}

  void on_event(int64_t /*choice*/, EngineEvent& event) override {
    tokens_ += static_cast<int64_t>(event.tokens.size());
    if (event.stop) stop_ = event.stop;
    answer_.add(event);
    if (event.finish) {
      is_cut_ = *event.finish == FinishReason::kLength;
      answer_.finish();
    }
    const std::string thoughts = answer_.take_thoughts();
    thoughts_ += thoughts;
    begin();
    if (settings_.shows_thoughts) add_delta(Block::kThinking, thoughts);
    add_answer(answer_.take_content());
  }

  void on_wait() override { begin(); }

  void on_done() override {
    begin();
    close();
    if (!settings_.stream) {
      Json message = this->message();
      message["content"] = blocks_;
      message["stop_reason"] = stop_reason();
      message["stop_sequence"] = stop_sequence();
      return call_->respond({.status = 200, .body = places_.filled(message, arguments_)});
    }
    send("message_delta",
         {{"delta", {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}}}, {"usage", usage()}});
    send("message_stop", Json::object());
    call_->finish_stream();
  }

 private:
  enum class Block { kNone, kThinking, kText, kCall };

  void begin() {
    if (!settings_.stream || call_->streams()) return;
    call_->begin_stream();
    Json message = this->message();
    message["content"] = Json::array();
    send("message_start", {{"message", std::move(message)}});
    call_->write(stream_ping(ErrorForm::kAnthropic));
  }

  Json message() const {
    return {{"id", settings_.id},     {"type", "message"},        {"role", "assistant"}, {"model", settings_.model},
            {"stop_reason", nullptr}, {"stop_sequence", nullptr}, {"usage", usage()}};
  }

  // The tokens of a prompt that were found in the cache are counted beside the others.
  Json usage() const {
    const auto prompt = static_cast<int64_t>(settings_.turn.prompt.inputs.tokens.size());
    return {{"input_tokens", prompt - call_->cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", call_->cached_tokens},
            {"output_tokens", tokens_},
            {"output_tokens_details",
             {{"thinking_tokens", std::min(tokens_, tokens_of_thoughts(thoughts_, *model_.tokenizer))}}}};
  }

  Json stop_reason() const {
    if (stop_) return "stop_sequence";
    if (is_cut_) return settings_.is_cut_by_context ? "model_context_window_exceeded" : "max_tokens";
    return answer_.calls().empty() ? "end_turn" : "tool_use";
  }
  Json stop_sequence() const { return stop_ ? Json(*stop_) : Json(); }

  // Text and calls in the order in which the model has written them, whatever the pieces in which they come.
  void add_answer(const std::string& text) {
    const std::vector<ToolCall>& calls = answer_.calls();
    size_t done = 0;
    while (true) {
      if (open_ == Block::kCall) add_arguments(calls[begun_calls_ - 1]);
      if (begun_calls_ == calls.size()) break;
      const size_t place = std::clamp(calls[begun_calls_].content_before, content_, content_ + text.size()) - content_;
      add_delta(Block::kText, text.substr(done, std::max(place, done) - done));
      done = std::max(place, done);
      open_call(calls[begun_calls_]);
    }
    add_delta(Block::kText, text.substr(done));
    content_ += text.size();
  }

  void add_delta(Block block, const std::string& text) {
    if (text.empty()) return;
    const bool thinks = block == Block::kThinking;
    const char *type = thinks ? "thinking" : "text", *delta = thinks ? "thinking_delta" : "text_delta";
    if (open_ != block) {
      Json first{{"type", type}, {type, ""}};
      if (thinks) first["signature"] = "";
      open(block, first);
    }
    blocks_.back()[type].get_ref<std::string&>() += text;
    send_delta({{"type", delta}, {type, text}});
  }

  void open(Block block, const Json& first) {
    close();
    open_ = block;
    blocks_.push_back(first);
    send("content_block_start", {{"index", blocks_.size() - 1}, {"content_block", first}});
  }

  void open_call(const ToolCall& call) {
    open(Block::kCall,
         {{"type", "tool_use"}, {"id", tool_use_id(call.id)}, {"name", call.name}, {"input", Json::object()}});
    ++begun_calls_;
    given_ = 0;
  }

  void add_arguments(const ToolCall& call) {
    const std::string more = call.arguments.substr(std::min(given_, call.arguments.size()));
    if (more.empty()) return;
    given_ += more.size();
    send_delta({{"type", "input_json_delta"}, {"partial_json", more}});
  }

  void close() {
    if (open_ == Block::kNone) return;
    if (open_ == Block::kThinking) {
      const std::string signature = signature_of(blocks_.back()["thinking"].get<std::string>());
      blocks_.back()["signature"] = signature;
      send_delta({{"type", "signature_delta"}, {"signature", signature}});
    }
    if (open_ == Block::kCall) {
      blocks_.back()["input"] = places_[arguments_.size()];
      arguments_.push_back(completed_arguments(answer_.calls()[begun_calls_ - 1].arguments));
    }
    send("content_block_stop", {{"index", blocks_.size() - 1}});
    open_ = Block::kNone;
  }

  void send_delta(const Json& delta) { send("content_block_delta", {{"index", blocks_.size() - 1}, {"delta", delta}}); }

  void send(const char* type, const Json& more) {
    if (!settings_.stream) return;
    Json event{{"type", type}};
    event.update(more);
    call_->write(named_event(type, compact(event)));
  }

  std::shared_ptr<Call> call_;
  const ServedModel& model_;
  MessageSettings settings_;
  WrittenAnswer answer_;
  const ArgumentPlaces places_;
  std::vector<std::string> arguments_;  // of the calls that are closed
  Json blocks_ = Json::array();
  Block open_ = Block::kNone;
  size_t begun_calls_ = 0, given_ = 0;  // calls that were opened; bytes of the last one's arguments that are sent
  size_t content_ = 0;                  // bytes of the answer's text that are in blocks
  std::string thoughts_;
  std::optional<std::string> stop_;
  bool is_cut_ = false;
  int64_t tokens_ = 0;
};

}  // namespace

std::shared_ptr<GenerationSink> message_sink(std::shared_ptr<Call> call, const ServedModel& model,
                                             MessageSettings settings) {
  return std::make_shared<MessageSink>(std::move(call), model, std::move(settings));
}

}  // namespace transom::serve

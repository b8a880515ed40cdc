// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tgi/routes.h"

#include <algorithm>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/written_numbers.h"
#include "apps/serve/generation/encode_prompt.h"
#include "apps/serve/generation/generation_request.h"
#include "apps/serve/inference/routes.h"
#include "apps/serve/models/model_pool.h"
#include "apps/serve/structured/structured_output.h"
#include "work/generation/incremental_decoder.h"

namespace transom::serve {
namespace {

struct TgiSettings {
  bool stream = false, details = false, as_list = false, full_text = false, prefill = false, skip_special_tokens = true;
  std::string prompt;
  TokenIds ids;
  uint64_t seed = 0;
  bool sampled = false;
};

class TgiSink : public GenerationSink {
 public:
  TgiSink(std::shared_ptr<Call> call, ServedModel& model, TgiSettings settings)
      : call_(std::move(call)),
        model_(model),
        settings_(std::move(settings)),
        decoder_(*model.tokenizer, settings_.ids, settings_.skip_special_tokens) {
    // Nothing comes before the first token of the prompt that it could be likely after.
    if (!settings_.prefill || settings_.ids.empty()) return;
    prefill_.push_back(token_of(settings_.ids[0], 0));
    prefill_[0]["logprob"] = nullptr;
  }

  void on_event(int64_t /*choice*/, EngineEvent& event) override {
    for (const TokenLogprobs& each : event.prompt) prefill_.push_back(token_of(each.token, each.logprob));
    for (size_t i = 0; i < event.tokens.size(); ++i)
      add(event.tokens[i], i < event.logprobs.size() ? event.logprobs[i].logprob : 0);
    if (event.finish) finish(event);
    if (settings_.stream) write_settled();
  }

  void on_wait() override {
    if (settings_.stream && !call_->streams()) call_->begin_stream();
  }

  void on_done() override {
    if (settings_.stream) {
      if (!call_->streams()) call_->begin_stream();
      return call_->finish_stream();
    }
    Json answer{{"generated_text", whole_text()}};
    if (settings_.details) answer["details"] = details();
    call_->reply(settings_.as_list ? Json::array({answer}) : answer);
  }

 private:
  std::string whole_text() const { return settings_.full_text ? settings_.prompt + text_ : text_; }

  Json token_of(int64_t id, float logprob) const {
    return {{"id", id}, {"text", token_text(*model_.tokenizer, id)}, {"logprob", written(logprob)}};
  }

  // A token has the text that is certain with it: nothing while a character is not whole, which a special token ends.
  // The texts of those that are not special, one behind the other, are the generated text.
  void add(int64_t id, float logprob) {
    const std::vector<TextPiece> pieces = decoder_.add(id);
    const bool special =
        std::any_of(pieces.begin(), pieces.end(), [](const TextPiece& piece) { return piece.special; });
    Json token = token_of(id, logprob);
    token["text"] = "";
    token["special"] = special && settings_.skip_special_tokens;
    for (const TextPiece& piece : pieces) {
      const bool of_another = special && !piece.special && !tokens_.empty();
      add_text(of_another ? tokens_.back() : token, piece.text);
    }
    tokens_.push_back(std::move(token));
  }

  void add_text(Json& token, const std::string& text) {
    token["text"] = token["text"].get<std::string>() + text;
    if (token["special"] == false) text_ += text;
  }

  // The token that ended the text is the last of its tokens.
  void finish(const EngineEvent& event) {
    finish_ = *event.finish == FinishReason::kLength ? "length" : event.stop ? "stop_sequence" : "eos_token";
    for (const TextPiece& piece : decoder_.finish()) add_text(tokens_.back(), piece.text);
    if (!event.end_token) return;
    Json token = token_of(*event.end_token, event.end_logprobs ? event.end_logprobs->logprob : 0);
    token["special"] = true;
    tokens_.push_back(std::move(token));
  }

  Json details() const {
    return {{"finish_reason", finish_},
            {"generated_tokens", tokens_.size()},
            {"seed", settings_.sampled ? Json(settings_.seed) : Json()},
            {"prefill", prefill_},
            {"tokens", tokens_}};
  }

  // Tokens whose text waits for another one go out with that.
  void write_settled() {
    if (!call_->streams()) call_->begin_stream();
    if (finish_.empty() && decoder_.holds_back()) return;
    for (; written_ < tokens_.size(); ++written_)
      write(tokens_[written_], !finish_.empty() && written_ + 1 == tokens_.size());
  }

  void write(const Json& token, bool last) {
    Json details;
    if (last)
      details = {{"finish_reason", finish_},
                 {"generated_tokens", tokens_.size()},
                 {"seed", settings_.sampled ? Json(settings_.seed) : Json()},
                 {"input_length", settings_.ids.size()}};
    call_->event({{"index", written_ + 1},
                  {"token", token},
                  {"generated_text", last ? Json(whole_text()) : Json()},
                  {"details", details}});
  }

  std::shared_ptr<Call> call_;
  ServedModel& model_;
  TgiSettings settings_;
  IncrementalDecoder decoder_;
  std::string text_, finish_;
  Json prefill_ = Json::array(), tokens_ = Json::array();
  size_t written_ = 0;  // tokens that are sent
};

// text-generation-inference reads pictures in Markdown out of the text, which would be letters here.
bool shows_pictures(const std::string& text) {
  for (size_t at = text.find("!["); at != text.npos; at = text.find("![", at + 2)) {
    const size_t link = text.find("](", at);
    if (link == text.npos) return false;
    const std::string_view target = std::string_view(text).substr(link + 2, 8);
    if (target.starts_with("data:") || target.starts_with("http:") || target.starts_with("https:")) return true;
  }
  return false;
}

// `chosen`: null for the model that the body names, else the first that writes.
void generate_with(const std::shared_ptr<Call>& call, ServedModel* chosen, bool as_list, std::optional<bool> stream) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = chosen ? *chosen : call->use_model(name ? &*name : nullptr, can_generate, "text generation");
  const auto text = fields.text("inputs");
  if (!text) refuse_field("inputs", "inputs: missing; expected a string");
  if (model.images && shows_pictures(*text))
    refuse_field("inputs", "inputs: pictures in Markdown are not read: send them in messages to /v1/chat/completions");
  const Json* given = fields.object("parameters");
  const Json none = Json::object();
  RequestFields parameters(given ? *given : none, "parameters");
  SamplingFields sampling = default_sampling(model, call->services().options);
  GenerationConfig& config = sampling.request.config;
  sampling.names = {.prompt = "inputs", .tokens = "parameters.max_new_tokens"};
  TgiSettings settings{.as_list = as_list, .prompt = *text};
  settings.stream = stream.value_or(fields.boolean("stream").value_or(false));
  if (stream) fields.any("stream");  // the path says it
  settings.details = parameters.boolean("details").value_or(false);
  settings.full_text = parameters.boolean("return_full_text").value_or(false);
  sampling.max_tokens = parameters.integer("max_new_tokens", 1, INT32_MAX);
  bool samples = parameters.boolean("do_sample").value_or(false);
  for (const char* name : {"temperature", "top_k", "top_p", "typical_p"})
    if (parameters.any(name)) samples = true;
  config.do_sample = samples;
  if (const auto value = parameters.number("temperature", 0, 100)) config.temperature = *value;
  if (config.temperature < 1e-5) config.do_sample = false, config.temperature = 1;
  if (const auto value = parameters.integer("top_k", 0, INT32_MAX)) config.top_k = *value;
  if (const auto value = parameters.number("top_p", 1e-6, 1)) config.top_p = *value;
  if (const auto value = parameters.number("typical_p", 1e-6, 1)) config.typical_p = *value;
  if (const auto value = parameters.number("repetition_penalty", 1e-3, 100)) config.repetition_penalty = *value;
  if (const auto value = parameters.number("frequency_penalty", -2, 2)) sampling.request.frequency_penalty = *value;
  if (const auto value = parameters.integer("seed", 0, INT64_MAX)) config.seed = static_cast<uint64_t>(*value);
  settings.seed = config.seed, settings.sampled = config.do_sample;
  for (const char* name : {"stop", "stop_sequences"})
    if (const auto stops = parameters.texts(name, 16, 256))
      for (const std::string& stop : *stops)
        if (!stop.empty()) config.stop_strings.push_back(stop);
  // Not a field of text-generation-inference, whose tokens have their texts either way.
  settings.skip_special_tokens = parameters.boolean("skip_special_tokens").value_or(true);
  sampling.request.skip_special_tokens = settings.skip_special_tokens;
  const auto cut = parameters.integer("truncate", 1, INT32_MAX);
  settings.prefill = parameters.boolean("decoder_input_details").value_or(false);
  if (settings.prefill && !settings.details)
    refuse_field("parameters.decoder_input_details", "parameters.decoder_input_details: needs details to be true");
  sampling.request.constraint = read_tgi_grammar(parameters, model);
  read_adapter(name, model, sampling);
  if (const auto adapter = parameters.text("adapter_id"); adapter && !adapter->empty() && *adapter != model.name) {
    if (read_adapter(adapter, model, sampling) != *adapter)
      refuse_field("parameters.adapter_id", "parameters.adapter_id: the model {} has no adapter {}", quoted(model.name),
                   quoted(*adapter));
  }
  fields.any("model");  // of /models/ID the path says it
  expect_known_options(fields, "/generate");
  expect_known_fields(parameters, "/generate");
  expect_known_fields(fields, "/generate");
  sampling.request.logprobs = 0;
  if (settings.prefill) sampling.request.prompt_logprobs = 0;
  TokenIds ids = encode_prompt(*text, {}, *model.tokenizer, cut ? 0 : model.max_length.value_or(0), "inputs");
  if (cut && static_cast<int64_t>(ids.size()) > *cut) ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(*cut));
  settings.ids = ids;
  std::vector<EngineRequest> requests{request_for(sampling, std::move(ids), model, 100)};
  start_generation(call, model, std::move(requests), std::make_shared<TgiSink>(call, model, std::move(settings)),
                   sampling.names);
}

void generate(const std::shared_ptr<Call>& call) { generate_with(call, nullptr, false, false); }
void generate_stream(const std::shared_ptr<Call>& call) { generate_with(call, nullptr, false, true); }

// Of a server without a model that writes, Hugging Face's inference form.
void root(const std::shared_ptr<Call>& call) {
  for (const ModelFacts* facts : call->services().models->facts())
    if (facts->writes) return generate_with(call, nullptr, true, std::nullopt);
  infer_with(call, call->use_model(
                       nullptr, [](const ModelFacts&) { return true; }, "task"));
}

}  // namespace

void tgi_generate_with(const std::shared_ptr<Call>& call, ServedModel& model, bool as_list) {
  generate_with(call, &model, as_list, std::nullopt);
}

std::vector<Route> tgi_routes() {
  return {{"POST", "/generate", generate, ErrorForm::kTei},
          {"POST", "/generate_stream", generate_stream, ErrorForm::kTei},
          {"POST", "/", root, ErrorForm::kTei, Route::kMedia}};
}

}  // namespace transom::serve

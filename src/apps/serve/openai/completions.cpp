// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions: prompts without a chat template, with `echo` and the log probabilities of the prompt.
#include <ctime>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/written_numbers.h"
#include "apps/serve/generation/encode_prompt.h"
#include "apps/serve/generation/generation_request.h"
#include "apps/serve/openai/identifiers.h"
#include "apps/serve/openai/routes.h"
#include "apps/serve/structured/structured_output.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::serve {
namespace {

struct Prompt {
  std::string text;
  TokenIds ids;
};

struct CompletionSettings {
  std::string id, model;
  int64_t created = 0, n = 1;
  bool stream = false, include_usage = false, echo = false, only_prompt = false;
  bool include_stop = false, include_stop_token = false;
  std::optional<int64_t> logprobs;
  bool continuous_usage = false;
  TokenDetails details;
};

// OpenAI's older form: parallel lists, keys are the tokens' texts.
class LegacyLogprobs {
 public:
  LegacyLogprobs(const Tokenizer& tokenizer, int64_t& offset) : tokenizer_(tokenizer), offset_(offset) {}

  void add(int64_t token, std::optional<float> logprob, const std::vector<std::pair<int64_t, float>>& top) {
    const std::string bytes = token_text(tokenizer_, token), text = name_of(bytes);
    tokens_.push_back(text);
    token_logprobs_.push_back(logprob ? written(*logprob) : Json());
    Json others;
    if (logprob) {
      others = Json::object();
      for (const auto& [id, value] : top) {
        const std::string its = token_text(tokenizer_, id), key = name_of(its);
        others.emplace(others.contains(key) ? name_of_bytes(its) : key, written(value));  // two tokens may say the same
      }
      if (!others.contains(text)) others[text] = written(*logprob);
    }
    top_.push_back(others);
    offsets_.push_back(offset_);
    offset_ +=
        static_cast<int64_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  }
  bool empty() const { return tokens_.empty(); }
  Json json() const {
    return {
        {"tokens", tokens_}, {"token_logprobs", token_logprobs_}, {"top_logprobs", top_}, {"text_offset", offsets_}};
  }

 private:
  // As OpenAI names parts of characters, which would all be U+FFFD.
  static std::string name_of(const std::string& bytes) {
    return text::well_formed(bytes) == bytes ? bytes : name_of_bytes(bytes);
  }
  static std::string name_of_bytes(const std::string& bytes) {
    std::string name = "bytes:";
    for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    return name;
  }

  const Tokenizer& tokenizer_;
  int64_t& offset_;
  Json tokens_ = Json::array(), token_logprobs_ = Json::array(), top_ = Json::array(), offsets_ = Json::array();
};

class CompletionSink : public GenerationSink {
 public:
  CompletionSink(std::shared_ptr<Call> call, ServedModel& model, CompletionSettings settings,
                 std::vector<Prompt> prompts)
      : call_(std::move(call)), model_(model), settings_(std::move(settings)), prompts_(std::move(prompts)) {
    choices_.resize(prompts_.size() * static_cast<size_t>(settings_.n));
    for (Choice& choice : choices_) choice.logprobs.emplace(*model_.tokenizer, choice.offset);
  }

  void on_event(int64_t number, EngineEvent& event) override {
    Choice& choice = choices_.at(static_cast<size_t>(number));
    const Prompt& prompt = prompts_[static_cast<size_t>(number / settings_.n)];
    std::string text;
    if (!choice.begun) {
      choice.begun = true;
      if (settings_.echo) {
        text = prompt.text;
        if (settings_.logprobs) add_prompt(choice, prompt, event.prompt);
      }
      // Of several samples the first has the prompt's.
      if (settings_.details.any() && number % settings_.n == 0)
        add_prompt_details(choice.of_prompt, settings_.details, *model_.tokenizer, prompt.ids, event.prompt);
    }
    if (!settings_.only_prompt)
      for (const int64_t token : event.tokens) choice.ids.push_back(token);
    if (!settings_.only_prompt) {
      text += event.text;
      text += shown_end(event, settings_.include_stop, settings_.include_stop_token);
      if (settings_.logprobs)
        for (const TokenLogprobs& each : event.logprobs) choice.logprobs->add(each.token, each.logprob, each.top);
      choice.tokens += static_cast<int64_t>(event.tokens.size());
    }
    const Json finish = !event.finish                                                     ? Json()
                        : *event.finish == FinishReason::kLength || settings_.only_prompt ? Json("length")
                                                                                          : Json("stop");
    if (!settings_.stream) {
      choice.text += text;
      if (event.finish) choice.finish = finish;
      return;
    }
    if (!call_->streams()) call_->begin_stream();
    const bool has_ids = settings_.details.ids && !choice.ids.empty();
    if (text.empty() && choice.logprobs->empty() && !has_ids && !event.finish) return;
    Json chunk = head();
    chunk["choices"] = Json::array({{{"index", number},
                                     {"text", text},
                                     {"logprobs", settings_.logprobs ? choice.logprobs->json() : Json()},
                                     {"finish_reason", finish}}});
    if (settings_.include_usage) chunk["usage"] = settings_.continuous_usage ? usage() : Json();
    add_details(chunk["choices"][0], choice);
    choice.logprobs.emplace(*model_.tokenizer, choice.offset);
    call_->event(chunk);
  }

  void on_wait() override {
    if (settings_.stream && !call_->streams()) call_->begin_stream();
  }

  void on_done() override {
    if (settings_.stream) {
      if (!call_->streams()) call_->begin_stream();
      if (settings_.include_usage) {
        Json chunk = head();
        chunk["choices"] = Json::array();
        chunk["usage"] = usage();
        call_->event(chunk);
      }
      call_->write("data: [DONE]\n\n");
      return call_->finish_stream();
    }
    Json answer = head();
    answer["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      answer["choices"].push_back({{"index", i},
                                   {"text", choices_[i].text},
                                   {"logprobs", settings_.logprobs ? choices_[i].logprobs->json() : Json()},
                                   {"finish_reason", choices_[i].finish}});
      add_details(answer["choices"].back(), choices_[i]);
    }
    answer["usage"] = usage();
    call_->reply(answer);
  }

 private:
  struct Choice {
    std::string text;
    Json finish = "stop";
    bool begun = false;
    int64_t tokens = 0, offset = 0;
    std::optional<LegacyLogprobs> logprobs;
    Json ids = Json::array();         // of its tokens; in a stream those that are not sent
    Json of_prompt = Json::object();  // what is said of the prompt's tokens, until it is sent
  };

  void add_details(Json& answer, Choice& choice) const {
    if (settings_.details.ids) answer["token_ids"] = std::exchange(choice.ids, Json::array());
    answer.update(std::exchange(choice.of_prompt, Json::object()));
  }

  // The first token of a prompt follows nothing.
  void add_prompt(Choice& choice, const Prompt& prompt, const std::vector<TokenLogprobs>& logprobs) const {
    for (size_t i = 0; i < prompt.ids.size(); ++i) {
      if (i == 0 || i > logprobs.size()) {
        choice.logprobs->add(prompt.ids[i], std::nullopt, {});
        continue;
      }
      auto top = logprobs[i - 1].top;  // prompt_logprobs may have asked for more
      top.resize(std::min(top.size(), static_cast<size_t>(*settings_.logprobs)));
      choice.logprobs->add(prompt.ids[i], logprobs[i - 1].logprob, top);
    }
  }

  Json head() const {
    return {{"id", settings_.id},
            {"object", "text_completion"},
            {"created", settings_.created},
            {"model", settings_.model}};
  }

  Json usage() const {
    int64_t read = 0, written = 0;
    for (const Prompt& prompt : prompts_) read += static_cast<int64_t>(prompt.ids.size());
    for (const Choice& choice : choices_) written += choice.tokens;
    return {{"prompt_tokens", read},
            {"completion_tokens", written},
            {"total_tokens", read + written},
            {"prompt_tokens_details", {{"cached_tokens", call_->cached_tokens}}}};
  }

  std::shared_ptr<Call> call_;
  ServedModel& model_;
  CompletionSettings settings_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
};

std::vector<Prompt> read_prompts(const Json* given, const ServedModel& model, bool special_tokens, int64_t most) {
  if (!given) refuse_field("prompt", "prompt: missing; expected a string, token ids or a list of them");
  const auto is_ids = [](const Json& json) { return json.is_array() && !json.empty() && json[0].is_number_integer(); };
  const Json list = given->is_string() || is_ids(*given) ? Json::array({*given}) : *given;
  if (!list.is_array() || list.empty())
    refuse_field("prompt", "prompt: expected a string, token ids or a list of them");
  if (static_cast<int64_t>(list.size()) > most)
    refuse_field("prompt", "prompt: expected at most {} prompts, found {}", most, list.size());
  std::vector<Prompt> prompts;
  for (const Json& item : list) {
    Prompt& prompt = prompts.emplace_back();
    if (item.is_string()) {
      prompt.text = item.get<std::string>();
      prompt.ids = encode_prompt(prompt.text, {.add_special_tokens = special_tokens}, *model.tokenizer,
                                 model.max_length.value_or(0), "prompt");
    } else if (is_ids(item)) {
      for (const Json& id : item) {
        if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= model.tokenizer->vocab_size())
          refuse_field("prompt", "prompt: expected token ids from 0 to {}, found {}", model.tokenizer->vocab_size() - 1,
                       quoted(compact(id)));
        prompt.ids.push_back(id.get<int64_t>());
      }
      prompt.text = model.tokenizer->decode(prompt.ids);
    } else {
      refuse_field("prompt", "prompt: expected a string or token ids, found {}", quoted(compact(item)));
    }
  }
  return prompts;
}

}  // namespace

void completions(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = call->use_model(name ? &*name : nullptr, can_generate, "completions");
  const ServeOptions& options = call->services().options;
  SamplingFields sampling = default_sampling(model, options);
  const std::string answering = read_adapter(name, model, sampling);
  read_sampling(fields, model, sampling);
  sampling.max_tokens = fields.integer("max_tokens", 0, INT32_MAX);
  CompletionSettings settings{
      .id = new_identifier("cmpl-"), .model = answering, .created = std::time(nullptr), .n = sampling.n};
  settings.logprobs = fields.integer("logprobs", 0, 20);
  settings.echo = fields.boolean("echo").value_or(false);
  settings.stream = fields.boolean("stream").value_or(false);
  const StreamUsage usage = read_stream_usage(fields, settings.stream, "/v1/completions");
  settings.include_usage = usage.at_end, settings.continuous_usage = usage.in_chunks;
  settings.details = sampling.details;
  settings.include_stop = sampling.include_stop;
  settings.include_stop_token = sampling.include_stop_token;
  settings.only_prompt = sampling.max_tokens == 0;
  if (settings.only_prompt && !settings.echo && !settings.details.prompt_logprobs)
    refuse_field("max_tokens", "max_tokens: 0 needs echo to be true, or prompt_logprobs");
  sampling.request.logprobs = settings.logprobs;
  if (settings.echo && settings.logprobs)
    sampling.request.prompt_logprobs = std::max(*settings.logprobs, settings.details.prompt_logprobs.value_or(0));
  if (settings.only_prompt) {
    if (sampling.request.config.num_beams > 1)
      refuse_field("max_tokens", "max_tokens: 0 leaves nothing for use_beam_search to search");
    if (!sampling.request.prompt_logprobs) sampling.request.prompt_logprobs = 0;
  }
  sampling.request.constraint = read_structured_output(fields, model);
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  std::vector<Prompt> prompts = read_prompts(fields.any("prompt"), model, special, ServeOptions::kMostPrompts);
  expect_known_fields(fields, "/v1/completions");
  std::vector<EngineRequest> requests;
  for (const Prompt& prompt : prompts) requests.push_back(request_for(sampling, prompt.ids, model, 16));
  start_generation(call, model, std::move(requests),
                   std::make_shared<CompletionSink>(call, model, std::move(settings), std::move(prompts)),
                   sampling.names);
}

}  // namespace transom::serve

// SPDX-License-Identifier: Apache-2.0
#include "work/generation/generate_each.h"

#include <map>

#include "base/error.h"
#include "models/generative.h"
#include "runtime/device/descriptions/descriptions.h"
#include "runtime/tensor/evaluator.h"
#include "work/generation/prompts.h"
#include "work/generation/search/lengths.h"

namespace transom {
namespace {

TokenIds generate_alone(const Model& model, const ModelInputs& prompt, const GenerationConfig& config,
                        const EachOptions& options) {
  const GenerationOptions alone{.streamer = options.streamer, .tokenizer = options.tokenizer};
  if (!prompt.attached.empty()) return generate(model, prompt, config, alone).sequences.at(0);
  if (!options.tokenizer) fail(ErrorKind::kInternal, "generate_each: a prompt that goes through generate() needs one");
  return generate(model, prompts_of(std::span(&prompt.tokens, 1), model, *options.tokenizer), config, alone)
      .sequences.at(0);
}

bool is_for_engine(const Model& model, const GenerationConfig& config) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  // A time limit begins with a request, also where it waits for others.
  return writer && !writer->has_encoder() && writer->cache_expires_at() >= 0 && config.use_cache && !config.max_time &&
         has_trait("several_texts") && !EvaluatorScope::current();
}

void check(const std::vector<ModelInputs>& prompts, const GenerationConfig& config, const EachOptions& options) {
  for (const auto& [name, count] :
       {std::pair("num_beams", config.num_beams), std::pair("num_return_sequences", config.num_return_sequences)})
    if (count > 1)
      fail(ErrorKind::kUnsupported, "{} = {}: prompts that are computed together{} have one text each, without beams",
           name, count, options.assistant ? ", or with an assistant model," : "");
  if (options.streamer && prompts.size() != 1) fail("a streamer takes one prompt, found {}", prompts.size());
}

// Takes the events of all requests until they have ended; `places` are those of their texts.
void write_all(Engine& engine, const std::map<uint64_t, size_t>& places, std::vector<TokenIds>& texts,
               Streamer* streamer) {
  size_t ended = 0;
  while (ended < places.size()) {
    if (!engine.step())
      fail(ErrorKind::kInternal, "the engine makes no step and has {} texts left", places.size() - ended);
    for (EngineEvent& event : engine.take()) {
      if (event.finish == FinishReason::kError) fail("{}", event.error);
      if (event.end_token) event.tokens.push_back(*event.end_token);
      TokenIds& text = texts[places.at(event.request)];
      text.insert(text.end(), event.tokens.begin(), event.tokens.end());
      if (streamer)
        for (const int64_t token : event.tokens) streamer->put({token});
      ended += event.finish.has_value();
    }
  }
}

}  // namespace

std::vector<TokenIds> generate_each(const Model& model, const std::vector<ModelInputs>& prompts,
                                    const GenerationConfig& config, const EachOptions& options) {
  check(prompts, config, options);
  std::vector<TokenIds> texts;
  for (const ModelInputs& prompt : prompts) texts.push_back(prompt.tokens);
  std::map<uint64_t, size_t> places;
  const NoGradient inference;
  std::optional<Engine> engine;
  if (options.assistant || (prompts.size() > 1 && options.together > 1 && is_for_engine(model, config)))
    engine.emplace(model, EngineOptions{.tokenizer = config.stop_strings.empty() ? nullptr : options.tokenizer,
                                        .max_sequences = options.together,
                                        .max_waiting = static_cast<int64_t>(prompts.size()),
                                        .prefix_caching = prompts.size() > 1,
                                        .assistant = options.assistant,
                                        .num_assistant_tokens = options.num_assistant_tokens});
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<int64_t>(prompts[i].tokens.size());
    const bool fits =
        engine && length > 0 && greatest_length(config, model.config(), length) <= engine->max_model_length();
    if (fits || options.assistant)
      places[engine->add({.prompt = prompts[i], .config = config, .skip_special_tokens = false})] = i;
    else texts[i] = generate_alone(model, prompts[i], config, options);
  }
  if (!engine) return texts;
  if (options.streamer) options.streamer->put(texts[0]);
  write_all(*engine, places, texts, options.streamer);
  if (options.streamer) options.streamer->end();
  if (options.statistics) *options.statistics = engine->statistics();
  return texts;
}

}  // namespace transom

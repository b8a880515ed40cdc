// SPDX-License-Identifier: Apache-2.0
#include "generation/generate_together.h"

#include <map>

#include "base/error.h"
#include "generation/lengths.h"
#include "generation/prompts.h"
#include "models/generative.h"
#include "tensor/evaluator.h"
#include "transom/device.h"
#include "transom/engine.h"

namespace transom {
namespace {

TokenIds generate_alone(const Model& model, const TokenIds& prompt, const GenerationConfig& config,
                        const Tokenizer& tokenizer) {
  return generate(model, prompts_of(std::span(&prompt, 1), model, tokenizer), config,
                  {.streamer = nullptr, .tokenizer = &tokenizer})
      .sequences.at(0);
}

bool is_for_engine(const Model& model, const GenerationConfig& config) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  // A time limit begins with a request, also where it waits for others.
  return writer && !writer->has_encoder() && writer->cache_expires_at() >= 0 && config.use_cache && !config.max_time &&
         device_name() == "cpu" && !EvaluatorScope::current();
}

}  // namespace

std::vector<TokenIds> generate_together(const Model& model, const std::vector<TokenIds>& prompts,
                                        const GenerationConfig& config, const Tokenizer& tokenizer, int64_t together) {
  if (config.num_beams != 1 || config.num_return_sequences != 1)
    fail("generate_together: expected one text for a prompt, without beams");
  std::vector<TokenIds> texts = prompts;
  std::map<uint64_t, size_t> places;
  const NoGradient inference;
  std::optional<Engine> engine;
  if (prompts.size() > 1 && together > 1 && is_for_engine(model, config))
    engine.emplace(model, EngineOptions{.tokenizer = config.stop_strings.empty() ? nullptr : &tokenizer,
                                        .max_sequences = together,
                                        .max_waiting = static_cast<int64_t>(prompts.size())});
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<int64_t>(prompts[i].size());
    const bool fits =
        engine && length > 0 && greatest_length(config, model.config(), length) <= engine->max_model_length();
    if (fits) places[engine->add({.prompt = prompts[i], .config = config, .skip_special_tokens = false})] = i;
    else texts[i] = generate_alone(model, prompts[i], config, tokenizer);
  }
  size_t ended = 0;
  while (ended < places.size()) {
    if (!engine->step())
      fail(ErrorKind::kInternal, "the engine makes no step and has {} texts left", places.size() - ended);
    for (EngineEvent& event : engine->take()) {
      if (event.finish == FinishReason::kError) fail("{}", event.error);
      if (event.end_token) event.tokens.push_back(*event.end_token);
      TokenIds& text = texts[places.at(event.request)];
      text.insert(text.end(), event.tokens.begin(), event.tokens.end());
      ended += event.finish.has_value();
    }
  }
  return texts;
}

}  // namespace transom

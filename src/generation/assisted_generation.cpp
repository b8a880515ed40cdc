// SPDX-License-Identifier: Apache-2.0
#include "generation/assisted_generation.h"

#include "base/error.h"

namespace transom {

TokenIds generate_assisted(const Model& model, const Assisted& assisted, const TokenIds& prompt,
                           const GenerationConfig& config, const GenerationOptions& options,
                           EngineStatistics* statistics) {
  for (const auto& [name, count] :
       {std::pair("num_beams", config.num_beams), std::pair("num_return_sequences", config.num_return_sequences)})
    if (count > 1) fail(ErrorKind::kUnsupported, "{} = {}: an assistant model drafts for one text alone", name, count);
  Engine engine(model, {.tokenizer = config.stop_strings.empty() ? nullptr : options.tokenizer,
                        .max_sequences = 1,
                        .prefix_caching = false,
                        .assistant = assisted.assistant,
                        .num_assistant_tokens = assisted.num_assistant_tokens});
  engine.add({.prompt = prompt, .config = config, .skip_special_tokens = false});
  TokenIds text = prompt;
  if (options.streamer) options.streamer->put(prompt);
  const NoGradient inference;
  for (bool ended = false; !ended;) {
    engine.step();
    for (EngineEvent& event : engine.take()) {
      if (event.finish == FinishReason::kError) fail("{}", event.error);
      if (event.end_token) event.tokens.push_back(*event.end_token);
      text.insert(text.end(), event.tokens.begin(), event.tokens.end());
      if (options.streamer)
        for (const int64_t token : event.tokens) options.streamer->put({token});
      ended = event.finish.has_value();
    }
  }
  if (options.streamer) options.streamer->end();
  if (statistics) *statistics = engine.statistics();
  return text;
}

}  // namespace transom

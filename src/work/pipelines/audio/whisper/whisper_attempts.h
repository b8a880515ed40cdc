// SPDX-License-Identifier: Apache-2.0
// A window of sound is written once more, at a higher temperature, where the text repeats itself or the model was not
// sure of it, and is passed over where nobody seems to speak (Radford et al., 2022, section 4.5).
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "models/source_attention.h"
#include "transom/generation.h"

namespace transom {

struct WhisperFallbacks {
  std::vector<double> temperatures;  // one after the other; empty: as the configuration says, once
  std::optional<double> compression_ratio, logprob, no_speech;  // the thresholds
  bool measured() const { return compression_ratio || logprob || no_speech; }
};

struct WhisperMeasures {
  double temperature = 0, avg_logprob = 0, compression_ratio = 0, no_speech_prob = 0;
};

struct WhisperAttempt {
  TokenIds tokens;  // what was written, with the token that ends it, without padding
  WhisperMeasures measures;
  bool skip = false;  // nobody speaks
};

// Windows that begin with the same tokens.
struct WhisperWindows {
  const Model& model;
  const SourceAttention* source;  // needed for measures
  NamedTensors inputs;            // of the encoder: what it reads, or encoder_outputs
  TokenIds start;                 // the tokens that each text begins with
  size_t before = 0;              // of these, those that came before the token that starts a text
  GenerationConfig config;
  std::optional<int64_t> no_speech_token;
  std::function<void(const TokenIds& tokens, std::span<float> scores)> process;  // of timestamps; may be empty
};

std::vector<WhisperAttempt> whisper_attempts(const WhisperWindows& windows, const WhisperFallbacks& fallbacks,
                                             bool measured);

// How often bytes repeat themselves: their number by that of the bytes deflated.
double compression_ratio(std::string_view bytes);
// The same of tokens as Transformers writes them as bytes.
double token_compression_ratio(const TokenIds& tokens, int64_t vocabulary);

}  // namespace transom

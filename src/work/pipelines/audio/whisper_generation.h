// SPDX-License-Identifier: Apache-2.0
// Whisper's own way of generating: the tokens that tell it language and task, timestamps, and sounds that are longer
// than its window, read segment after segment (Radford et al., 2022, section 3.8).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "transom/generation.h"

namespace transom {

struct WhisperRequest {
  GenerationConfig config;
  std::string language, task;  // empty: found by the model; as the configuration says
  bool timestamps = false;
  bool keeps_language = false;  // the token of the language stands before those of the text
  TokenIds prompt;              // stands before each window, as if it had been said before it
};

class WhisperWriter {
 public:
  // `generation` is generation_config.json, or config.json where that is missing.
  WhisperWriter(const Model& model, const Json& generation);

  // The tokens of the texts, without those that only tell the task, for input_features [1, mel bins, frames] of any
  // length, one tensor a sound. More frames than the window holds need timestamps. The windows of all sounds that begin
  // with the same tokens go through the model at once.
  std::vector<TokenIds> write(const std::vector<Tensor>& features, const WhisperRequest& request) const;

  int64_t most_tokens() const;                                 // that the decoder has places for
  int64_t window() const { return window_; }                   // frames that the encoder reads at once
  int64_t positions() const { return window_ / 2; }            // that it makes of them
  bool wants_timestamps() const { return wants_timestamps_; }  // if the configuration says so

 private:
  // Adds what the model wrote for a window to the text of a sound; how many frames on the next window begins.
  int64_t take(TokenIds tokens, const GenerationConfig& config, TokenIds& text) const;
  TokenIds beginning(const Tensor& features, const WhisperRequest& request) const;
  int64_t language_of(const std::string& language) const;
  int64_t detected_language(const Tensor& features) const;
  void process(const TokenIds& tokens, std::span<float> scores, size_t begin, int64_t end_of_text) const;

  const Model& model_;
  int64_t window_, start_;
  std::map<std::string, int64_t> languages_, tasks_;
  std::optional<int64_t> no_timestamps_, max_initial_timestamp_;
  TokenIds forced_;  // what follows the start token in old checkpoints; -1: the language is found
  std::string task_, language_;
  bool wants_timestamps_ = false;
};

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// Whisper's own way of generating: the tokens that tell it language and task, timestamps, and sounds that are longer
// than its window, read segment after segment (Radford et al., 2022, section 3.8).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "models/source_attention.h"
#include "transom/generation.h"
#include "work/pipelines/audio/whisper/whisper_attempts.h"

namespace transom {

struct WhisperRequest {
  GenerationConfig config;
  std::string language, task;  // empty: found by the model; as the configuration says
  bool timestamps = false;
  bool keeps_language = false;  // the token of the language stands before those of the text
  TokenIds prompt;              // what was said before, behind the token that marks it
  // The text so far stands before each window; the prompt then begins it, or stands before each window itself.
  bool condition_on_prev_tokens = false, prompt_before_all = false;
  std::optional<int64_t> previous_mark;  // the token that such text begins with
  bool token_times = false;              // when each token is said
  bool segments = false;                 // what is said in one go, with how sure the model is
  bool room_by_window = false;           // max_new_tokens may be more than a window has room for
  WhisperFallbacks fallbacks;
};

// A sound and how much of it is more than padding.
struct WhisperSound {
  Tensor features;  // [1, mel bins, frames]
  int64_t frames = 0;
};

struct WhisperSegmentTokens {
  TokenIds tokens;
  double begin = 0, end = 0, seek = 0;  // seconds
  WhisperMeasures measures;
};

struct WhisperTokens {
  TokenIds tokens;           // without those that only tell the task
  std::vector<float> times;  // with token_times: seconds, of each
  std::vector<WhisperSegmentTokens> segments;
};

class WhisperWriter {
 public:
  // `generation` is generation_config.json, or config.json where that is missing.
  WhisperWriter(const Model& model, const Json& generation);

  // The texts of sounds of any length. More frames than the window holds need timestamps. The windows of all sounds
  // that begin with the same tokens go through the model at once.
  std::vector<WhisperTokens> write(const std::vector<WhisperSound>& sounds, const WhisperRequest& request) const;

  int64_t most_tokens() const;                                 // that the decoder has places for
  int64_t window() const { return window_; }                   // frames that the encoder reads at once
  int64_t positions() const { return window_ / 2; }            // that it makes of them
  bool wants_timestamps() const { return wants_timestamps_; }  // if the configuration says so
  std::optional<int64_t> first_timestamp() const {
    return no_timestamps_ ? std::optional(*no_timestamps_ + 1) : std::nullopt;
  }

 private:
  struct Reading;  // of one sound, window after window
  void check(const WhisperSound& sound, const WhisperRequest& request) const;
  std::vector<Reading> readings_of(const std::vector<WhisperSound>& sounds, const WhisperRequest& request,
                                   std::vector<WhisperTokens>& said) const;
  // The tokens that the next window of a sound begins with, and how many of them are text that came before.
  TokenIds beginning_of(const Reading& reading, const WhisperRequest& request, size_t& before) const;
  GenerationConfig config_of(const WhisperRequest& request, int64_t length) const;
  // Adds what the model wrote for a window to the text of a sound, and goes on to the next window.
  void take(Reading& reading, const WhisperAttempt& attempt, const WhisperRequest& request) const;
  // When the tokens of an attempt are said, in seconds of the sound.
  std::vector<float> times_of(const Reading& reading, const Tensor& states, const TokenIds& start,
                              const TokenIds& tokens) const;
  Tensor states_of(std::vector<Reading*>& batch) const;
  // `heard`: the language that the model found, where it was asked.
  TokenIds beginning(std::optional<int64_t> heard, const WhisperRequest& request) const;
  int64_t language_of(const std::string& language) const;
  bool detects_language(const WhisperRequest& request) const;
  std::vector<int64_t> detected_languages(const Tensor& states) const;
  void process(const TokenIds& tokens, std::span<float> scores, size_t begin, int64_t end_of_text) const;

  const Model& model_;
  const SourceAttention* source_;  // null: a graph, which does not tell what its decoder sees
  int64_t window_, start_;
  std::map<std::string, int64_t> languages_, tasks_;
  std::optional<int64_t> no_timestamps_, max_initial_timestamp_, previous_mark_;
  std::vector<std::pair<size_t, size_t>> alignment_heads_;  // (layer, head)
  TokenIds forced_;  // what follows the start token in old checkpoints; -1: the language is found
  std::string task_, language_;
  bool wants_timestamps_ = false;
};

}  // namespace transom

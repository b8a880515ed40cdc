// SPDX-License-Identifier: Apache-2.0
// Beam search as Transformers 5 does it, of one prompt: num_beams running texts and the num_beams best finished ones.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transom/engine.h"
#include "work/generation/search/search.h"

namespace transom {

struct Beam {
  TokenIds tokens;  // with the prompt
  float score;      // sum of logarithms of probabilities; of finished ones divided by length^length_penalty
  bool finished;
  size_t source;  // which running text it goes on from
  // Of its tokens behind the prompt, if they are kept: what the search adds up.
  std::vector<std::shared_ptr<const TokenLogprobs>> logprobs = {};
};

class Beams {
 public:
  // `config` and `stopping` outlive it. `max_length`: of a text, with the prompt.
  Beams(const GenerationConfig& config, const Stopping& stopping, int64_t max_length, TokenIds prompt);

  // From now on each text knows the log probabilities of its tokens, and of so many likeliest ones beside each.
  void keep_logprobs(int64_t top) { kept_logprobs_ = top; }

  // Takes the logits that follow the running texts, [num_beams, V]; at the first call those that follow the prompt,
  // [1, V]. `prompt` is the prompt's place for the processors.
  void advance(std::span<const float> logits, size_t V, const std::vector<LogitsProcessor>& processors, size_t prompt,
               Mt19937& random);

  // Each goes on from the running text Beam::source of before the last advance().
  const std::vector<Beam>& running() const { return running_; }
  // The best first. Those that are not finished only fill the list.
  const std::vector<Beam>& finished() const { return finished_; }
  bool can_improve() const { return can_improve_; }
  bool all_finished() const;
  bool all_ended() const { return all_ended_; }  // whatever was a candidate at the last step
  // Whether nothing that follows can change finished().
  bool is_over() const;

 private:
  bool may_improve() const;
  void note_logprobs(const std::vector<float>& rows, size_t V, const std::vector<size_t>& places,
                     std::vector<Beam>& next) const;
  const GenerationConfig& config_;
  const Stopping& stopping_;
  size_t beams_, candidates_, prompt_length_;
  int64_t max_length_;
  std::vector<Beam> running_, finished_;
  std::optional<int64_t> kept_logprobs_;
  bool first_ = true, can_improve_ = true, all_ended_ = false;
};

}  // namespace transom

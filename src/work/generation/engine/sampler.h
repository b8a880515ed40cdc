// SPDX-License-Identifier: Apache-2.0
// From the scores of a model to the next token of a sequence: biases, penalties, the logits processors, a constraint,
// log probabilities, the logits warpers and the draw.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/numbers/mt19937.h"
#include "transom/engine.h"
#include "work/generation/logits/logits_processors.h"

namespace transom {

// What all sequences of a request share; immutable.
class SamplingRules {
 public:
  // `length`: the most tokens of a sequence, with its prompt. Throws for fields out of their range.
  SamplingRules(const EngineRequest& request, int64_t length, int64_t vocabulary);

  // logit_bias.
  void add_biases(std::span<float> scores) const;
  // presence_penalty and frequency_penalty. `tokens` with the prompt.
  void subtract_penalties(const TokenIds& tokens, std::span<float> scores) const;
  // Of beam search: on logarithms of probabilities, those of sampling among them.
  const std::vector<LogitsProcessor>& beam_processors() const { return beam_processors_; }

 private:
  friend class Sampler;
  bool changes_scores() const {
    return !bias_.empty() || !processors_.empty() || presence_ != 0 || frequency_ != 0 || constraint_;
  }
  size_t prompt_;
  bool sampled_;
  double presence_, frequency_;
  std::vector<std::pair<int64_t, double>> bias_;
  std::vector<LogitsProcessor> processors_, warpers_, beam_processors_;
  std::optional<int64_t> logprobs_;
  std::shared_ptr<const TokenConstraint> constraint_;
  uint64_t seed_;
};

struct Choice {
  int64_t token = 0;
  std::optional<TokenLogprobs> logprobs;  // if the request asks for them
};

// Of one sequence: the generator of its draws and the state of its constraint.
class Sampler {
 public:
  Sampler(std::shared_ptr<const SamplingRules> rules, int64_t index);
  // Which tokens the constraint allows: known, not asked for yet since the last token, or not found in the time so far.
  enum class Mask { kKnown, kNotAsked, kSought };
  Mask mask() const { return asked_; }
  // Looks for them for about so many seconds; choose() would do so until they are found. Throws what the constraint
  // throws.
  void seek_mask(double seconds);
  // What follows `tokens` (with the prompt) by the scores [V], which are changed. Throws where no token is left.
  // `logarithms`: of the softmax of the scores as they are given, or empty; log probabilities are these where nothing
  // changes the scores before the warpers.
  Choice choose(const TokenIds& tokens, std::span<float> scores, std::span<const float> logarithms = {});
  // The row goes on with the token that was chosen.
  void accept(int64_t token);

 private:
  void forbid_others(std::span<float> scores);
  std::shared_ptr<const SamplingRules> rules_;
  Mt19937 random_;
  std::unique_ptr<TokenConstraint> constraint_;
  Mask asked_ = constraint_ ? Mask::kNotAsked : Mask::kKnown;
  std::vector<uint32_t> mask_;
};

// The log probability of `token`, and of the `count` likeliest ones, by softmax(scores), or as `logarithms` say.
TokenLogprobs logprobs_of(std::span<const float> scores, int64_t token, int64_t count,
                          std::span<const float> logarithms = {});

}  // namespace transom

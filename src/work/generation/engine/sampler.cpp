// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "work/generation/search/score_rows.h"
#include "work/generation/search/search.h"

namespace transom {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The first sequence draws as generate() does; the others from generators of their own, so that no sequence depends on
// how many there are.
uint64_t seed_of(uint64_t seed, int64_t index) {
  if (index == 0) return seed;
  uint64_t x = seed + static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15;  // splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

void check_penalty(const char* name, double value) {
  if (!(value >= -2 && value <= 2)) fail("{}: expected a number in [-2, 2], found {}", name, value);
}

}  // namespace

SamplingRules::SamplingRules(const EngineRequest& request, int64_t length, int64_t vocabulary)
    : prompt_(request.prompt.tokens.size()),
      sampled_(request.config.do_sample),
      presence_(request.presence_penalty),
      frequency_(request.frequency_penalty),
      bias_(request.logit_bias),
      logprobs_(request.logprobs),
      constraint_(request.constraint),
      seed_(request.config.seed) {
  check_penalty("presence_penalty", presence_);
  check_penalty("frequency_penalty", frequency_);
  for (const auto& [token, bias] : bias_) {
    if (token < 0 || token >= vocabulary)
      fail("logit_bias: the token {} is not among the model's {}", token, vocabulary);
    if (std::isnan(bias)) fail("logit_bias: expected a number for the token {}, found NaN", token);
  }
  GenerationConfig unwarped = request.config;
  unwarped.do_sample = false, unwarped.renormalize_logits = false;
  if (constraint_) unwarped.min_length = 0, unwarped.min_new_tokens.reset();  // a grammar says where a text may end
  LogitsContext context{.prompt_length = static_cast<int64_t>(prompt_), .max_length = length, .vocabulary = vocabulary};
  const std::vector<AttachedInput>& attached = request.prompt.attached;
  const bool encodes = !attached.empty() && attached[0].places.empty();
  const Tensor ids = encodes ? attached[0].tensors.find("input_ids") : Tensor();
  if (ids.defined()) context.encoder_input_ids = {ids.to_vector<int64_t>()};
  else if (!encodes) context.encoder_input_ids = {request.prompt.tokens};
  processors_ = logits_processors(unwarped, context);
  if (request.config.num_beams > 1) beam_processors_ = logits_processors(request.config, context);
  if (sampled_) add_logits_warpers(warpers_, request.config, 1);
  if (request.config.renormalize_logits) warpers_.push_back([](const ScoredRow& row) { log_softmax(row.scores); });
}

void SamplingRules::add_biases(std::span<float> scores) const {
  for (const auto& [token, bias] : bias_)
    if (static_cast<size_t>(token) < scores.size()) scores[static_cast<size_t>(token)] += static_cast<float>(bias);
}

void SamplingRules::subtract_penalties(const TokenIds& tokens, std::span<float> scores) const {
  if (presence_ == 0 && frequency_ == 0) return;
  std::map<int64_t, int64_t> counts;
  for (size_t i = prompt_; i < tokens.size(); ++i) ++counts[tokens[i]];
  for (const auto& [token, count] : counts)
    if (static_cast<size_t>(token) < scores.size())
      scores[static_cast<size_t>(token)] -= static_cast<float>(presence_ + frequency_ * static_cast<double>(count));
}

Sampler::Sampler(std::shared_ptr<const SamplingRules> rules, int64_t index)
    : rules_(std::move(rules)),
      random_(seed_of(rules_->seed_, index)),
      constraint_(rules_->constraint_ ? rules_->constraint_->clone() : nullptr) {}

void Sampler::seek_mask(double seconds) {
  if (asked_ != Mask::kKnown) asked_ = constraint_->prepare(seconds) ? Mask::kKnown : Mask::kSought;
}

void Sampler::forbid_others(std::span<float> scores) {
  mask_.assign((scores.size() + 31) / 32, 0);
  constraint_->allowed(mask_);
  bool any = false;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (mask_[i / 32] >> (i % 32) & 1) any = true;
    else scores[i] = kNever;
  }
  if (!any) fail("constraint: no token may follow the text so far, and it may not end; the grammar leads nowhere");
}

Choice Sampler::choose(const TokenIds& tokens, std::span<float> scores, std::span<const float> logarithms) {
  const SamplingRules& r = *rules_;
  r.add_biases(scores);
  const ScoredRow row{tokens, 0, scores};
  for (const LogitsProcessor& process : r.processors_) process(row);
  r.subtract_penalties(tokens, scores);  // what repetition_penalty has left, as vLLM and TGI do
  if (constraint_) forbid_others(scores);
  Choice choice;
  std::vector<float> unwarped;
  if (r.logprobs_ && !r.warpers_.empty()) unwarped.assign(scores.begin(), scores.end());
  for (const LogitsProcessor& process : r.warpers_) process(row);
  const float highest = highest_of(scores);
  if (!std::isfinite(highest) || holds_nan(scores))
    fail("the scores of the next token are no probabilities (NaN, infinite, or all forbidden)");
  choice.token = static_cast<int64_t>(r.sampled_ ? draw(scores, random_) : place_of(scores, highest));
  if (r.logprobs_)
    choice.logprobs = logprobs_of(unwarped.empty() ? scores : std::span<float>(unwarped), choice.token, *r.logprobs_,
                                  r.changes_scores() ? std::span<const float>() : logarithms);
  return choice;
}

void Sampler::accept(int64_t token) {
  if (!constraint_) return;
  constraint_->accept(token);
  asked_ = Mask::kNotAsked;
}

TokenLogprobs logprobs_of(std::span<const float> scores, int64_t token, int64_t count,
                          std::span<const float> logarithms) {
  if (!logarithms.empty()) {
    TokenLogprobs result{.token = token, .logprob = logarithms[static_cast<size_t>(token)], .top = {}};
    result.top = likeliest(scores, count);
    for (auto& [place, score] : result.top) score = logarithms[static_cast<size_t>(place)];
    return result;
  }
  const float highest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (const float score : scores) total += std::exp(static_cast<double>(score) - highest);
  const double shift = highest + std::log(total);
  const auto logprob = [&](size_t i) { return static_cast<float>(scores[i] - shift); };
  TokenLogprobs result{.token = token, .logprob = logprob(static_cast<size_t>(token)), .top = {}};
  result.top = likeliest(scores, count);
  for (auto& [place, score] : result.top) score = logprob(static_cast<size_t>(place));
  return result;
}

}  // namespace transom

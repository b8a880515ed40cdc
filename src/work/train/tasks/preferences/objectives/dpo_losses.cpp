// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/objectives/dpo_losses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "models/nn/losses/losses.h"
#include "transom/ops.h"

namespace transom {
namespace {

// What a pair is scored by.
struct Ratios {
  Tensor chosen, rejected;              // log ratios of policy and reference
  Tensor chosen_score, rejected_score;  // the same as the divergence has them
  const PairScores& scores;
  const DpoOptions& options;
  Tensor margin() const { return chosen_score - rejected_score; }
};

// f'(policy / reference) of the divergence (Wang et al., "Beyond reverse KL", 2023).
Tensor divergence_score(const Tensor& ratio, const DpoOptions& options) {
  if (options.divergence == "forward_kl") return 1.0 - exp(-ratio);
  if (options.divergence == "js_divergence") return log_sigmoid(ratio) + std::numbers::ln2;
  if (options.divergence == "alpha_divergence" && std::abs(options.divergence_alpha - 1) >= 1e-6) {
    const double power = options.divergence_alpha - 1;
    const Tensor exponent = minimum(ratio * power, full(ratio.shape(), 80));
    return (exp(exponent) - 1.0) * (1 / power);
  }
  return ratio;
}

Tensor smoothed(const Tensor& delta, double smoothing) {
  return log_sigmoid(delta) * (smoothing - 1) - log_sigmoid(-delta) * smoothing;
}

Tensor sigmoid_loss(const Ratios& r) { return -log_sigmoid(r.margin() * r.options.beta); }

Tensor hinge(const Ratios& r) { return relu(1.0 - r.margin() * r.options.beta); }

// Scores of a token.
Tensor normed_margin(const Ratios& r) {
  const Tensor one = full(r.scores.chosen_length.shape(), 1);
  return r.chosen_score / maximum(r.scores.chosen_length, one) -
         r.rejected_score / maximum(r.scores.rejected_length, one);
}

// Azar et al., "A general theoretical paradigm to understand learning from human preferences", 2023; per token.
Tensor ipo(const Ratios& r) {
  const Tensor error = normed_margin(r) - 1 / (2 * r.options.beta);
  return error * error;
}

Tensor sigmoid_norm(const Ratios& r) { return -log_sigmoid(normed_margin(r) * r.options.beta); }

// Ji et al., "Towards efficient exact optimization of language model alignment", 2024.
Tensor exo_pair(const Ratios& r) {
  const Tensor x = r.margin() * r.options.beta;
  const double wrong = r.options.label_smoothing;
  return sigmoid(x) * (log_sigmoid(x) - std::log1p(-wrong)) + sigmoid(-x) * (log_sigmoid(-x) - std::log(wrong));
}

// Chen et al., "Noise contrastive alignment of language models", 2024.
Tensor nca_pair(const Ratios& r) {
  const Tensor chosen = r.chosen * r.options.beta, rejected = r.rejected * r.options.beta;
  return -log_sigmoid(chosen) - log_sigmoid(-chosen) * 0.5 - log_sigmoid(-rejected) * 0.5;
}

// Chowdhury et al., "Provably robust DPO", 2024.
Tensor robust(const Ratios& r) {
  const double wrong = r.options.label_smoothing;
  const Tensor x = r.margin() * r.options.beta;
  return (log_sigmoid(x) * (wrong - 1) + log_sigmoid(-x) * wrong) * (1 / (1 - 2 * wrong));
}

// Jung et al., "Binary classifier optimization", 2024.
Tensor bco_pair(const Ratios& r) {
  return -log_sigmoid(r.chosen * r.options.beta) - log_sigmoid(r.rejected * -r.options.beta);
}

// Wu et al., "Self-play preference optimization", 2024, with hard probabilities.
Tensor sppo_hard(const Ratios& r) {
  const Tensor winner = r.chosen - 0.5 / r.options.beta, loser = r.rejected + 0.5 / r.options.beta;
  return winner * winner + loser * loser;
}

Tensor in_order(const Tensor& x) { return sort(x, 0).first; }

// Melnyk et al., "Distributional preference alignment of LLMs via optimal transport", 2024. Pairs of a micro-batch are
// put in order.
Tensor aot(const Ratios& r) {
  const Tensor delta =
      in_order(r.scores.chosen - r.scores.rejected) - in_order(r.scores.reference_chosen - r.scores.reference_rejected);
  return smoothed(delta * r.options.beta, r.options.label_smoothing);
}

Tensor aot_unpaired(const Ratios& r) {
  return smoothed((in_order(r.chosen) - in_order(r.rejected)) * r.options.beta, r.options.label_smoothing);
}

// D'Oosterlinck et al., "Anchored preference optimization", 2024.
Tensor apo_zero(const Ratios& r) {
  return 1.0 - sigmoid(r.chosen * r.options.beta) + sigmoid(r.rejected * r.options.beta);
}

Tensor apo_down(const Ratios& r) {
  return sigmoid(r.chosen * r.options.beta) + 1.0 - sigmoid((r.chosen - r.rejected) * r.options.beta);
}

// Lu et al., "Discovering preference optimization algorithms with and for large language models", 2024.
Tensor discopop(const Ratios& r) {
  const Tensor x = r.margin() * r.options.beta, mixed = sigmoid(x * (1 / r.options.discopop_tau));
  return -log_sigmoid(x) * (1.0 - mixed) + exp(-x) * mixed;
}

struct DpoLoss {
  std::string_view name;
  Tensor (*of_pairs)(const Ratios&);  // f32 [N]; null: sft
  bool takes_divergence = false;      // it is built on the difference of the scores
  bool sorts = false;
};

constexpr std::array<DpoLoss, 15> kLosses = {{{"sigmoid", sigmoid_loss, true},
                                              {"hinge", hinge, true},
                                              {"ipo", ipo, true},
                                              {"exo_pair", exo_pair, true},
                                              {"nca_pair", nca_pair},
                                              {"robust", robust, true},
                                              {"bco_pair", bco_pair},
                                              {"sppo_hard", sppo_hard},
                                              {"aot", aot, false, true},
                                              {"aot_unpaired", aot_unpaired, false, true},
                                              {"apo_zero", apo_zero},
                                              {"apo_down", apo_down},
                                              {"discopop", discopop, true},
                                              {"sft", nullptr, true},
                                              {"sigmoid_norm", sigmoid_norm, true}}};

const DpoLoss& find_dpo_loss(const std::string& name) {
  std::vector<std::string> known;
  for (const DpoLoss& loss : kLosses) {
    if (loss.name == name) return loss;
    known.emplace_back(loss.name);
  }
  fail(ErrorKind::kUsage, "--loss_type: expected one of {}, found {}{}", fmt::join(known, ", "), quoted(name),
       did_you_mean(name, known));
}

}  // namespace

DpoOptions dpo_options(const ScriptArguments& script) {
  DpoOptions options{.beta = script.beta,
                     .label_smoothing = script.label_smoothing,
                     .discopop_tau = script.discopop_tau,
                     .divergence_alpha = script.f_alpha_divergence_coef,
                     .divergence = script.f_divergence_type,
                     .use_weighting = script.use_weighting,
                     .length_alpha = script.ld_alpha};
  if (!script.loss_type.empty()) options.loss_types = script.loss_type;
  options.weights.assign(options.loss_types.size(), 1);
  if (!script.loss_weights.empty()) options.weights = script.loss_weights;
  if (options.weights.size() != options.loss_types.size())
    fail(ErrorKind::kUsage, "--loss_weights: expected one for each of the {} of --loss_type, found {}",
         options.loss_types.size(), options.weights.size());
  for (const std::string& name : options.loss_types) {
    const DpoLoss& loss = find_dpo_loss(name);
    if (options.divergence != "reverse_kl" && !loss.takes_divergence)
      fail(ErrorKind::kUsage, "--f_divergence_type {}: --loss_type {} is not built on the difference of the rewards",
           options.divergence, name);
    if (options.use_weighting && loss.sorts)
      fail(ErrorKind::kUsage, "--use_weighting: --loss_type {} puts pairs in order, which would mix their weights",
           name);
    if (name == "exo_pair" && options.label_smoothing <= 0)
      fail(ErrorKind::kUsage, "--loss_type exo_pair: expected a --label_smoothing above 0 (0.001), found {}",
           options.label_smoothing);
    if (name == "robust" && options.label_smoothing >= 0.5)
      fail(ErrorKind::kUsage, "--loss_type robust: expected a --label_smoothing below 0.5, found {}",
           options.label_smoothing);
  }
  return options;
}

Tensor dpo_loss(const PairScores& scores, const DpoOptions& options, const ForwardContext& context) {
  const Tensor chosen = scores.chosen - scores.reference_chosen, rejected = scores.rejected - scores.reference_rejected;
  const Ratios ratios{.chosen = chosen,
                      .rejected = rejected,
                      .chosen_score = divergence_score(chosen, options),
                      .rejected_score = divergence_score(rejected, options),
                      .scores = scores,
                      .options = options};
  Tensor total;
  for (size_t i = 0; i < options.loss_types.size(); ++i) {
    const DpoLoss& loss = find_dpo_loss(options.loss_types[i]);
    Tensor term;
    if (loss.of_pairs) {
      const Tensor each = loss.of_pairs(ratios);
      term = mean_of_all(scores.weights.defined() ? each * scores.weights : each, context);
    } else {
      term = mean_of(scores.chosen_nll, scores.chosen_tokens, context);
      if (scores.weights.defined()) term = term * mean(scores.weights, {0});
    }
    if (options.weights[i] != 1) term = term * options.weights[i];
    total = total.defined() ? total + term : term;
  }
  return total;
}

}  // namespace transom

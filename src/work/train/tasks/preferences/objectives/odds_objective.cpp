// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/objectives/odds_objective.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "models/nn/losses/losses.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/tasks/preferences/objectives/dpo_objective.h"
#include "work/train/tasks/preferences/objectives/log_probabilities.h"

namespace transom {
namespace {

constexpr std::array<std::string_view, 5> kCpoLosses = {"sigmoid", "hinge", "ipo", "simpo", "alphapo"};
const std::vector<std::string> kOddsNames = {"rewards/chosen",  "rewards/rejected", "rewards/accuracies",
                                             "rewards/margins", "logps/rejected",   "logps/chosen",
                                             "logits/rejected", "logits/chosen",    "nll_loss"};

// log(1 - exp(x)) of x below 0, without cancellation.
Tensor log1m_exp(const Tensor& x) {
  const Tensor far = less(x, full(x.shape(), -0.6931471805599453));
  return select(far, log1p(-exp(x)), log(-expm1(x)));
}

struct Scores {
  Tensor losses;                    // f32 [N]
  Tensor chosen, rejected;          // rewards, without gradients
  Tensor log_odds, log_odds_ratio;  // of ORPO
};

Scores cpo_scores(const Tensor& chosen, const Tensor& rejected, const OddsOptions& options) {
  // Of AlphaPO: r = (1 - p^-alpha) / alpha.
  const auto shaped = [&](const Tensor& logps) {
    return options.alpha == 0 ? logps : (1.0 - exp(logps * -options.alpha)) * (1 / options.alpha);
  };
  const Tensor good = shaped(chosen), bad = shaped(rejected);
  Tensor logits = good - bad, losses;
  if (options.loss_type == "simpo") logits = logits - options.gamma / options.beta;
  const Tensor x = logits * options.beta;
  if (options.loss_type == "hinge") {
    losses = relu(1.0 - x);
  } else if (options.loss_type == "ipo") {
    const Tensor error = logits - 1 / (2 * options.beta);
    losses = error * error;
  } else {
    losses = log_sigmoid(x) * (options.label_smoothing - 1) - log_sigmoid(-x) * options.label_smoothing;
  }
  return {.losses = losses,
          .chosen = good.detach() * options.beta,
          .rejected = bad.detach() * options.beta,
          .log_odds = {},
          .log_odds_ratio = {}};
}

Scores orpo_scores(const Tensor& chosen, const Tensor& rejected, const OddsOptions& options) {
  const Tensor log_odds = (chosen - rejected) - (log1m_exp(chosen) - log1m_exp(rejected));
  const Tensor ratio = log_sigmoid(log_odds);
  return {.losses = ratio * -options.beta,
          .chosen = chosen.detach() * options.beta,
          .rejected = rejected.detach() * options.beta,
          .log_odds = log_odds.detach(),
          .log_odds_ratio = ratio.detach()};
}

Tensor number(double value) { return constant(value, DType::kFloat32); }

Tensor odds_sums(const NamedTensors&, const NamedTensors& outputs) {
  const NoGradient only_numbers;
  const Tensor chosen = outputs.at("chosen_rewards"), rejected = outputs.at("rejected_rewards");
  const Tensor pairs = number(static_cast<double>(chosen.dim(0)));
  // TRL's means are over all places, padding too.
  const Tensor& means = outputs.at("mean_logits");
  const Tensor size = number(static_cast<double>(means.size()) / 2);
  std::vector<Tensor> totals = {sum(chosen),
                                sum(rejected),
                                sum(cast(greater(chosen, rejected), DType::kFloat32)),
                                sum(chosen - rejected),
                                sum(outputs.at("rejected_logps")),
                                sum(outputs.at("chosen_logps")),
                                sum(of_pairs(means, 1)),
                                sum(of_pairs(means, 0)),
                                outputs.at("nll")};
  std::vector<Tensor> counts = {pairs, pairs, pairs, pairs, pairs, pairs, size, size, outputs.at("nll_tokens")};
  if (const Tensor ratio = outputs.find("log_odds_ratio"); ratio.defined()) {
    totals.insert(totals.end(), {sum(ratio), sum(outputs.at("log_odds"))});
    counts.insert(counts.end(), {pairs, pairs});
  }
  return joined_sums(totals, counts);
}

std::vector<std::string> names_of(const OddsOptions& options) {
  std::vector<std::string> names = kOddsNames;
  if (options.odds_ratio) names.insert(names.end(), {"log_odds_ratio", "log_odds_chosen"});
  return names;
}

}  // namespace

OddsOptions cpo_options(const ScriptArguments& script) {
  OddsOptions options{.beta = script.beta,
                      .label_smoothing = script.label_smoothing,
                      .nll_weight = script.cpo_alpha,
                      .gamma = script.simpo_gamma,
                      .alpha = script.alpha.value_or(0),
                      .drops_out = !script.disable_dropout};
  if (script.loss_type.size() > 1)
    fail(ErrorKind::kUsage, "--loss_type: cpo has one loss, found {}", fmt::join(script.loss_type, ", "));
  if (!script.loss_type.empty()) options.loss_type = script.loss_type[0];
  const std::vector<std::string> known(kCpoLosses.begin(), kCpoLosses.end());
  if (std::find(known.begin(), known.end(), options.loss_type) == known.end())
    fail(ErrorKind::kUsage, "--loss_type: expected one of {} for cpo, found {}{}", fmt::join(known, ", "),
         quoted(options.loss_type), did_you_mean(options.loss_type, known));
  if (options.loss_type == "alphapo") options.loss_type = "simpo", options.nll_weight = 0;
  if (options.label_smoothing > 0 && (options.loss_type == "hinge" || options.loss_type == "ipo"))
    fail(ErrorKind::kUsage, "--label_smoothing: --loss_type {} has none; leave it out", options.loss_type);
  return options;
}

OddsOptions orpo_options(const ScriptArguments& script) {
  return {.odds_ratio = true, .beta = script.beta, .drops_out = !script.disable_dropout};
}

OddsObjective::OddsObjective(OddsOptions options)
    : options_(std::move(options)),
      measures_{.names = names_of(options_),
                .sums = odds_sums,
                .values = [](const Tensor& sums) { return ratios_of(sums); },
                .tokens = false} {}

void OddsObjective::expect(bool, bool staged) const {
  if (staged)
    fail(ErrorKind::kUsage,
         "--pp_size: losses of preferences are not computed in a pipeline; use --zero_stage or --fsdp");
}

Tensor OddsObjective::loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const {
  pass.context.training = pass.context.training && options_.drops_out;
  const AnswerMask mask = answer_mask(inputs.at("input_ids"), inputs.at("completion_mask"));
  const NamedTensors given = policy_inputs(inputs);
  const AnswerScores answers = scores_of_answers(pass.model, given, pass.context, AskedScores::kNone);
  const Tensor each = answers.log_probabilities(mask);
  Tensor logps = summed_rows(each);
  if (options_.odds_ratio || options_.loss_type == "ipo" || options_.loss_type == "simpo")
    logps = logps / summed_rows(mask.counted);
  const Tensor chosen = of_pairs(logps, 0), rejected = of_pairs(logps, 1);
  const Scores scores =
      options_.odds_ratio ? orpo_scores(chosen, rejected, options_) : cpo_scores(chosen, rejected, options_);
  Tensor loss = mean_of_all(scores.losses, pass.context);
  Tensor nll = number(0), tokens = number(1);
  if (options_.nll_weight != 0) {
    // ORPO learns the prompts too.
    const AnswerMask learnt = options_.odds_ratio ? answer_mask(mask.ids, given.at("attention_mask")) : mask;
    nll = -sum(of_pairs(options_.odds_ratio ? answers.log_probabilities(learnt) : each, 0));
    tokens = sum(of_pairs(learnt.counted, 0));
    const Tensor mean_nll = mean_of(nll, tokens, pass.context);
    loss = loss + (options_.nll_weight == 1 ? mean_nll : mean_nll * options_.nll_weight);
  }
  if (outputs) {
    *outputs = {{"mean_logits", options_.odds_ratio ? answers.mean_logits() : answers.mean_logits_of_all()},
                {"chosen_rewards", scores.chosen},
                {"rejected_rewards", scores.rejected},
                {"chosen_logps", chosen.detach()},
                {"rejected_logps", rejected.detach()},
                {"nll", nll.detach()},
                {"nll_tokens", tokens}};
    if (options_.odds_ratio) {
      outputs->set("log_odds_ratio", scores.log_odds_ratio);
      outputs->set("log_odds", scores.log_odds);
    }
  }
  return loss;
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/pair_loss.h"

#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/tasks/preferences/objectives/log_probabilities.h"

namespace transom {
namespace {

const std::vector<std::string> kPairNames = {
    "logps/chosen",          "logps/rejected",    "objective/kl",   "objective/non_score_reward",
    "objective/rlhf_reward", "objective/entropy", "rewards/chosen", "rewards/rejected",
    "rewards/margins",       "rewards/accuracies"};

}  // namespace

PolicyLoss pair_loss(const PolicyScores& s, const PolicyLossOptions& options) {
  const auto of_rows = [&](const Tensor& logps) { return reduce_sum(logps * s.counted, {1}); };
  const Tensor policy = of_rows(s.logps), said = of_rows(s.reference);  // [R]
  // Chosen less rejected of each pair: [R / 2].
  const auto of_pairs = [&](const Tensor& rows) { return reduce_sum(reshape(rows * s.advantages, {-1, 2}), {1}); };
  const Tensor odds = of_pairs(policy - said);
  PolicyLoss result;
  if (options.type == "ipo") {
    const Tensor error = odds - 1 / (2 * options.beta);
    result.loss = mean(error * error, {0});
  } else {
    result.loss = -mean(log_sigmoid(odds * options.beta), {0});
  }
  const NoGradient only_numbers;
  const Tensor none = full(s.advantages.shape(), 0), chosen = cast(greater(s.advantages, none), DType::kFloat32),
               rejected = 1.0 - chosen;
  const Tensor logps = policy.detach(), away = logps - said, margins = odds.detach() * options.beta;
  const Tensor rows = constant(static_cast<double>(logps.dim(0)), DType::kFloat32),
               pairs = constant(static_cast<double>(margins.dim(0)), DType::kFloat32);
  const Tensor right = cast(greater(margins, full(margins.shape(), 0)), DType::kFloat32);
  result.sums = joined_sums({sum(logps * chosen), sum(logps * rejected), sum(away), sum(away * -options.beta),
                             sum(s.rewards - away * options.beta), -sum(logps), sum(away * chosen) * options.beta,
                             sum(away * rejected) * options.beta, sum(margins), sum(right)},
                            {pairs, pairs, rows, rows, rows, rows, pairs, pairs, pairs, pairs});
  return result;
}

BatchMeasures pair_measures() {
  return {.names = kPairNames,
          .sums = [](const NamedTensors&, const NamedTensors& outputs) { return outputs.at("policy_sums"); },
          .values = [](const Tensor& sums) { return ratios_of(sums); },
          .tokens = false};  // those of completions are counted as they are written
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/objectives/kto_objective.h"

#include "graph/ops/movement/collectives.h"
#include "models/nn/losses/losses.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kOther = "KL_";

const std::vector<std::string> kKtoNames = {
    "kl",           "entropy",          "logits/chosen",  "logits/rejected", "rewards/chosen",
    "logps/chosen", "rewards/rejected", "logps/rejected", "rewards/margins"};

Tensor kto_sums(const NamedTensors& inputs, const NamedTensors& outputs) {
  const NoGradient only_numbers;
  const AnswerMask mask = answer_mask(inputs.at("input_ids"), inputs.at("completion_mask"));
  const AnswerScores scores(outputs);
  const Tensor good = inputs.at("label"), bad = 1.0 - good;
  const Tensor means = summed_rows(scores.mean_logits() * mask.counted), tokens = summed_rows(mask.counted);
  const Tensor &rewards = outputs.at("rewards"), &logps = outputs.at("logps");
  const Tensor goods = sum(good), bads = sum(bad);
  return joined_sums({outputs.at("kl"), sum(scores.entropies() * mask.counted), sum(means * good), sum(means * bad),
                      sum(rewards * good), sum(logps * good), sum(rewards * bad), sum(logps * bad)},
                     {constant(1, DType::kFloat32), sum(mask.counted), sum(tokens * good), sum(tokens * bad), goods,
                      goods, bads, bads});
}

// A batch without good or without bad answers has no value of them, and no margin.
Tensor kto_values(const Tensor& sums) {
  const Tensor ratios = ratios_of(sums, /*skips_empty=*/true);
  const auto of = [&](int64_t row, int64_t name) { return slice(slice(ratios, 0, row, row + 1), 1, name, name + 1); };
  const Tensor has_both = of(1, 4) * of(1, 6);  // else nothing is added to the margins of other batches
  const Tensor margin = concatenate({(of(0, 4) - of(0, 6)) * has_both, has_both}, 0);
  return concatenate({ratios, margin}, 1);
}

}  // namespace

KtoObjective::KtoObjective(KtoOptions options, std::shared_ptr<ReferencePolicy> reference,
                           std::optional<ReferenceMoves> moves, bool drops_out)
    : ReferredObjective(std::move(reference), moves, drops_out),
      options_(options),
      measures_{.names = kKtoNames, .sums = kto_sums, .values = kto_values} {}

// How far the policy is from the reference, f32 []: the mean over the batch of all processes, at least 0.
Tensor KtoObjective::divergence(const LossPass& pass, const NamedTensors& inputs) const {
  if (!options_.estimates_divergence) return zeros({}, DType::kFloat32);
  const AnswerMask mask = answer_mask(inputs.at("KL_input_ids"), inputs.at("KL_completion_mask"));
  const NamedTensors given = policy_inputs(inputs, kOther);
  const auto said_by = [&](const ForwardContext& context, const ReferencePolicy* whose) {
    return summed_rows(
        scores_of_answers(pass.model, given, context, AskedScores::kNone, whose).log_probabilities(mask));
  };
  const Tensor policy = said_by(further_pass(pass, 1), nullptr);
  const Tensor said = reference() ? said_by(pass.context, reference()) : inputs.at("ref_KL_logps");
  Tensor mean_ratio = mean(policy - said, {0});
  if (pass.ranks > 1) mean_ratio = all_reduce(mean_ratio, 0) * (1 / static_cast<double>(pass.ranks));
  return maximum(mean_ratio.detach(), zeros({}, DType::kFloat32));
}

Tensor KtoObjective::loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const {
  prepare(pass.context);
  const Tensor kl = divergence(pass, inputs);
  const AnswerMask mask = answer_mask(inputs.at("input_ids"), inputs.at("completion_mask"));
  const NamedTensors given = policy_inputs(inputs);
  const AnswerScores answers =
      scores_of_answers(pass.model, given, pass.context, outputs ? AskedScores::kMeasures : AskedScores::kNone);
  const Tensor policy = summed_rows(answers.log_probabilities(mask));
  const Tensor said =
      reference() ? summed_rows(scores_of_answers(pass.model, given, pass.context, AskedScores::kNone, reference())
                                    .log_probabilities(mask))
                  : inputs.at("ref_logps");
  const Tensor ratio = policy - said, good = inputs.at("label");
  const Tensor better = sigmoid((ratio - kl) * options_.beta);
  const Tensor if_bad =
      options_.estimates_divergence ? 1.0 - sigmoid((kl - ratio) * options_.beta) : sigmoid(ratio * options_.beta);
  const Tensor losses =
      (1.0 - better) * good * options_.desirable_weight + if_bad * (1.0 - good) * options_.undesirable_weight;
  if (outputs) {
    *outputs = {{"logps", policy.detach()}, {"rewards", ratio.detach() * options_.beta}, {"kl", kl}};
    answers.add_to(*outputs);
  }
  return mean_of_all(losses, pass.context);
}

}  // namespace transom

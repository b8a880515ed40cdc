// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/objectives/dpo_objective.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/step/text_places.h"

namespace transom {
namespace {

constexpr const char* kReferenceFile = "reference.safetensors";

}  // namespace

ReferredObjective::ReferredObjective(std::shared_ptr<ReferencePolicy> reference, std::optional<ReferenceMoves> moves,
                                     bool drops_out)
    : reference_(std::move(reference)), moves_(moves), drops_out_(drops_out) {}

void ReferredObjective::prepare(ForwardContext& context) const { context.training = context.training && drops_out_; }

void ReferredObjective::updated(const Model& model, int64_t steps) {
  if (moves_ && steps % moves_->every == 0) reference_->move_towards(model, moves_->alpha);
}

void ReferredObjective::save(const std::filesystem::path& directory) const {
  if (moves_) reference_->save(directory / kReferenceFile);
}

void ReferredObjective::load(const std::filesystem::path& directory) {
  if (moves_) reference_->load(directory / kReferenceFile);
}

void ReferredObjective::expect(bool sharded, bool staged) const {
  if (moves_ && sharded)
    fail(ErrorKind::kUsage, "--sync_ref_model: the reference of a sharded run does not move; leave it out");
  if (staged)
    fail(ErrorKind::kUsage,
         "--pp_size: losses of preferences and policies are not computed in a pipeline; use --zero_stage or --fsdp");
}

NamedTensors policy_inputs(const NamedTensors& inputs, const std::string& prefix) {
  NamedTensors own{{"input_ids", inputs.at(prefix + "input_ids")},
                   {"attention_mask", inputs.at(prefix + "attention_mask")}};
  copy_places(inputs, prefix, own);
  return own;
}

Tensor dpo_log_probabilities(const AnswerScores& scores, const AnswerMask& mask, std::optional<double> length_alpha) {
  const Tensor each = scores.log_probabilities(mask);
  if (!length_alpha) return summed_rows(each);
  // Liu et al., "Length desensitization in DPO", 2024: tokens beyond the shorter answer's length count less.
  const Tensor place = cumulative_sum(mask.counted, 1), lengths = summed_rows(mask.counted);
  const Tensor shared = minimum(of_pairs(lengths, 0), of_pairs(lengths, 1));
  const Tensor shorter = reshape(broadcast_to(unsqueeze(shared, 1), {shared.dim(0), 2}), {-1, 1});
  const Tensor beyond = cast(greater(place, broadcast_to(shorter, place.shape())), DType::kFloat32);
  return summed_rows(each * (1.0 - beyond) * mask.counted) + summed_rows(each * beyond) * *length_alpha;
}

namespace {

const std::vector<std::string> kDpoNames = {
    "entropy",          "logits/chosen",      "logits/rejected", "mean_token_accuracy", "rewards/chosen",
    "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen",        "logps/rejected"};

Tensor dpo_sums(const NamedTensors& inputs, const NamedTensors& outputs) {
  const NoGradient only_numbers;
  const AnswerMask mask = answer_mask(inputs.at("input_ids"), inputs.at("completion_mask"));
  const AnswerScores scores(outputs);
  const Tensor means = scores.mean_logits() * mask.counted, counted = mask.counted;
  const Tensor chosen_tokens = sum(of_pairs(counted, 0)), rejected_tokens = sum(of_pairs(counted, 1));
  const Tensor right = sum(of_pairs(scores.right_predictions(mask) * counted, 0));
  const Tensor chosen = outputs.at("chosen_rewards"), rejected = outputs.at("rejected_rewards");
  const Tensor pairs = constant(static_cast<double>(chosen.dim(0)), DType::kFloat32);
  return joined_sums(
      {sum(scores.entropies() * counted), sum(of_pairs(means, 0)), sum(of_pairs(means, 1)), right, sum(chosen),
       sum(rejected), sum(cast(greater(chosen, rejected), DType::kFloat32)), sum(chosen - rejected),
       sum(outputs.at("chosen_logps")), sum(outputs.at("rejected_logps"))},
      {sum(counted), chosen_tokens, rejected_tokens, chosen_tokens, pairs, pairs, pairs, pairs, pairs, pairs});
}

}  // namespace

DpoObjective::DpoObjective(DpoOptions options, std::shared_ptr<ReferencePolicy> reference,
                           std::optional<ReferenceMoves> moves, bool drops_out)
    : ReferredObjective(std::move(reference), moves, drops_out),
      options_(std::move(options)),
      measures_{.names = kDpoNames, .sums = dpo_sums, .values = [](const Tensor& sums) { return ratios_of(sums); }} {}

Tensor DpoObjective::loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const {
  prepare(pass.context);
  const AnswerMask mask = answer_mask(inputs.at("input_ids"), inputs.at("completion_mask"));
  const NamedTensors given = policy_inputs(inputs);
  const AskedScores asked = options_.use_weighting ? AskedScores::kLogits
                            : outputs              ? AskedScores::kMeasures
                                                   : AskedScores::kNone;
  const AnswerScores answers = scores_of_answers(pass.model, given, pass.context, asked);
  const Tensor policy = dpo_log_probabilities(answers, mask, options_.length_alpha);
  Tensor said = inputs.find("ref_logps");
  if (reference())
    said = dpo_log_probabilities(scores_of_answers(pass.model, given, pass.context, AskedScores::kNone, reference()),
                                 mask, options_.length_alpha);
  PairScores scores{.chosen = of_pairs(policy, 0),
                    .rejected = of_pairs(policy, 1),
                    .reference_chosen = of_pairs(said, 0),
                    .reference_rejected = of_pairs(said, 1),
                    .chosen_length = of_pairs(mask.lengths, 0),
                    .rejected_length = of_pairs(mask.lengths, 1),
                    .weights = {},
                    .chosen_nll = -sum(of_pairs(answers.log_probabilities(mask), 0)),
                    .chosen_tokens = sum(of_pairs(mask.counted, 0))};
  if (options_.use_weighting) {
    // Zhou et al., "WPO", 2024: how likely the policy finds both answers, per token.
    const NoGradient fixed;
    const Tensor lengths = summed_rows(mask.counted), logits = answers.logits();
    const Tensor aligned = (log_probabilities(logits.detach(), mask) - log_sums_of_squares(logits)) * mask.counted;
    const Tensor likely = exp(summed_rows(aligned) / maximum(lengths, full(lengths.shape(), 1)));
    scores.weights = of_pairs(likely, 0) * of_pairs(likely, 1);
  }
  if (outputs) {
    const Tensor chosen = scores.chosen.detach(), rejected = scores.rejected.detach();
    *outputs = {{"chosen_rewards", (chosen - scores.reference_chosen) * options_.beta},
                {"rejected_rewards", (rejected - scores.reference_rejected) * options_.beta},
                {"chosen_logps", chosen},
                {"rejected_logps", rejected}};
    answers.add_to(*outputs);
  }
  return dpo_loss(scores, options_, pass.context);
}

}  // namespace transom

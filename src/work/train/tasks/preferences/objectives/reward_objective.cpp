// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/objectives/reward_objective.h"

#include "base/error.h"
#include "models/nn/losses/losses.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/tasks/preferences/objectives/dpo_objective.h"
#include "work/train/tasks/preferences/objectives/log_probabilities.h"

namespace transom {
namespace {

constexpr int64_t kRatios = 3;

// A value of this process among those of all, which add up to it: f32 [ranks].
Tensor in_place_of(const Tensor& value, const Tensor& place) {
  return broadcast_to(reshape(value, {1}), place.shape()) * place;
}

Tensor reward_sums(const NamedTensors&, const NamedTensors& outputs) {
  const NoGradient only_numbers;
  const Tensor &rewards = outputs.at("rewards"), &place = outputs.at("place");
  const Tensor chosen = of_pairs(rewards, 0), rejected = of_pairs(rewards, 1);
  const Tensor all = constant(static_cast<double>(rewards.dim(0)), DType::kFloat32);
  const Tensor pairs = constant(static_cast<double>(chosen.dim(0)), DType::kFloat32);
  const Tensor ratios =
      joined_sums({sum(rewards), sum(cast(greater(chosen, rejected), DType::kFloat32)), sum(chosen - rejected)},
                  {all, pairs, pairs});
  return concatenate(
      {ratios, in_place_of(reduce_min(rewards, {0}), place), in_place_of(reduce_max(rewards, {0}), place)}, 0);
}

Tensor reward_values(const Tensor& sums) {
  const int64_t ranks = (sums.dim(0) - 2 * kRatios) / 2;
  const Tensor ratios = ratios_of(slice(sums, 0, 0, 2 * kRatios));
  const auto extreme = [&](int64_t which, auto reduce) {
    const Tensor value = reduce(slice(sums, 0, 2 * kRatios + which * ranks, 2 * kRatios + (which + 1) * ranks));
    return concatenate({reshape(value, {1, 1}), full({1, 1}, 1)}, 0);
  };
  return concatenate({extreme(0, [](const Tensor& x) { return reduce_min(x, {0}); }),
                      extreme(1, [](const Tensor& x) { return reduce_max(x, {0}); }), ratios},
                     1);
}

}  // namespace

RewardObjective::RewardObjective(std::optional<double> centring, bool drops_out)
    : centring_(centring),
      drops_out_(drops_out),
      measures_{.names = {"min_reward", "max_reward", "mean_reward", "accuracy", "margin"},
                .sums = reward_sums,
                .values = reward_values} {}

void RewardObjective::expect(bool, bool staged) const {
  if (staged) fail(ErrorKind::kUsage, "--pp_size: rewards are not trained in a pipeline; use --zero_stage or --fsdp");
}

Tensor RewardObjective::loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const {
  pass.context.training = pass.context.training && drops_out_;
  const Tensor logits = pass.model.forward(policy_inputs(inputs), pass.context).at("logits");
  const Tensor rewards = cast(reshape(logits, {-1}), DType::kFloat32);
  const Tensor chosen = of_pairs(rewards, 0), rejected = of_pairs(rewards, 1);
  Tensor better = chosen - rejected;
  if (const Tensor margin = inputs.find("margin"); margin.defined()) better = better - margin;
  Tensor loss = mean_of_all(-log_sigmoid(better), pass.context);
  if (centring_) {
    const Tensor both = chosen + rejected;
    loss = loss + mean_of_all(both * both, pass.context) * *centring_;
  }
  if (outputs) {
    std::vector<float> place(static_cast<size_t>(pass.ranks), 0.0f);
    place[static_cast<size_t>(pass.rank)] = 1;
    *outputs = {{"rewards", rewards.detach()}, {"place", Tensor::from(place, {pass.ranks})}};
  }
  return loss;
}

}  // namespace transom

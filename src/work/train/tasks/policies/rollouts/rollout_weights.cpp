// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rollouts/rollout_weights.h"

#include "base/error.h"
#include "models/loading/weights/packed_weights.h"
#include "transom/gradients.h"

namespace transom {

void RolloutWeights::renew(const Model& model) {
  const NoGradient only_numbers;
  // Values that are gathered from several processes do not say whether they learn: the model's lists do.
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group) {
      if (parameter->packed || (codes_.contains(parameter) && group == &model.frozen())) continue;
      if (auto codes = codes_of_weight(*parameter, quantization_)) codes_[parameter] = std::move(codes);
    }
  if (codes_.empty())
    fail(
        ErrorKind::kUsage,
        "--rollout_quantization {}: expected linear layers with plain weights, found none: those of a compressed model "
        "write completions with their own codes; leave it out",
        quantization_.name());
}

RolloutWeights::InPlace::InPlace(const RolloutWeights* codes) {
  if (!codes) return;
  for (const auto& [parameter, matrix] : codes->codes_) {
    // Without a value, so that traces of passes which were kept for these weights are not taken.
    before_[parameter] = std::exchange(parameter->value, {});
    parameter->packed = matrix;
  }
}

RolloutWeights::InPlace::~InPlace() {
  for (auto& [parameter, value] : before_) {
    parameter->packed = nullptr;
    parameter->value = std::move(value);
  }
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/finite_updates.h"

#include <cmath>

#include "transom/layers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Of one dimension: as a scalar it would be made by the fusion that makes the norm, long before the updates, and could
// not take the memory of the flag before it.
const Type kFlag{DType::kBool, {1}};

}  // namespace

FiniteUpdates::FiniteUpdates(Of of, ModelSharding* sharding)
    : of_(of), sharding_(sharding), flag_(std::make_shared<Parameter>()) {
  flag_->name = "all_updates_finite";
  reset();
}

bool FiniteUpdates::refuses(double loss, double gradient_norm) const {
  return !std::isfinite(gradient_norm) || (of_ == Of::kNormAndLoss && !std::isfinite(loss));
}

Tensor FiniteUpdates::trace(const Tensor& loss, const Tensor& norm) {
  Tensor finite = is_finite(norm);
  if (of_ == Of::kNormAndLoss) finite = logical_and(finite, is_finite(loss));
  const Tensor applied = logical_and(reshape(flag_->value, {}), finite);
  flag_->value = reshape(applied, kFlag.shape);
  return applied;
}

void FiniteUpdates::reset() {
  Tensor value = Tensor::from_bytes(std::vector<std::byte>{std::byte{1}}, kFlag);
  flag_->value = sharding_ ? sharding_->tensors().hold(std::move(value), kFlag, replicated(1)) : std::move(value);
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "models/nn/weight_adapter.h"

#include "models/nn/weight.h"

namespace transom {

Tensor WeightAdapter::product(const Tensor& x, const Parameter& weight, const Tensor& bias,
                              ForwardContext& context) const {
  return product_without_adapter(x, weight, bias, context.computing);
}

Tensor WeightAdapter::rows(const Tensor& rows, const Tensor&, const Computing&) const { return rows; }

const WeightAdapter* adapter_of(const Parameter& weight, const Computing& computing) {
  const AdapterSet* chosen = computing.adapters;
  if (!chosen) return weight.adapter.get();
  const auto found = chosen->find(&weight);
  return found == chosen->end() ? nullptr : found->second.get();
}

Tensor wide_rows(const Parameter& weight) {
  const Tensor w = cast(unpacked(weight, DType::kFloat32), DType::kFloat32);
  return weight.use == Parameter::Use::kTransposedLinear ? permute(w, {1, 0}) : w;
}

Tensor as_held(const Tensor& rows, const Parameter& weight) {
  const Tensor turned = weight.use == Parameter::Use::kTransposedLinear ? permute(rows, {1, 0}) : rows;
  return cast(turned, weight.value.dtype());
}

}  // namespace transom

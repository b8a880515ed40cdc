// SPDX-License-Identifier: Apache-2.0
#include "models/nn/lora.h"

#include "models/nn/layers.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

// W + scaling B A, f32 [out, in], whichever way round W is held.
Tensor sum_of_weights(const Parameter& weight, const LowRankAdapter& adapter, const Computing& computing) {
  const Tensor a = cast(adapter.a->value, DType::kFloat32), b = cast(adapter.b->value, DType::kFloat32);
  return wide_rows(weight) + dot_general(b, a, {{}, {}, {1}, {0}}, computing) * adapter.scaling;
}

Tensor row_scales(const Parameter& weight, const LowRankAdapter& adapter, const Computing& computing) {
  if (adapter.row_scales.defined()) return adapter.row_scales;
  return cast(adapter.magnitude->value, DType::kFloat32) / row_lengths(weight, adapter, computing);
}

}  // namespace

Tensor LowRankAdapter::product(const Tensor& x, const Parameter& weight, const Tensor& bias,
                               ForwardContext& context) const {
  const Computing& computing = context.computing;
  const Tensor own = product_without_adapter(x, weight, bias, computing);
  const Dropout drop(dropout);
  const Tensor in = drop(x, context);
  const Tensor inner = linear(in, a->value, {}, computing);
  const Tensor added = linear(inner, b->value, b_bias ? b_bias->value : Tensor(), computing);
  if (!magnitude) return own + cast(added * scaling, own.dtype());
  // As PEFT has it: what went in is scaled after dropout, and beside it stays the product of all that went in.
  const Tensor scales = transom::row_scales(weight, *this, computing), whole = cast(own, DType::kFloat32);
  Tensor scaled = whole;
  if (drop.applies(context)) scaled = cast(product_without_adapter(in, weight, {}, computing), DType::kFloat32);
  else if (bias.defined()) scaled = whole - cast(bias, DType::kFloat32);
  const Tensor more = scaled * (scales - 1.0) + cast(added, DType::kFloat32) * scaling * scales;
  return cast(whole + more, own.dtype());
}

Tensor row_lengths(const Parameter& weight, const LowRankAdapter& adapter, const Computing& computing) {
  const Tensor sum = sum_of_weights(weight, adapter, computing).detach();
  return sqrt(reduce_sum(sum * sum, {1}));
}

Tensor LowRankAdapter::merged(const Parameter& weight) const {
  Tensor sum = sum_of_weights(weight, *this, kAsGiven);
  if (magnitude) sum = sum * unsqueeze(transom::row_scales(weight, *this, kAsGiven), 1);
  return as_held(sum, weight);
}

Tensor LowRankAdapter::merged_bias(const Tensor& bias) const {
  return b_bias ? bias + cast(b_bias->value * scaling, bias.dtype()) : bias;
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "models/nn/lora.h"

#include "models/nn/layers.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

// W + scaling B A, f32 [out, in], whichever way round W is held.
Tensor sum_of_weights(const Parameter& weight, const LowRankAdapter& adapter, const Computing& computing) {
  const Tensor a = cast(adapter.a->value, DType::kFloat32), b = cast(adapter.b->value, DType::kFloat32);
  Tensor w = cast(unpacked(weight, DType::kFloat32), DType::kFloat32);
  if (weight.use == Parameter::Use::kTransposedLinear) w = permute(w, {1, 0});
  return w + dot_general(b, a, {{}, {}, {1}, {0}}, computing) * adapter.scaling;
}

Tensor row_scales(const Parameter& weight, const LowRankAdapter& adapter, const Computing& computing) {
  if (adapter.row_scales.defined()) return adapter.row_scales;
  return cast(adapter.magnitude->value, DType::kFloat32) / row_lengths(weight, adapter, computing);
}

}  // namespace

const LowRankAdapter* adapter_of(const Parameter& weight, const Computing& computing) {
  const AdapterSet* chosen = computing.adapters;
  if (!chosen) return weight.adapter.get();
  const auto found = chosen->find(&weight);
  return found == chosen->end() ? nullptr : &found->second;
}

Tensor add_adapter(const Tensor& product, const Tensor& x, const Parameter& weight, const Tensor& bias,
                   const LowRankAdapter& adapter, ForwardContext& context) {
  const Computing& computing = context.computing;
  const Dropout dropout(adapter.dropout);
  const Tensor in = dropout(x, context);
  const Tensor inner = linear(in, adapter.a->value, {}, computing);
  const Tensor added = linear(inner, adapter.b->value, adapter.b_bias ? adapter.b_bias->value : Tensor(), computing);
  if (!adapter.magnitude) return product + cast(added * adapter.scaling, product.dtype());
  // As PEFT has it: what went in is scaled after dropout, and beside it stays the product of all that went in.
  const Tensor scales = row_scales(weight, adapter, computing), whole = cast(product, DType::kFloat32);
  Tensor scaled = whole;
  if (dropout.applies(context)) scaled = cast(product_without_adapter(in, weight, computing), DType::kFloat32);
  else if (bias.defined()) scaled = whole - cast(bias, DType::kFloat32);
  const Tensor more = scaled * (scales - 1.0) + cast(added, DType::kFloat32) * adapter.scaling * scales;
  return cast(whole + more, product.dtype());
}

Tensor row_lengths(const Parameter& weight, const LowRankAdapter& adapter, const Computing& computing) {
  const Tensor sum = sum_of_weights(weight, adapter, computing).detach();
  return sqrt(reduce_sum(sum * sum, {1}));
}

Tensor merged(const Parameter& weight) {
  const LowRankAdapter& adapter = *weight.adapter;
  Tensor sum = sum_of_weights(weight, adapter, kAsGiven);
  if (adapter.magnitude) sum = sum * unsqueeze(row_scales(weight, adapter, kAsGiven), 1);
  if (weight.use == Parameter::Use::kTransposedLinear) sum = permute(sum, {1, 0});
  return cast(sum, weight.value.dtype());
}

}  // namespace transom

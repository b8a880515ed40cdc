// SPDX-License-Identifier: Apache-2.0
#include "nn/lora.h"

#include "nn/layers.h"
#include "nn/weight.h"

namespace transom {
namespace {

// W + scaling B A, f32 [out, in], whichever way round W is held.
Tensor sum_of_weights(const Parameter& weight, const LowRankAdapter& adapter) {
  const Tensor a = cast(adapter.a->value, DType::kFloat32), b = cast(adapter.b->value, DType::kFloat32);
  Tensor w = cast(unpacked(weight, DType::kFloat32), DType::kFloat32);
  if (weight.use == Parameter::Use::kTransposedLinear) w = permute(w, {1, 0});
  return w + dot_general(b, a, {{}, {}, {1}, {0}}) * adapter.scaling;
}

Tensor row_scales(const Parameter& weight, const LowRankAdapter& adapter) {
  if (adapter.row_scales.defined()) return adapter.row_scales;
  return cast(adapter.magnitude->value, DType::kFloat32) / row_lengths(weight, adapter);
}

}  // namespace

AdapterPass::AdapterPass(ForwardContext& context) : before_(set_computing(&Computing::pass, &context)) {}
AdapterPass::~AdapterPass() { set_computing(&Computing::pass, before_); }

AdapterScope::AdapterScope(const AdapterSet* adapters) : before_(set_computing(&Computing::adapters, adapters)) {}
AdapterScope::~AdapterScope() { set_computing(&Computing::adapters, before_); }

const LowRankAdapter* adapter_of(const Parameter& weight) {
  const AdapterSet* chosen = computing().adapters;
  if (!chosen) return weight.adapter.get();
  const auto found = chosen->find(&weight);
  return found == chosen->end() ? nullptr : &found->second;
}

Tensor add_adapter(const Tensor& product, const Tensor& x, const Parameter& weight, const Tensor& bias,
                   const LowRankAdapter& adapter) {
  ForwardContext* current = computing().pass;
  const bool drops = current && current->training && adapter.dropout > 0;
  const Tensor in = drops ? Dropout(adapter.dropout)(x, *current) : x;
  const Tensor inner = linear(in, adapter.a->value);
  const Tensor added = linear(inner, adapter.b->value, adapter.b_bias ? adapter.b_bias->value : Tensor());
  if (!adapter.magnitude) return product + cast(added * adapter.scaling, product.dtype());
  // As PEFT has it: what went in is scaled after dropout, and beside it stays the product of all that went in.
  const Tensor scales = row_scales(weight, adapter), whole = cast(product, DType::kFloat32);
  Tensor scaled = whole;
  if (drops) scaled = cast(product_without_adapter(in, weight), DType::kFloat32);
  else if (bias.defined()) scaled = whole - cast(bias, DType::kFloat32);
  const Tensor more = scaled * (scales - 1.0) + cast(added, DType::kFloat32) * adapter.scaling * scales;
  return cast(whole + more, product.dtype());
}

Tensor row_lengths(const Parameter& weight, const LowRankAdapter& adapter) {
  const Tensor sum = sum_of_weights(weight, adapter).detach();
  return sqrt(reduce_sum(sum * sum, {1}));
}

Tensor merged(const Parameter& weight) {
  const LowRankAdapter& adapter = *weight.adapter;
  Tensor sum = sum_of_weights(weight, adapter);
  if (adapter.magnitude) sum = sum * unsqueeze(row_scales(weight, adapter), 1);
  if (weight.use == Parameter::Use::kTransposedLinear) sum = permute(sum, {1, 0});
  return cast(sum, weight.value.dtype());
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "nn/lora.h"

#include "nn/layers.h"

namespace transom {
namespace {

thread_local ForwardContext* current = nullptr;
thread_local const AdapterSet* chosen = nullptr;

}  // namespace

AdapterPass::AdapterPass(ForwardContext& context) : before_(current) { current = &context; }
AdapterPass::~AdapterPass() { current = before_; }

AdapterScope::AdapterScope(const AdapterSet* adapters) : before_(chosen) { chosen = adapters; }
AdapterScope::~AdapterScope() { chosen = before_; }

const LowRankAdapter* adapter_of(const Parameter& weight) {
  if (!chosen) return weight.adapter.get();
  const auto found = chosen->find(&weight);
  return found == chosen->end() ? nullptr : &found->second;
}

Tensor add_adapter(const Tensor& product, const Tensor& x, const LowRankAdapter& adapter) {
  const Tensor in = current ? Dropout(adapter.dropout)(x, *current) : x;
  const Tensor added = linear(linear(in, adapter.a->value), adapter.b->value) * adapter.scaling;
  return product + cast(added, product.dtype());
}

Tensor merged(const Parameter& weight) {
  const LowRankAdapter& adapter = *weight.adapter;
  const Tensor a = cast(adapter.a->value, DType::kFloat32), b = cast(adapter.b->value, DType::kFloat32);
  Tensor added = dot_general(b, a, {{}, {}, {1}, {0}}) * adapter.scaling;  // [out, in]
  if (weight.use == Parameter::Use::kTransposedLinear) added = permute(added, {1, 0});
  return cast(cast(weight.value, DType::kFloat32) + added, weight.value.dtype());
}

}  // namespace transom

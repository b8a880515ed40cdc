// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (Hu et al., 2021): beside a frozen weight W, a linear layer multiplies with two small matrices,
// y = W x + scaling B A dropout(x).
#pragma once

#include <map>

#include "transom/model.h"

namespace transom {

struct LowRankAdapter {
  std::shared_ptr<Parameter> a, b;  // [rank, in] and [out, rank], whichever way round W is held
  double scaling = 1;
  double dropout = 0;
};

// What the adapters need to know of the pass that is going on; while it lives, on this thread.
class AdapterPass {
 public:
  explicit AdapterPass(ForwardContext& context);
  ~AdapterPass();
  AdapterPass(const AdapterPass&) = delete;
  AdapterPass& operator=(const AdapterPass&) = delete;

 private:
  ForwardContext* before_;
};

// Adapters by the parameters of their weights.
using AdapterSet = std::map<const Parameter*, LowRankAdapter>;

// While it lives, the linear layers that its thread calls have these adapters in place of their own; null: their own.
class AdapterScope {
 public:
  explicit AdapterScope(const AdapterSet* adapters);
  ~AdapterScope();
  AdapterScope(const AdapterScope&) = delete;
  AdapterScope& operator=(const AdapterScope&) = delete;

 private:
  const AdapterSet* before_;
};

// The adapter that a weight has now; null: none.
const LowRankAdapter* adapter_of(const Parameter& weight);

Tensor add_adapter(const Tensor& product, const Tensor& x, const LowRankAdapter& adapter);

// `product` of x [..., in] and the weight, with what an adapter of that weight adds.
inline Tensor with_adapter(const Tensor& product, const Tensor& x, const Parameter& weight) {
  const LowRankAdapter* adapter = adapter_of(weight);
  return adapter ? add_adapter(product, x, *adapter) : product;
}

// The weight with its adapter's product added, in the weight's own shape and type.
Tensor merged(const Parameter& weight);

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (Hu et al., 2021): beside a frozen weight W, a linear layer multiplies with two small matrices,
// y = W x + scaling B A dropout(x).
#pragma once

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

Tensor add_adapter(const Tensor& product, const Tensor& x, const LowRankAdapter& adapter);

// `product` of x [..., in] and the weight, with what an adapter of that weight adds.
inline Tensor with_adapter(const Tensor& product, const Tensor& x, const Parameter& weight) {
  return weight.adapter ? add_adapter(product, x, *weight.adapter) : product;
}

// The weight with its adapter's product added, in the weight's own shape and type.
Tensor merged(const Parameter& weight);

}  // namespace transom

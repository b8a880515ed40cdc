// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (Hu et al., 2021): beside a frozen weight W, a linear layer multiplies with two small matrices,
// y = W x + scaling (B A dropout(x) + bias). DoRA (Liu et al., 2024) scales each row of the sum of the weights,
// y = m / |W + scaling B A| (W + scaling B A) x, where |.| is the length of a row and a constant to gradients.
#pragma once

#include "transom/model.h"

namespace transom {

struct LowRankAdapter {
  std::shared_ptr<Parameter> a, b;       // [rank, in] and [out, rank], whichever way round W is held
  std::shared_ptr<Parameter> b_bias;     // [out], or null
  std::shared_ptr<Parameter> magnitude;  // of DoRA: m [out]; null: LoRA
  Tensor row_scales;                     // m / |W + scaling B A| where none of them changes any more, or empty
  double scaling = 1;
  double dropout = 0;
};

// The adapter that a weight has under Computing::adapters, else its own; null: none.
const LowRankAdapter* adapter_of(const Parameter& weight, const Computing& computing);

// `product` of x [..., in] and the weight, `bias` included, with what the adapter adds.
Tensor add_adapter(const Tensor& product, const Tensor& x, const Parameter& weight, const Tensor& bias,
                   const LowRankAdapter& adapter, ForwardContext& context);

// The lengths of the rows of W + scaling B A, f32 [out], without gradients.
Tensor row_lengths(const Parameter& weight, const LowRankAdapter& adapter, const Computing& computing);

// The weight with its adapter in it, in the weight's own shape and type; what the adapter adds to the layer's bias is
// left out.
Tensor merged(const Parameter& weight);

}  // namespace transom

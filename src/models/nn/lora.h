// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (Hu et al., 2021): beside a frozen weight W, a linear layer multiplies with two small matrices,
// y = W x + scaling (B A dropout(x) + bias). DoRA (Liu et al., 2024) scales each row of the sum of the weights,
// y = m / |W + scaling B A| (W + scaling B A) x, where |.| is the length of a row and a constant to gradients.
#pragma once

#include <memory>

#include "models/nn/weight_adapter.h"

namespace transom {

class LowRankAdapter : public WeightAdapter {
 public:
  std::shared_ptr<Parameter> a, b;       // [rank, in] and [out, rank], whichever way round W is held
  std::shared_ptr<Parameter> b_bias;     // [out], or null
  std::shared_ptr<Parameter> magnitude;  // of DoRA: m [out]; null: LoRA
  Tensor row_scales;                     // m / |W + scaling B A| where none of them changes any more, or empty
  double scaling = 1;
  double dropout = 0;

  Tensor product(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context) const override;
  Tensor merged(const Parameter& weight) const override;
  Tensor merged_bias(const Tensor& bias) const override;
  bool needs_bias() const override { return b_bias != nullptr; }
  std::string_view uncut() const override { return magnitude ? "use_dora" : b_bias ? "lora_bias" : ""; }
};

// The lengths of the rows of W + scaling B A, f32 [out], without gradients.
Tensor row_lengths(const Parameter& weight, const LowRankAdapter& adapter, const Computing& computing);

}  // namespace transom

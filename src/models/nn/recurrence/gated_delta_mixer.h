// SPDX-License-Identifier: Apache-2.0
// The mixer of Qwen3-Next and later ones: the gated delta rule (Yang et al., "Gated Delta Networks", 2024) behind a
// causal convolution.
#pragma once

#include "models/nn/recurrence/state_layers.h"

namespace transom {

struct GatedDeltaPlan {
  int64_t width = 0, key_heads = 0, key_size = 0, value_heads = 0, value_size = 0, taps = 0;
  bool joined = false;  // two layers in, in_proj_qkvz and in_proj_ba, in the order of the heads of keys; else four
  std::string activation = "silu";
  double epsilon = 1e-6, deviation = 0.02;
};

class GatedDeltaMixer {
 public:
  // `state`: the number of the convolution's state in a cache; that of the delta rule is the next.
  GatedDeltaMixer(const Scope& scope, const GatedDeltaPlan& plan, size_t state);
  Tensor operator()(const Tensor& x, const Tensor& attention_mask, ForwardContext& context) const;

 private:
  struct Projected {
    Tensor convolved;    // queries, keys and values before the convolution, [B, T, 2 G S + H P]
    Tensor gate;         // [B, T, H, P]
    Tensor beta, steps;  // [B, T, H]
  };
  int64_t keys() const { return plan_.key_heads * plan_.key_size; }
  int64_t values() const { return plan_.value_heads * plan_.value_size; }
  Projected project(const Tensor& x, ForwardContext& context) const;
  Projected project_joined(const Tensor& x, ForwardContext& context) const;

  GatedDeltaPlan plan_;
  size_t state_;
  std::string path_;
  std::shared_ptr<Parameter> dt_bias_, a_log_, norm_;
  CausalConvolution conv1d_;
  std::vector<Linear> in_;  // of a joined plan qkvz and ba; else qkv, z, b and a
  Linear out_proj_;
};

}  // namespace transom

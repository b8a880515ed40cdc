// SPDX-License-Identifier: Apache-2.0
// The mixer of Mamba-2 (Dao and Gu, 2024), and of hybrids with it.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "models/nn/recurrence/state_layers.h"

namespace transom {

struct Mamba2Plan {
  int64_t width = 0, inner = 0, heads = 0, head_size = 0, groups = 0, state = 0, taps = 0;
  bool bias = false, conv_bias = true;
  std::string activation = "silu";
  double epsilon = 1e-5;
  std::pair<double, double> step_limit = {0, std::numeric_limits<double>::infinity()};
  bool grouped_norm = true;  // the norm is over the numbers of a group; else over all
  double deviation = 0.02, output_deviation = 0.02;
  std::vector<float> step_biases;  // [heads], of new weights
};

class Mamba2Mixer {
 public:
  // `state`: the number of the convolution's state in a cache; that of the scan is the next.
  Mamba2Mixer(const Scope& scope, const Mamba2Plan& plan, size_t state);
  Tensor operator()(const Tensor& x, const Tensor& attention_mask, ForwardContext& context) const;

 private:
  int64_t convolved() const { return plan_.inner + 2 * plan_.groups * plan_.state; }
  Tensor gated_norm(const Tensor& y, const Tensor& gate, const ForwardContext& context) const;

  Mamba2Plan plan_;
  size_t state_;
  std::string path_;
  std::shared_ptr<Parameter> dt_bias_, a_log_, d_, norm_;
  CausalConvolution conv1d_;
  Linear in_proj_, out_proj_;
};

}  // namespace transom

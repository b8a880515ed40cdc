// SPDX-License-Identifier: Apache-2.0
// The mixer of Mamba (Gu and Dao, 2023), whose step, input and output depend on the token; of Falcon Mamba (Zuo et al.,
// 2024) and Jamba (Lieber et al., 2024), with norms of these three.
#pragma once

#include <vector>

#include "models/nn/recurrence/state_layers.h"

namespace transom {

struct Mamba1Plan {
  int64_t width = 0, inner = 0, state = 0, rank = 0, taps = 0;  // `rank`: of what steps are made of
  bool bias = false, conv_bias = true;
  std::string activation = "silu";
  enum class Norms {
    kNone,
    kBare,     // nothing is learned
    kModules,  // dt_layernorm, b_layernorm, c_layernorm
  } norms = Norms::kNone;
  double epsilon = 1e-6;  // of these
  double deviation = 0.02, output_deviation = 0.02, step_deviation = 0.02;
  bool steps_are_drawn = true;     // new weights of steps; else all are step_deviation
  std::vector<float> step_biases;  // [inner], of new weights; empty: ones
};

class Mamba1Mixer {
 public:
  // `state`: the number of the convolution's state in a cache; that of the scan is the next.
  Mamba1Mixer(const Scope& scope, const Mamba1Plan& plan, size_t state);
  Tensor operator()(const Tensor& x, const Tensor& attention_mask, ForwardContext& context) const;

 private:
  Tensor normed(size_t which, const Tensor& x, const ForwardContext& context) const;

  Mamba1Plan plan_;
  size_t state_;
  std::string path_;
  std::shared_ptr<Parameter> a_log_, d_;
  CausalConvolution conv1d_;
  Linear in_proj_, x_proj_;
  Scope steps_;
  std::shared_ptr<Parameter> step_weight_, step_bias_;
  std::vector<std::shared_ptr<Parameter>> norms_;  // of steps, inputs and outputs, where they are learned
  Linear out_proj_;
};

}  // namespace transom

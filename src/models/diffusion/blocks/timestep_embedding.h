// SPDX-License-Identifier: Apache-2.0
// What a network is told of the time. B batch.
#pragma once

#include <optional>
#include <string>

#include "models/diffusion/blocks/image_layers.h"

namespace transom {

// Sines and cosines of numbers [N] at `width` / 2 frequencies (Vaswani et al., 2017): f32 [N, width].
Tensor sinusoids(const Tensor& numbers, int64_t width, bool cosines_first, double frequency_shift);

// Two linear layers.
class TimeEmbedding {
 public:
  struct Options {
    std::string activation = "silu", last_activation = {};  // empty: none at the end
    int64_t condition_width = 0;                            // of a condition beside the time; 0: none
  };
  TimeEmbedding(const Scope& scope, int64_t in, int64_t out, const Options& options);
  TimeEmbedding(const Scope& scope, int64_t in, int64_t out) : TimeEmbedding(scope, in, out, Options{}) {}
  Tensor operator()(Tensor x, const Tensor& condition, ForwardContext& context) const;

 private:
  Options options_;
  std::optional<Linear> cond_proj_;
  Linear linear_1_, linear_2_;
};

}  // namespace transom

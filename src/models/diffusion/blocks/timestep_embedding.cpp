// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/blocks/timestep_embedding.h"

#include <cmath>

namespace transom {

Tensor sinusoids(const Tensor& numbers, int64_t width, bool cosines_first, double frequency_shift) {
  constexpr double kLongest = 10000;
  const int64_t half = width / 2;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < half; ++i)
    frequencies.push_back(std::exp(static_cast<float>(-std::log(kLongest)) * static_cast<float>(i) /
                                   static_cast<float>(static_cast<double>(half) - frequency_shift)));
  const Tensor angles = reshape(cast(numbers, DType::kFloat32), {-1, 1}) * Tensor::from(frequencies, {1, half});
  const Tensor all =
      cosines_first ? concatenate({cos(angles), sin(angles)}, 1) : concatenate({sin(angles), cos(angles)}, 1);
  return width % 2 == 1 ? pad(all, {0, 0}, {0, 1}) : all;
}

TimeEmbedding::TimeEmbedding(const Scope& scope, int64_t in, int64_t out, const Options& options)
    : options_(options),
      linear_1_(torch_linear(scope / "linear_1", in, out)),
      linear_2_(torch_linear(scope / "linear_2", out, out)) {
  if (options.condition_width > 0) cond_proj_ = torch_linear(scope / "cond_proj", options.condition_width, in, false);
}

Tensor TimeEmbedding::operator()(Tensor x, const Tensor& condition, ForwardContext& context) const {
  if (cond_proj_ && condition.defined()) x = x + (*cond_proj_)(condition, context);
  x = linear_2_(activation(options_.activation, linear_1_(x, context)), context);
  return options_.last_activation.empty() ? x : activation(options_.last_activation, x);
}

}  // namespace transom

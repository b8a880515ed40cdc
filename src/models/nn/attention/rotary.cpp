// SPDX-License-Identifier: Apache-2.0
#include "models/nn/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Kind = RotaryOptions::Kind;

// Frequencies are rounded to f32 as Transformers computes them: far positions multiply what they differ by.
std::vector<float> plain_frequencies(const RotaryOptions& o) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < o.width; i += 2)
    frequencies.push_back(1.0f /
                          std::pow(static_cast<float>(o.theta), static_cast<float>(i) / static_cast<float>(o.width)));
  return frequencies;
}

// The place among the pairs that turns so many times within the original length.
double pair_of_rotations(const RotaryOptions& o, double rotations) {
  return static_cast<double>(o.width) * std::log(o.original_max_positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(o.theta));
}

std::vector<float> yarn_frequencies(const RotaryOptions& o) {
  double low = pair_of_rotations(o, o.beta_fast), high = pair_of_rotations(o, o.beta_slow);
  if (o.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(o.width - 1));
  if (low == high) high += 0.001;
  std::vector<float> frequencies = plain_frequencies(o);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const auto slow = static_cast<float>(std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0));
    const float stretched = frequencies[i] / static_cast<float>(o.factor);
    frequencies[i] = stretched * slow + frequencies[i] * (1 - slow);
  }
  return frequencies;
}

std::vector<float> llama3_frequencies(const RotaryOptions& o) {
  std::vector<float> frequencies = plain_frequencies(o);
  for (float& frequency : frequencies) {
    const double length = 2 * std::numbers::pi / frequency;
    if (length < o.original_max_positions / o.high_freq_factor) continue;
    if (length > o.original_max_positions / o.low_freq_factor) {
      frequency = static_cast<float>(frequency / o.factor);
      continue;
    }
    const double smooth =
        (o.original_max_positions / length - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
    frequency = static_cast<float>((1 - smooth) * frequency / o.factor + smooth * frequency);
  }
  return frequencies;
}

std::vector<float> divided(std::vector<float> frequencies, const std::vector<double>& factors, const char* name) {
  if (factors.size() != frequencies.size())
    fail("config.json: {}: expected {} numbers, one for each pair that turns, found {}", name, frequencies.size(),
         factors.size());
  for (size_t i = 0; i < factors.size(); ++i)
    if (factors[i] != 1) frequencies[i] = 1.0f / (static_cast<float>(factors[i]) * (1.0f / frequencies[i]));
  return frequencies;
}

double yarn_attention_factor(const RotaryOptions& o) {
  const auto mscale = [&](double m) { return o.factor <= 1 ? 1.0 : 0.1 * m * std::log(o.factor) + 1; };
  return o.mscale != 0 && o.mscale_all_dim != 0 ? mscale(o.mscale) / mscale(o.mscale_all_dim) : mscale(1);
}

double longrope_attention_factor(const RotaryOptions& o) {
  return o.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(o.factor) / std::log(o.original_max_positions));
}

Tensor as_tensor(const std::vector<float>& values) {
  for (const float value : values)
    if (!std::isfinite(value))
      fail("config.json: rope_parameters: expected values of which each frequency is a number, found one that is {}",
           value);
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(const RotaryOptions& o) : options_(o) {
  constexpr int64_t kWidest = 1 << 16;  // of a head
  if (o.width < 0 || o.width > kWidest) fail("expected rotary heads of at most {} numbers, found {}", kWidest, o.width);
  std::vector<float> frequencies;
  switch (o.kind) {
    case Kind::kDynamic:
      if (o.width <= 2)
        fail(ErrorKind::kUnsupported, "rope_type dynamic: expected more than two numbers of a head that turn, found {}",
             o.width);
      [[fallthrough]];
    case Kind::kDefault:
      frequencies = plain_frequencies(o);
      break;
    case Kind::kLinear:
      frequencies = plain_frequencies(o);
      for (float& frequency : frequencies) frequency /= static_cast<float>(o.factor);
      break;
    case Kind::kYarn:
      frequencies = yarn_frequencies(o);
      attention_factor_ = o.attention_factor.value_or(yarn_attention_factor(o));
      break;
    case Kind::kLlama3:
      frequencies = llama3_frequencies(o);
      break;
    case Kind::kLongrope:
      frequencies = divided(plain_frequencies(o), o.short_factor, "short_factor");
      long_frequencies_ = as_tensor(divided(plain_frequencies(o), o.long_factor, "long_factor"));
      attention_factor_ = o.attention_factor.value_or(longrope_attention_factor(o));
      break;
  }
  frequencies_ = as_tensor(frequencies);
  if (!std::isfinite(attention_factor_))
    fail("config.json: rope_parameters: expected a finite attention factor, found {}", attention_factor_);
}

// The kinds that look at the length of the text take the largest position of the batch for it.
Tensor RotaryEmbedding::frequencies(const Tensor& position_ids) const {
  if (options_.kind != Kind::kDynamic && options_.kind != Kind::kLongrope) return frequencies_;
  if (options_.kind == Kind::kLongrope && options_.short_factor == options_.long_factor) return frequencies_;
  const Tensor length = cast(reduce_max(position_ids, {0, 1}), DType::kFloat32) + 1.0;
  if (options_.kind == Kind::kLongrope)
    return select(greater(length, constant(options_.original_max_positions)), long_frequencies_, frequencies_);
  const Tensor stretched =
      maximum(length, constant(options_.max_positions)) * (options_.factor / options_.max_positions) -
      (options_.factor - 1);
  const auto width = static_cast<double>(options_.width);
  // theta' = theta stretched^(width / (width - 2)), and pair i turns at theta'^(-2 i / width).
  const Tensor pairs = iota(frequencies_.shape(), 0, DType::kFloat32);
  return frequencies_ * exp(log(stretched) * pairs * (-2 / (width - 2)));
}

RotaryAngles RotaryEmbedding::operator()(const Tensor& position_ids) const {
  const int64_t B = position_ids.dim(0), T = position_ids.dim(1);
  const Tensor positions = reshape(cast(position_ids, DType::kFloat32), {B, T, 1, 1});
  const Tensor angles = positions * frequencies(position_ids);
  RotaryAngles result{cos(angles), sin(angles)};
  if (attention_factor_ != 1) result = {result.cosine * attention_factor_, result.sine * attention_factor_};
  return result;
}

Tensor rotate(const Tensor& x, const RotaryAngles& angles) {
  const int64_t pairs = angles.cosine.dim(3), d = x.dim(3);
  if (2 * pairs > d) fail("rotary embedding: {} numbers turn, but a head has {}", 2 * pairs, d);
  const Tensor cosine = cast(angles.cosine, x.dtype()), sine = cast(angles.sine, x.dtype());
  return make_tensor(find_operation("rotary"), {x, cosine, sine}, {});
}

}  // namespace transom

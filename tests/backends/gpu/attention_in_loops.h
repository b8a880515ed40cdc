// SPDX-License-Identifier: Apache-2.0
// Attention as plain loops in float64, and its attributes.
#pragma once

#include <cmath>
#include <vector>

#include "backends/harness.h"

namespace transom::backend_test {

// q [B, T, H, d], k [B, S, G, d], v [B, S, G, e].
struct AttentionCase {
  int64_t T, S, H, G, d, e;
  bool causal;
  int64_t window;
  double cap;
  bool biased;  // by one number for each key
  int64_t B = 1;
  double scale = 0.5;

  std::vector<Attribute> attributes() const {
    return {{"biased", biased ? 1 : 0}, {"causal", causal ? 1 : 0}, {"dropout", 0.0},
            {"scale", scale},           {"sliding_window", window}, {"soft_cap", cap}};
  }
};

inline std::vector<double> attention_in_loops(const AttentionCase& c, const Tensor& q, const Tensor& k, const Tensor& v,
                                              const Tensor& bias) {
  std::vector<double> result(static_cast<size_t>(c.B * c.T * c.H * c.e));
  const auto at = [](const Tensor& x, int64_t token, int64_t head, int64_t heads, int64_t n, int64_t l) {
    return x.values[static_cast<size_t>((token * heads + head) * n + l)];
  };
  for (int64_t row = 0; row < c.B * c.T; ++row)
    for (int64_t h = 0; h < c.H; ++h) {
      const int64_t g = h / (c.H / c.G), first = row / c.T * c.S, last = row % c.T + c.S - c.T;
      std::vector<double> weights;
      for (int64_t s = 0; s < c.S; ++s) {
        double score = 0;
        for (int64_t i = 0; i < c.d; ++i) score += at(q, row, h, c.H, c.d, i) * at(k, first + s, g, c.G, c.d, i);
        score *= c.scale;
        if (c.cap > 0) score = std::tanh(score / c.cap) * c.cap;
        if (c.biased) score += bias.values[static_cast<size_t>(s)];
        const bool hidden = c.causal && (s > last || (c.window > 0 && s <= last - c.window));
        weights.push_back(hidden ? 0 : std::exp(score));
      }
      double total = 0;
      for (const double w : weights) total += w;
      for (int64_t i = 0; i < c.e; ++i) {
        double sum = 0;
        for (int64_t s = 0; s < c.S; ++s)
          sum += weights[static_cast<size_t>(s)] / total * at(v, first + s, g, c.G, c.e, i);
        result[static_cast<size_t>((row * c.H + h) * c.e + i)] = sum;
      }
    }
  return result;
}

}  // namespace transom::backend_test

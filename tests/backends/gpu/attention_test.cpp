// SPDX-License-Identifier: Apache-2.0
// Attention in tiles against plain loops: lengths that the tiles do not divide, heads that share keys, masks, and a
// query alone.
#include <algorithm>
#include <cmath>

#include "gpu_device.h"

namespace transom::backend_test {
namespace {

struct Case {
  int64_t T, S, H, G, d, e;
  bool causal;
  int64_t window;
  double cap;
  bool biased;
};

class GpuAttention : public OnGpu {
 protected:
  static std::vector<Attribute> attributes(const Case& c) {
    return {{"biased", c.biased ? 1 : 0}, {"causal", c.causal ? 1 : 0}, {"dropout", 0.0}, {"scale", 0.5},
            {"sliding_window", c.window}, {"soft_cap", c.cap}};
  }
  static std::vector<double> expected(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const Tensor& bias) {
    std::vector<double> result(static_cast<size_t>(c.T * c.H * c.e));
    const auto at = [](const Tensor& x, int64_t i, int64_t j, int64_t heads, int64_t n, int64_t l) {
      return x.values[static_cast<size_t>((i * heads + j) * n + l)];
    };
    for (int64_t t = 0; t < c.T; ++t)
      for (int64_t h = 0; h < c.H; ++h) {
        const int64_t g = h / (c.H / c.G), last = t + c.S - c.T;
        std::vector<double> weights;
        for (int64_t s = 0; s < c.S; ++s) {
          double score = 0;
          for (int64_t i = 0; i < c.d; ++i) score += at(q, t, h, c.H, c.d, i) * at(k, s, g, c.G, c.d, i);
          score *= 0.5;
          if (c.cap > 0) score = std::tanh(score / c.cap) * c.cap;
          if (c.biased) score += bias.values[static_cast<size_t>(s)];
          const bool hidden = c.causal && (s > last || (c.window > 0 && s <= last - c.window));
          weights.push_back(hidden ? 0 : std::exp(score));
        }
        double total = 0;
        for (const double w : weights) total += w;
        for (int64_t i = 0; i < c.e; ++i) {
          double sum = 0;
          for (int64_t s = 0; s < c.S; ++s) sum += weights[static_cast<size_t>(s)] / total * at(v, s, g, c.G, c.e, i);
          result[static_cast<size_t>((t * c.H + h) * c.e + i)] = sum;
        }
      }
    return result;
  }
};

TEST_F(GpuAttention, OfAnyLengthsAndMasks) {
  for (const Case& c : {Case{1, 1, 1, 1, 1, 1, false, 0, 0, false}, Case{17, 65, 2, 1, 8, 40, false, 0, 0, true},
                        Case{70, 70, 4, 2, 8, 8, true, 0, 0, false}, Case{5, 130, 2, 2, 8, 3, true, 20, 0, false},
                        Case{33, 33, 1, 1, 8, 8, true, 0, 2, false}}) {
    const Tensor q = numbers(TRANSOM_FLOAT32, {1, c.T, c.H, c.d}),
                 k = numbers(TRANSOM_FLOAT32, {1, c.S, c.G, c.d}, -2, 2, 2),
                 v = numbers(TRANSOM_FLOAT32, {1, c.S, c.G, c.e}, -2, 2, 3),
                 bias = numbers(TRANSOM_FLOAT32, {1, 1, 1, c.S}, -2, 2, 4);
    std::vector<Tensor> inputs = {q, k, v};
    if (c.biased) inputs.push_back(bias);
    const Tensor found = run("attention", inputs, {{TRANSOM_FLOAT32, {1, c.T, c.H, c.e}}}, attributes(c))[0];
    EXPECT_LT(difference(found, expected(c, q, k, v, bias)), 2e-5) << c.T << " queries, " << c.S << " keys";
  }
}

TEST_F(GpuAttention, AQueryHasTheBitsThatItHasAlone) {
  const Case c{40, 70, 1, 1, 8, 8, false, 0, 0, false};
  const Tensor q = numbers(TRANSOM_FLOAT32, {1, 40, 1, 8}), k = numbers(TRANSOM_FLOAT32, {1, 70, 1, 8}, -2, 2, 2),
               v = numbers(TRANSOM_FLOAT32, {1, 70, 1, 8}, -2, 2, 3);
  const Tensor all = run("attention", {q, k, v}, {{TRANSOM_FLOAT32, {1, 40, 1, 8}}}, attributes(c))[0];
  const Tensor last{TRANSOM_FLOAT32, {1, 1, 1, 8}, {q.values.end() - 8, q.values.end()}};
  const Tensor alone = run("attention", {last, k, v}, {{TRANSOM_FLOAT32, {1, 1, 1, 8}}}, attributes(c))[0];
  EXPECT_EQ(std::vector<double>(all.values.end() - 8, all.values.end()), alone.values);
}

}  // namespace
}  // namespace transom::backend_test

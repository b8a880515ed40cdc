// SPDX-License-Identifier: Apache-2.0
// The gradient of attention in tiles against float64 loops that keep every score, on the emulated devices of every kind
// of matrix unit: lengths that blocks do not divide, heads that share keys, masks, windows, caps, biases, wide heads.
// Dropout is tried by `transom certify`, whose reference draws as the devices do.
#include <cmath>

#include "gpu_device.h"

namespace transom::backend_test {
namespace {

class GpuAttentionGradient : public OnEachMatrixUnit {};

struct GradientCase {
  transom_dtype dtype;
  int64_t B, T, S, H, G, d, e;
  bool causal;
  int64_t window;
  double cap;
  bool biased;
};

struct LoopGradients {
  std::vector<double> q, k, v, bias;
};

LoopGradients gradients_in_loops(const GradientCase& c, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& bias, const Tensor& dy) {
  LoopGradients made{std::vector<double>(q.values.size()), std::vector<double>(k.values.size()),
                     std::vector<double>(v.values.size()), std::vector<double>(bias.values.size())};
  const auto of_bias = [&](int64_t b, int64_t h, int64_t t, int64_t s) {
    const Shape& n = bias.shape;
    return static_cast<size_t>(((b % n[0] * n[1] + h % n[1]) * n[2] + t % n[2]) * n[3] + s);
  };
  const auto at = [](int64_t b, int64_t i, int64_t length, int64_t head, int64_t heads, int64_t width) {
    return static_cast<size_t>(((b * length + i) * heads + head) * width);
  };
  const double scale = 0.3;
  for (int64_t b = 0; b < c.B; ++b)
    for (int64_t h = 0; h < c.H; ++h)
      for (int64_t t = 0; t < c.T; ++t) {
        const int64_t g = h / (c.H / c.G), last = t + c.S - c.T;
        const size_t of_q = at(b, t, c.T, h, c.H, c.d), of_dy = at(b, t, c.T, h, c.H, c.e);
        const auto count = static_cast<size_t>(c.S);
        std::vector<double> weights(count), dweights(count), slopes(count, 1);
        double most = -INFINITY, total = 0, shift = 0;
        for (int64_t s = 0; s < c.S; ++s) {
          const size_t of_k = at(b, s, c.S, g, c.G, c.d), of_v = at(b, s, c.S, g, c.G, c.e), j = static_cast<size_t>(s);
          for (int64_t i = 0; i < c.d; ++i)
            weights[j] += q.values[of_q + static_cast<size_t>(i)] * k.values[of_k + static_cast<size_t>(i)] * scale;
          for (int64_t i = 0; i < c.e; ++i)
            dweights[j] += dy.values[of_dy + static_cast<size_t>(i)] * v.values[of_v + static_cast<size_t>(i)];
          if (c.cap > 0) {
            const double share = std::tanh(weights[j] / c.cap);
            weights[j] = share * c.cap, slopes[j] = 1 - share * share;
          }
          if (c.biased) weights[j] += bias.values[of_bias(b, h, t, s)];
          if (c.causal && (s > last || (c.window > 0 && s <= last - c.window))) weights[j] = -3.4e38;
          most = std::max(most, weights[j]);
        }
        for (double& w : weights) w = std::exp(w - most), total += w;
        for (size_t j = 0; j < count; ++j) weights[j] /= total, shift += weights[j] * dweights[j];
        for (int64_t s = 0; s < c.S; ++s) {
          const size_t of_k = at(b, s, c.S, g, c.G, c.d), of_v = at(b, s, c.S, g, c.G, c.e), j = static_cast<size_t>(s);
          const double inner = weights[j] * (dweights[j] - shift) * slopes[j] * scale;
          for (size_t i = 0; i < static_cast<size_t>(c.d); ++i) {
            made.q[of_q + i] += inner * k.values[of_k + i];
            made.k[of_k + i] += inner * q.values[of_q + i];
          }
          if (c.biased) made.bias[of_bias(b, h, t, s)] += weights[j] * (dweights[j] - shift);
          for (size_t i = 0; i < static_cast<size_t>(c.e); ++i) made.v[of_v + i] += weights[j] * dy.values[of_dy + i];
        }
      }
  return made;
}

TEST_P(GpuAttentionGradient, OfAnyLengthsAndMasks) {
  constexpr transom_dtype kF32 = TRANSOM_FLOAT32, kBf16 = TRANSOM_BFLOAT16;
  for (const GradientCase& c : {GradientCase{kF32, 1, 1, 1, 1, 1, 1, 1, false, 0, 0, false},
                                GradientCase{kF32, 2, 17, 70, 4, 2, 8, 40, false, 0, 0, true},
                                GradientCase{kF32, 1, 70, 70, 2, 1, 80, 72, true, 0, 0, false},
                                GradientCase{kF32, 1, 66, 200, 2, 2, 8, 8, true, 20, 2, false},
                                GradientCase{kF32, 1, 40, 33, 1, 1, 8, 8, true, 0, 0, false},
                                GradientCase{kBf16, 1, 70, 130, 2, 1, 16, 16, true, 0, 0, true},
                                GradientCase{TRANSOM_FLOAT16, 1, 40, 65, 1, 1, 72, 24, false, 0, 0, false}}) {
    const Tensor q = numbers(c.dtype, {c.B, c.T, c.H, c.d}), k = numbers(c.dtype, {c.B, c.S, c.G, c.d}, -2, 2, 2),
                 v = numbers(c.dtype, {c.B, c.S, c.G, c.e}, -2, 2, 3),
                 dy = numbers(c.dtype, {c.B, c.T, c.H, c.e}, -1, 1, 5),
                 bias = numbers(kF32, {1, c.H, 1, c.S}, -2, 2, 4);
    std::vector<Tensor> inputs = {q, k, v};
    if (c.biased) inputs.push_back(bias);
    inputs.push_back(dy);
    const std::vector<std::pair<transom_dtype, Shape>> outputs = {
        {c.dtype, q.shape}, {c.dtype, k.shape}, {c.dtype, v.shape}};
    const std::vector<Attribute> attributes = {
        {"biased", c.biased ? 1 : 0}, {"causal", c.causal ? 1 : 0}, {"dropout", 0.0}, {"scale", 0.3},
        {"sliding_window", c.window}, {"soft_cap", c.cap}};
    const std::vector<Tensor> found = run("attention_gradient", inputs, outputs, attributes);
    const LoopGradients made = gradients_in_loops(c, q, k, v, bias, dy);
    // Weights and their gradients are rounded to 16 bits before they are multiplied.
    const double bound = c.dtype == kF32 ? 3e-5 : c.dtype == kBf16 ? 2e-2 : 3e-3;
    const std::string name = std::to_string(c.T) + " queries, " + std::to_string(c.S) + " keys";
    EXPECT_LT(difference(found[0], made.q), bound) << name;
    EXPECT_LT(difference(found[1], made.k), bound) << name;
    EXPECT_LT(difference(found[2], made.v), bound) << name;
    const std::vector<Tensor> again = run("attention_gradient", inputs, outputs, attributes);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(again[i].values, found[i].values) << name;
  }
}

class GpuLearnedBias : public GpuAttentionGradient {
 protected:
  // Of a bias for so many batches and heads: all of them, or one that they share.
  void expect_gradients(const GradientCase& c, int64_t batches, int64_t heads) {
    const Tensor q = numbers(c.dtype, {c.B, c.T, c.H, c.d}), k = numbers(c.dtype, {c.B, c.S, c.G, c.d}, -2, 2, 2),
                 v = numbers(c.dtype, {c.B, c.S, c.G, c.e}, -2, 2, 3),
                 dy = numbers(c.dtype, {c.B, c.T, c.H, c.e}, -1, 1, 5),
                 bias = numbers(TRANSOM_FLOAT32, {batches, heads, c.T, c.S}, -2, 2, 4);
    const auto gradients = [&] {
      return run("biased_attention_gradient", {q, k, v, bias, dy},
                 {{c.dtype, q.shape}, {c.dtype, k.shape}, {c.dtype, v.shape}, {TRANSOM_FLOAT32, bias.shape}},
                 {{"biased", 1},
                  {"causal", c.causal ? 1 : 0},
                  {"dropout", 0.0},
                  {"scale", 0.3},
                  {"sliding_window", 0},
                  {"soft_cap", c.cap}});
    };
    const std::vector<Tensor> found = gradients();
    EXPECT_NE(description_.find("dbias"), std::string::npos) << description_;
    EXPECT_EQ(gradients()[3].values, found[3].values);
    const LoopGradients made = gradients_in_loops(c, q, k, v, bias, dy);
    const double bound = c.dtype == TRANSOM_FLOAT32 ? 3e-5 : 2e-2;
    EXPECT_LT(difference(found[0], made.q), bound) << batches << " " << heads;
    EXPECT_LT(difference(found[2], made.v), bound) << batches << " " << heads;
    EXPECT_LT(difference(found[3], made.bias), bound) << batches << " " << heads;
  }
};

TEST_P(GpuLearnedBias, OfOneBlock) {
  expect_gradients({TRANSOM_FLOAT32, 1, 3, 5, 2, 1, 4, 4, false, 0, 0, true}, 1, 1);
}

TEST_P(GpuLearnedBias, OfBatchesAndHeadsThatShareItOrNot) {
  for (const auto& [dtype, batches, heads, causal] :
       {std::tuple<transom_dtype, int64_t, int64_t, bool>{TRANSOM_FLOAT32, 1, 4, false},
        {TRANSOM_FLOAT32, 3, 1, true},
        {TRANSOM_BFLOAT16, 1, 1, false},
        {TRANSOM_FLOAT32, 3, 4, false}})
    expect_gradients({dtype, 3, 70, 67, 4, 2, 8, 16, causal, 0, causal ? 2.0 : 0.0, true}, batches, heads);
}

INSTANTIATE_TEST_SUITE_P(Units, GpuLearnedBias, testing::ValuesIn(kMatrixUnitDevices), NameOfMatrixUnit());
INSTANTIATE_TEST_SUITE_P(Units, GpuAttentionGradient, testing::ValuesIn(kMatrixUnitDevices), NameOfMatrixUnit());

}  // namespace
}  // namespace transom::backend_test

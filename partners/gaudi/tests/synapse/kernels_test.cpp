// SPDX-License-Identifier: Apache-2.0
// Kernels of models (softmax, norms, convolutions, indexing, attention, losses), against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "synapse/harness.h"
#include "synapse/params.h"

namespace synapse_tests {
namespace {

using namespace synapse_emulator;
using Numbers = std::vector<double>;

void expect_near(const Value& found, const Numbers& expected, double tolerance, const std::string& what) {
  const double unit = found.type == syn_type_bf16 ? 1.0 / 256 : 0;
  const Numbers numbers = found.numbers();
  ASSERT_EQ(numbers.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(numbers[i], expected[i], tolerance * (1 + std::abs(expected[i])) + unit * std::abs(expected[i]))
        << what << " at " << i;
}

// A scalar function's gradient, by differences: sum(weights * f(x)).
Numbers slope(const std::function<Numbers(const Numbers&)>& f, Numbers x, const Numbers& weights) {
  Numbers result;
  for (double& value : x) {
    const double kept = value, step = 1e-5;
    double sums[2] = {};
    for (const int side : {0, 1}) {
      value = kept + (side ? step : -step);
      const Numbers y = f(x);
      for (size_t i = 0; i < y.size(); ++i) sums[side] += y[i] * weights[i];
    }
    value = kept;
    result.push_back((sums[1] - sums[0]) / (2 * step));
  }
  return result;
}

Numbers softmax_rows(const Numbers& x, size_t width, bool log) {
  Numbers y(x.size());
  for (size_t row = 0; row < x.size(); row += width) {
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += std::exp(x[row + i]);
    for (size_t i = 0; i < width; ++i) y[row + i] = log ? x[row + i] - std::log(sum) : std::exp(x[row + i]) / sum;
  }
  return y;
}

TEST(SynapseKernels, Softmax) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const SoftmaxParams first{0}, second{1};
    for (const synDataType type : {syn_type_single, syn_type_bf16}) {
      const std::string suffix = type == syn_type_bf16 ? "_bf16" : "_f32";
      const Value x = value({9, 4}, some(36), type), dy = value({9, 4}, some(36, -1, 1, 2), type);
      for (const bool log : {false, true}) {
        Value y = empty({9, 4}, type), dx = empty({9, 4}, type);
        ASSERT_EQ(card.node((log ? "logsoftmax_fwd" : "softmax_fwd") + suffix, {&x}, {&y}, &first, sizeof first), 0);
        const Numbers exact = softmax_rows(x.numbers(), 9, log);
        expect_near(y, exact, 1e-6, "softmax");
        const Value saved = value({9, 4}, exact, type);
        const int status = log ? card.node("logsoftmax_bwd_data" + suffix, {&dy, &saved}, {&dx}, &first, sizeof first)
                               : card.node("softmax_bwd" + suffix, {&saved, &dy}, {&dx}, &first, sizeof first);
        ASSERT_EQ(status, 0);
        const auto function = [&](const Numbers& input) { return softmax_rows(input, 9, log); };
        expect_near(dx, slope(function, x.numbers(), dy.numbers()), type == syn_type_bf16 ? 1e-2 : 1e-5,
                    "its gradient");
      }
    }
    const Value x = value({1, 5}, some(5));
    Value y = empty({1, 5});
    ASSERT_EQ(card.node("softmax_fwd_f32", {&x}, {&y}, &second, sizeof second), 0);
    expect_near(y, softmax_rows(x.numbers(), 5, false), 1e-6, "softmax over the second dim");
  }));
}

TEST(SynapseKernels, Norms) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const size_t n = 6, m = 5;
    const LayerNormParams params{true, 1e-3f};
    const Value x = value({n, m, 1, 1}, some(n * m)), weight = value({n}, some(n, 0.5, 1.5, 2)),
                bias = value({n}, some(n, -1, 1, 3));
    const Value dy = value({n, m, 1, 1}, some(n * m, -1, 1, 4));
    const auto norm = [&](const Numbers& input, const Numbers& w, const Numbers& b, bool center) {
      Numbers y(input.size());
      for (size_t row = 0; row < m; ++row) {
        double mean = 0, square = 0;
        for (size_t i = 0; center && i < n; ++i) mean += input[row * n + i] / n;
        for (size_t i = 0; i < n; ++i) square += std::pow(input[row * n + i] - mean, 2) / n;
        for (size_t i = 0; i < n; ++i)
          y[row * n + i] = (input[row * n + i] - mean) / std::sqrt(square + 1e-3) * w[i] + b[i];
      }
      return y;
    };
    const Numbers xs = x.numbers(), ws = weight.numbers(), bs = bias.numbers(), zeros(n, 0);
    Value y = empty({n, m, 1, 1}), mean = empty({1, m, 1, 1}), scale = empty({1, m, 1, 1});
    ASSERT_EQ(card.node("layer_norm_fwd_f32", {&x, &bias, &weight}, {&y, &mean, &scale}, &params, sizeof params), 0);
    expect_near(y, norm(xs, ws, bs, true), 1e-5, "layer norm");
    Value dx = empty({n, m, 1, 1}), dbias = empty({n}), dweight = empty({n});
    ASSERT_EQ(card.node("layer_norm_bwd_f32", {&x, &dy, &mean, &scale, &weight}, {&dx, &dbias, &dweight}, &params,
                        sizeof params),
              0);
    const Numbers dys = dy.numbers();
    expect_near(dx, slope([&](const Numbers& v) { return norm(v, ws, bs, true); }, xs, dys), 1e-4, "dx");
    expect_near(dweight, slope([&](const Numbers& v) { return norm(xs, v, bs, true); }, ws, dys), 1e-4, "dweight");
    expect_near(dbias, slope([&](const Numbers& v) { return norm(xs, ws, v, true); }, bs, dys), 1e-4, "dbias");
    ASSERT_NE(card.node("layer_norm_fwd_f32", {&x, &bias}, {&y, &mean, &scale}, &params, sizeof params), 0);
    const Value rows = value({n, m}, xs), drows = value({n, m}, dys);
    Value out = empty({n, m}), inverse = empty({1, m}), dout = empty({n, m});
    ASSERT_EQ(card.node("rms_norm_ex_fwd_f32", {&rows, &weight}, {&out, &inverse}, &params, sizeof params), 0);
    expect_near(out, norm(xs, ws, zeros, false), 1e-5, "rms norm");
    const RmsNormBackwardParams back = {};
    ASSERT_EQ(
        card.node("rms_norm_ex_bwd_f32", {&drows, &rows, &weight, &inverse}, {&dout, &dweight}, &back, sizeof back), 0);
    expect_near(dout, slope([&](const Numbers& v) { return norm(v, ws, zeros, false); }, xs, dys), 1e-4, "rms dx");
    expect_near(dweight, slope([&](const Numbers& v) { return norm(xs, v, zeros, false); }, ws, dys), 1e-4,
                "rms dweight");
  }));
}

TEST(SynapseKernels, Activations) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value x = value({40}, some(40, -4, 4)), dy = value({40}, some(40, -1, 1, 2));
    const Numbers xs = x.numbers(), dys = dy.numbers();
    const auto gelu = [](double v, bool approximate) {
      return approximate ? 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))
                         : 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    };
    for (const bool approximate : {false, true}) {
      const GeluParams params{approximate};
      const auto all = [&](const Numbers& input) {
        Numbers y;
        for (const double v : input) y.push_back(gelu(v, approximate));
        return y;
      };
      Value y = empty({40}), saved = empty({40}), dx = empty({40});
      ASSERT_EQ(card.node("gelu_fwd_f32", {&x}, {&y, &saved}, &params, sizeof params), 0);
      ASSERT_NE(card.node("gelu_fwd_f32", {&x}, {&dx}, &params, sizeof params), 0);  // both outputs
      expect_near(y, all(xs), 1e-6, "gelu");
      ASSERT_EQ(card.node("gelu_bwd_f32", {&dy, &x, &saved}, {&dx}, &params, sizeof params), 0);
      expect_near(dx, slope(all, xs, dys), 1e-5, "gelu gradient");
    }
    Value dx = empty({40});
    ASSERT_EQ(card.node("silu_bwd_f32", {&dy, &x}, {&dx}), 0);
    const auto silu = [](const Numbers& input) {
      Numbers y;
      for (const double v : input) y.push_back(v / (1 + std::exp(-v)));
      return y;
    };
    expect_near(dx, slope(silu, xs, dys), 1e-5, "silu gradient");
  }));
}

struct Shape2d {
  int64_t n, c, h, w, k, r, s, groups, stride, pad, dilation;
  int64_t out(int64_t size, int64_t kernel) const {
    return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

Numbers convolve(const Shape2d& z, const Numbers& x, const Numbers& w) {
  const int64_t p = z.out(z.h, z.r), q = z.out(z.w, z.s), in = z.c / z.groups, out = z.k / z.groups;
  Numbers y;
  for (int64_t n = 0; n < z.n; ++n)
    for (int64_t k = 0; k < z.k; ++k)
      for (int64_t oy = 0; oy < p; ++oy)
        for (int64_t ox = 0; ox < q; ++ox) {
          double sum = 0;
          for (int64_t c = 0; c < in; ++c)
            for (int64_t r = 0; r < z.r; ++r)
              for (int64_t s = 0; s < z.s; ++s) {
                const int64_t iy = oy * z.stride - z.pad + r * z.dilation, ix = ox * z.stride - z.pad + s * z.dilation;
                if (iy < 0 || iy >= z.h || ix < 0 || ix >= z.w) continue;
                sum += x[static_cast<size_t>(((n * z.c + k / out * in + c) * z.h + iy) * z.w + ix)] *
                       w[static_cast<size_t>(((k * in + c) * z.r + r) * z.s + s)];
              }
          y.push_back(sum);
        }
  return y;
}

TEST(SynapseKernels, Convolutions) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    for (const Shape2d& z : {Shape2d{2, 3, 5, 6, 4, 3, 2, 1, 1, 1, 1}, Shape2d{1, 4, 7, 7, 2, 3, 3, 2, 2, 1, 1},
                             Shape2d{1, 2, 8, 9, 2, 2, 3, 1, 1, 0, 2}}) {
      const auto u = [](int64_t size) { return static_cast<uint64_t>(size); };
      const int64_t p = z.out(z.h, z.r), q = z.out(z.w, z.s), in = z.c / z.groups;
      ConvolutionParams params = {};
      params.kW = static_cast<uint32_t>(z.s), params.kH = static_cast<uint32_t>(z.r);
      params.dW = params.dH = static_cast<uint32_t>(z.stride);
      params.padL = params.padR = params.padT = params.padB = static_cast<int32_t>(z.pad);
      params.dilW = params.dilH = static_cast<uint32_t>(z.dilation);
      params.activation.numChannels = 1;
      params.nGroups = static_cast<uint32_t>(z.groups);
      const Value x = value({u(z.w), u(z.h), u(z.c), u(z.n)}, some(u(z.n * z.c * z.h * z.w)));
      const Value w = value({u(z.s), u(z.r), u(in), u(z.k)}, some(u(z.k * in * z.r * z.s), -1, 1, 2));
      Value y = empty({u(q), u(p), u(z.k), u(z.n)}), dx = empty(x.sizes), dw = empty(w.sizes);
      ASSERT_EQ(card.node("spatial_convolution", {&x, &w}, {&y}, &params, sizeof params), 0);
      const Numbers xs = x.numbers(), ws = w.numbers();
      expect_near(y, convolve(z, xs, ws), 1e-5, "convolution");
      const Value dy = value(y.sizes, some(y.elements(), -1, 1, 3));
      ASSERT_EQ(card.node("dedx", {&dy, &w}, {&dx}, &params, sizeof params), 0);
      expect_near(dx, slope([&](const Numbers& v) { return convolve(z, v, ws); }, xs, dy.numbers()), 1e-4, "dedx");
      ASSERT_EQ(card.node("dedw", {&dy, &x}, {&dw}, &params, sizeof params), 0);
      expect_near(dw, slope([&](const Numbers& v) { return convolve(z, xs, v); }, ws, dy.numbers()), 1e-4, "dedw");
    }
  }));
}

TEST(SynapseKernels, Indexing) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value table = value({2, 4}, {0, 1, 10, 11, 20, 21, 30, 31}), places = value({3}, {2, 0, 2}, syn_type_int32);
    Value rows = empty({2, 3});
    ASSERT_EQ(card.node("embedding_pt_fwd_f32", {&table, &places}, {&rows}), 0);
    EXPECT_EQ(rows.numbers(), (Numbers{20, 21, 0, 1, 20, 21}));
    Value gradient = empty({2, 4});
    const EmbeddingBackwardParams back{4, -1, false};
    ASSERT_EQ(card.node("embedding_dense_pt_bwd_f32", {&rows, &places}, {&gradient}, &back, sizeof back), 0);
    EXPECT_EQ(gradient.numbers(), (Numbers{0, 1, 0, 0, 40, 42, 0, 0}));
    const GatherParams second{1}, first{0};
    ASSERT_EQ(card.node("gather_fwd_f32", {&table, &places}, {&rows}, &second, sizeof second), 0);
    EXPECT_EQ(rows.numbers(), (Numbers{20, 21, 0, 1, 20, 21}));
    const Value columns = value({1}, {1}, syn_type_int32);
    Value column = empty({1, 4});
    ASSERT_EQ(card.node("gather_fwd_f32", {&table, &columns}, {&column}, &first, sizeof first), 0);
    EXPECT_EQ(column.numbers(), (Numbers{1, 11, 21, 31}));
    const Value elements = value({2, 2}, {3, 0, 3, 1}, syn_type_int32), updates = value({2, 2}, {1, 2, 3, 4});
    Value taken = empty({2, 2}), added = empty({2, 4});
    ASSERT_EQ(card.node("gather_elements_fwd_f32", {&table, &elements}, {&taken}, &second, sizeof second), 0);
    EXPECT_EQ(taken.numbers(), (Numbers{30, 1, 30, 11}));
    ASSERT_EQ(
        card.node("unsorted_scatter_add_fwd_f32", {&table, &elements, &updates}, {&added}, &second, sizeof second), 0);
    EXPECT_EQ(added.numbers(), (Numbers{0, 3, 10, 15, 20, 21, 34, 31}));
    ASSERT_EQ(card.node("scatter_fwd_f32", {&table, &elements, &updates}, {&added}, &second, sizeof second), 0);
    EXPECT_EQ(added.numbers(), (Numbers{0, 2, 10, 4, 20, 21, 3, 31}));
  }));
}

TEST(SynapseKernels, Ordering) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value x = value({4, 2}, {1, 3, 2, 3, -1, 0, 5, 4});
    Value sums = empty({4, 2}), values = empty({2, 2}), places = empty({2, 2}, syn_type_int32);
    const CumulativeParams plain{0, 0, 0}, other{0, 1, 1};
    ASSERT_EQ(card.node("cumsum_fwd_f32", {&x}, {&sums}, &plain, sizeof plain), 0);
    EXPECT_EQ(sums.numbers(), (Numbers{1, 4, 6, 9, -1, -1, 4, 8}));
    ASSERT_EQ(card.node("cumsum_fwd_f32", {&x}, {&sums}, &other, sizeof other), 0);
    EXPECT_EQ(sums.numbers(), (Numbers{8, 5, 3, 0, 9, 9, 4, 0}));
    TopkParams params = {};
    params.k = 2;
    ASSERT_EQ(card.node("topk", {&x}, {&values, &places}, &params, sizeof params), 0);
    EXPECT_EQ(values.numbers(), (Numbers{3, 3, 5, 4}));
    EXPECT_EQ(places.numbers(), (Numbers{1, 3, 2, 3}));
    params.bottom = true;
    ASSERT_EQ(card.node("topk", {&x}, {&values, &places}, &params, sizeof params), 0);
    EXPECT_EQ(values.numbers(), (Numbers{1, 2, -1, 0}));
  }));
}

TEST(SynapseKernels, Attention) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const size_t d = 4, s = 5, h = 2;
    const Value q = value({d, s, h, 1}, some(d * s * h)), k = value({d, s, 1, 1}, some(d * s, -2, 2, 2)),
                v = value({d, s, 1, 1}, some(d * s, -2, 2, 3));
    const auto attend = [&](const Numbers& qs, const Numbers& ks, const Numbers& vs) {
      Numbers out(d * s * h, 0);
      for (size_t row = 0; row < s * h; ++row) {
        Numbers p;
        double sum = 0;
        for (size_t key = 0; key <= row % s; ++key) {
          double dot = 0;
          for (size_t i = 0; i < d; ++i) dot += qs[row * d + i] * ks[key * d + i];
          p.push_back(std::exp(dot * 0.5));
          sum += p.back();
        }
        for (size_t key = 0; key < p.size(); ++key)
          for (size_t i = 0; i < d; ++i) out[row * d + i] += p[key] / sum * vs[key * d + i];
      }
      return out;
    };
    AttentionParams params = {};
    params.scale = 0.5f;
    params.is_causal = true;
    Value out = empty(q.sizes), largest = empty({1, s, h, 1}), inverse = empty({1, s, h, 1});
    ASSERT_EQ(card.node("sdpa_recomp_fwd_f32", {&q, &k, &v}, {&out, &largest, &inverse}, &params, sizeof params), 0);
    const Numbers qs = q.numbers(), ks = k.numbers(), vs = v.numbers();
    expect_near(out, attend(qs, ks, vs), 1e-5, "attention");
    const Value d_out = value(q.sizes, some(q.elements(), -1, 1, 4));
    Value dq = empty(q.sizes), dk = empty(k.sizes), dv = empty(v.sizes);
    ASSERT_EQ(card.node("sdpa_recomp_bwd_f32", {&d_out, &q, &k, &v, nullptr, &largest, &inverse}, {&dq, &dk, &dv},
                        &params, sizeof params),
              0);
    const Numbers weights = d_out.numbers();
    expect_near(dq, slope([&](const Numbers& x) { return attend(x, ks, vs); }, qs, weights), 1e-4, "dQ");
    expect_near(dk, slope([&](const Numbers& x) { return attend(qs, x, vs); }, ks, weights), 1e-4, "dK");
    expect_near(dv, slope([&](const Numbers& x) { return attend(qs, ks, x); }, vs, weights), 1e-4, "dV");
    // The rotation of the halves, and back.
    Numbers sin, cos;
    for (size_t place = 0; place < s; ++place)
      for (size_t i = 0; i < d; ++i) {
        sin.push_back(std::sin(0.3 * static_cast<double>(place * (i % 2 + 1))));
        cos.push_back(std::cos(0.3 * static_cast<double>(place * (i % 2 + 1))));
      }
    const Value sine = value({d, s}, sin), cosine = value({d, s}, cos);
    Value turned = empty(q.sizes), back = empty(q.sizes);
    const RotaryParams halves{0, 0};
    ASSERT_EQ(card.node("rotary_pos_embedding_fwd_f32", {&q, &sine, &cosine}, {&turned}, &halves, sizeof halves), 0);
    EXPECT_NEAR(turned.numbers()[d], qs[d] * cos[d] - qs[d + 2] * sin[d], 1e-5);
    ASSERT_EQ(card.node("rotary_pos_embedding_bwd_f32", {&turned, &sine, &cosine}, {&back}, &halves, sizeof halves), 0);
    expect_near(back, qs, 1e-5, "rotation and back");
  }));
}

TEST(SynapseKernels, LossesAndPooling) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value x = value({3, 2}, {-1, -2, -3, -4, -5, -6}), labels = value({2}, {2, -100}, syn_type_int32);
    const NegativeLogLikelihoodParams mean{0, -100};
    Value loss = empty({1}), dx = empty({3, 2});
    ASSERT_EQ(card.node("nll_loss_fwd_f32", {&x, &labels}, {&loss}, &mean, sizeof mean), 0);
    EXPECT_EQ(loss.numbers(), (Numbers{3}));
    const Value one = value({1}, {2});
    ASSERT_EQ(card.node("nll_loss_bwd_f32", {&one, &labels}, {&dx}, &mean, sizeof mean), 0);
    EXPECT_EQ(dx.numbers(), (Numbers{0, 0, -2, 0, 0, 0}));
    const Value image = value({3, 3, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    AveragePoolingParams pool = {};
    pool.window = {0, 1, 0, 1, 2, 2, 2, 2, 1, 1, 0};
    Value y = empty({2, 2, 1, 1});
    ASSERT_EQ(card.node("avg_pool_2d_fwd_f32", {&image}, {&y}, &pool, sizeof pool), 0);
    EXPECT_EQ(y.numbers(), (Numbers{3, 4.5, 7.5, 9}));
    pool.include_padding = 1;
    ASSERT_EQ(card.node("avg_pool_2d_fwd_f32", {&image}, {&y}, &pool, sizeof pool), 0);
    EXPECT_EQ(y.numbers(), (Numbers{3, 2.25, 3.75, 2.25}));
    ASSERT_EQ(card.node("maxpool_2d_fwd_f32", {&image}, {&y}, &pool.window, sizeof pool.window), 0);
    EXPECT_EQ(y.numbers(), (Numbers{5, 6, 8, 9}));
  }));
}

}  // namespace
}  // namespace synapse_tests

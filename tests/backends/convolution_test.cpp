// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

struct ConvolutionCase {
  int64_t batch, channels, results, groups;
  Shape in, window, strides, low, high, dilations;
};

const ConvolutionCase kConvolutionCases[] = {
    {2, 3, 8, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 3, 20, 1, {16, 16}, {4, 4}, {4, 4}, {0, 0}, {0, 0}, {1, 1}},    // patches
    {3, 32, 64, 1, {14, 10}, {3, 3}, {2, 2}, {1, 0}, {1, 2}, {1, 1}},   // padding that differs between the ends
    {2, 6, 4, 2, {7, 7}, {3, 2}, {1, 2}, {2, 0}, {0, 1}, {2, 1}},       // groups and dilation
    {2, 8, 8, 8, {13}, {5}, {1}, {2}, {2}, {1}},                        // depthwise, one axis
    {2, 48, 48, 48, {14, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},  // depthwise: whole tiles, and one that overlaps
    {1, 20, 20, 20, {5, 4}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}},    // padding at both sides of a tile
    {2, 16, 16, 16, {3, 2}, {3, 5}, {1, 1}, {3, 1}, {3, 3}, {1, 1}},    // results that see padding alone, single ones
    {1, 33, 33, 33, {9, 10}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},   // dilation
    {1, 24, 24, 24, {40}, {9}, {1}, {4}, {4}, {1}},                     // one axis, a window of any length
    {2, 17, 17, 17, {5, 6}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},    // one place
    {1, 32, 32, 32, {17, 16}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},  // strides
    {1, 64, 64, 4, {50}, {16}, {1}, {8}, {7}, {1}},                     // as the position embedding of speech models
    {2, 1, 5, 1, {100}, {10}, {5}, {0}, {0}, {1}},
    {1, 2, 3, 1, {5, 6, 4}, {2, 3, 2}, {1, 1, 2}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}},
    {1, 1, 1, 1, {1}, {1}, {1}, {0}, {0}, {1}},
    {1, 48, 32, 1, {13, 11}, {3, 3}, {1, 1}, {0, 2}, {1, 0}, {1, 1}},  // tiles of 2x2, some over the edge
    {3, 32, 64, 1, {9, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},   // bands of tiles from image to image
    {1, 32, 32, 1, {2, 40}, {3, 3}, {1, 1}, {4, 1}, {4, 1}, {1, 1}},   // tiles of padding alone
    {0, 2, 3, 1, {5}, {3}, {1}, {1}, {1}, {1}},
};

int64_t product(const Shape& shape) {
  int64_t result = 1;
  for (int64_t extent : shape) result *= extent;
  return result;
}

// Calls add(x index, w index, y index) for every product of the convolution.
template <typename Add>
void for_each_product(const ConvolutionCase& c, const Shape& out, Add&& add) {
  const int64_t each = c.channels / c.groups, in_size = product(c.in), out_size = product(out),
                window_size = product(c.window);
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.results; ++o)
      for (int64_t ch = 0; ch < each; ++ch)
        for (int64_t p = 0; p < out_size; ++p)
          for (int64_t k = 0; k < window_size; ++k) {
            int64_t at = 0, stride = 1, rest_p = p, rest_k = k;
            bool inside = true;
            for (size_t i = c.in.size(); i-- > 0;) {
              const int64_t q = rest_p % out[i] * c.strides[i] + rest_k % c.window[i] * c.dilations[i] - c.low[i];
              inside = inside && q >= 0 && q < c.in[i];
              at += q * stride;
              stride *= c.in[i];
              rest_p /= out[i];
              rest_k /= c.window[i];
            }
            const int64_t x_channel = o / (c.results / c.groups) * each + ch;
            if (inside)
              add(static_cast<size_t>((n * c.channels + x_channel) * in_size + at),
                  static_cast<size_t>((o * each + ch) * window_size + k),
                  static_cast<size_t>((n * c.results + o) * out_size + p));
          }
}

TEST(Convolution, ForwardAndGradients) {
  for (transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_FLOAT64, TRANSOM_BFLOAT16, TRANSOM_FLOAT16, TRANSOM_INT32}) {
    for (const ConvolutionCase& c : kConvolutionCases) {
      Shape out, x_shape = {c.batch, c.channels}, w_shape = {c.results, c.channels / c.groups},
                 y_shape = {c.batch, c.results};
      for (size_t i = 0; i < c.in.size(); ++i)
        out.push_back((c.in[i] + c.low[i] + c.high[i] - (c.window[i] - 1) * c.dilations[i] - 1) / c.strides[i] + 1);
      x_shape.insert(x_shape.end(), c.in.begin(), c.in.end());
      w_shape.insert(w_shape.end(), c.window.begin(), c.window.end());
      y_shape.insert(y_shape.end(), out.begin(), out.end());
      const double bound = dtype == TRANSOM_INT32 ? 9 : 1;
      const Tensor x = numbers(dtype, x_shape, -bound, bound, 1), w = numbers(dtype, w_shape, -bound, bound, 2),
                   dy = numbers(dtype, y_shape, -bound, bound, 3);
      std::vector<double> y(dy.values.size()), dx(x.values.size()), dw(w.values.size());
      for_each_product(c, out, [&](size_t i, size_t j, size_t k) {
        y[k] += x.values[i] * w.values[j];
        dx[i] += dy.values[k] * w.values[j];
        dw[j] += x.values[i] * dy.values[k];
      });
      std::vector<Attribute> attributes = {
          {"strides", c.strides}, {"low", c.low}, {"high", c.high}, {"dilations", c.dilations}, {"groups", c.groups}};
      const double allowed = 20 * tolerance(dtype);
      const auto number = &c - kConvolutionCases;
      EXPECT_LE(difference(evaluate("convolution", {x, w}, dtype, y_shape, attributes), y, 3), allowed)
          << dtype << " case " << number;
      Graph frozen;
      frozen.output(frozen.node("convolution", {frozen.input(x), frozen.input(w, true)}, dtype, y_shape, attributes));
      Program program(Plugin::cpu(), frozen);
      for (int run = 0; run < 2; ++run)  // the second takes the packed weights
        EXPECT_LE(difference(program.run({x, w})[0], y, 3), allowed) << dtype << " frozen, case " << number;
      attributes.emplace_back("shape", x_shape);
      EXPECT_LE(difference(evaluate("convolution_input_gradient", {dy, w}, dtype, x_shape, attributes), dx, 3), allowed)
          << dtype << " case " << number;
      attributes.back() = {"shape", w_shape};
      EXPECT_LE(difference(evaluate("convolution_weight_gradient", {x, dy}, dtype, w_shape, attributes), dw, 3),
                allowed)
          << dtype << " case " << number;
    }
  }
}

TEST(Convolution, RefusesExtentsThatDoNotBelongTogether) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {1, 3, 8}), w = numbers(TRANSOM_FLOAT32, {4, 2, 3});
  EXPECT_NE(failure_of(
                "convolution", {x, w}, TRANSOM_FLOAT32, {1, 4, 6},
                {{"strides", Shape{1}}, {"low", Shape{0}}, {"high", Shape{0}}, {"dilations", Shape{1}}, {"groups", 1}}),
            "");
}

}  // namespace
}  // namespace transom::backend_test

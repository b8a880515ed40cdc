// SPDX-License-Identifier: Apache-2.0
// Composites over the last axis and reductions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

const double kNoScore = std::numeric_limits<double>::infinity();
const std::vector<transom_dtype> kRowTypes = {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16};

// Calls body(row begin, width) for each row.
template <typename Body>
void rows(const Tensor& x, Body&& body) {
  const auto width = static_cast<size_t>(x.shape.back());
  for (size_t begin = 0; width && begin < x.values.size(); begin += width) body(begin, width);
}

std::vector<double> softmax(const Tensor& x, bool logarithm) {
  std::vector<double> y(x.values.size());
  rows(x, [&](size_t begin, size_t n) {
    double largest = -kNoScore, total = 0;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, x.values[begin + i]);
    for (size_t i = 0; i < n; ++i) total += std::exp(x.values[begin + i] - largest);
    for (size_t i = 0; i < n; ++i) {
      const double shifted = x.values[begin + i] - largest;
      y[begin + i] = logarithm ? shifted - std::log(total) : std::exp(shifted) / total;
    }
  });
  return y;
}

TEST(Rows, SoftmaxAndItsGradients) {
  for (transom_dtype dtype : kRowTypes) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{0, 5}, Shape{4, 0}, Shape{2, 3, 513}, Shape{700, 33}}) {
      const Tensor x = numbers(dtype, shape, -6, 6), dy = numbers(dtype, shape, -1, 1, 7);
      const double allowed = 4 * tolerance(dtype);
      EXPECT_LE(difference(evaluate("softmax", {x}, dtype, shape), softmax(x, false), 0.1), allowed);
      EXPECT_LE(difference(evaluate("log_softmax", {x}, dtype, shape), softmax(x, true), 0.5), allowed);
      const Tensor y = evaluate("softmax", {x}, dtype, shape), z = evaluate("log_softmax", {x}, dtype, shape);
      std::vector<double> expected(x.values.size()), log_expected(x.values.size());
      rows(x, [&](size_t begin, size_t n) {
        double projected = 0, total = 0;
        for (size_t i = begin; i < begin + n; ++i) projected += y.values[i] * dy.values[i], total += dy.values[i];
        for (size_t i = begin; i < begin + n; ++i) {
          expected[i] = y.values[i] * (dy.values[i] - projected);
          log_expected[i] = dy.values[i] - std::exp(z.values[i]) * total;
        }
      });
      EXPECT_LE(difference(evaluate("softmax_gradient", {y, dy}, dtype, shape), expected, 0.1), allowed);
      EXPECT_LE(difference(evaluate("log_softmax_gradient", {z, dy}, dtype, shape), log_expected, 0.1), allowed);
    }
  }
}

TEST(Rows, SoftmaxOfMaskedAndLargeValues) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {2, 4}, {-kNoScore, 0, -kNoScore, 0, 3e38, -3e38, 3e38, 0});
  EXPECT_EQ(evaluate("softmax", {x}, TRANSOM_FLOAT32, {2, 4}).values,
            (std::vector<double>{0, 0.5, 0, 0.5, 0.5, 0, 0.5, 0}));
}

// Widths on both sides of whole registers, of every level.
TEST(Rows, SoftmaxOfEveryWidth) {
  for (int64_t width = 1; width < 70; ++width) {
    Tensor x = numbers(TRANSOM_FLOAT32, {3, width}, -20, 20, static_cast<uint64_t>(width));
    x.values[0] = -kNoScore;
    x.values.back() = 30;
    const Tensor y = evaluate("softmax", {x}, TRANSOM_FLOAT32, {3, width});
    if (width > 1) {
      EXPECT_EQ(y.values[0], 0) << width;
      EXPECT_LE(difference(y, softmax(x, false), 0.1), 4 * tolerance(TRANSOM_FLOAT32)) << width;
    }
    x.values[static_cast<size_t>(2 * width)] = std::numeric_limits<double>::quiet_NaN();  // of the last row
    const Tensor unknown = evaluate("softmax", {x}, TRANSOM_FLOAT32, {3, width});
    for (int64_t i = 0; i < width; ++i) {
      EXPECT_TRUE(std::isnan(unknown.values[static_cast<size_t>(2 * width + i)])) << width;
      EXPECT_FALSE(std::isnan(unknown.values[static_cast<size_t>(width + i)])) << width;
    }
  }
}

// What is too small for a normal number is still there, whole registers of it and the rest of a row.
TEST(Rows, SoftmaxKeepsSubnormalNumbers) {
  constexpr int64_t kWidth = 37;
  Tensor x = numbers(TRANSOM_FLOAT32, {1, kWidth}, 0, 1, 1);
  x.values[0] = 0;
  for (int64_t i = 1; i < kWidth; ++i) x.values[static_cast<size_t>(i)] = -85.0 - static_cast<double>(i % 19);
  const Tensor y = evaluate("softmax", {x}, TRANSOM_FLOAT32, {1, kWidth});
  for (size_t i = 1; i < y.values.size(); ++i)
    EXPECT_NEAR(y.values[i], std::exp(x.values[i]), 0x1p-149 + 1e-6 * std::exp(x.values[i])) << x.values[i];
  x.values[1] = -104.5;
  EXPECT_EQ(evaluate("softmax", {x}, TRANSOM_FLOAT32, {1, kWidth}).values[1], 0);
}

TEST(Rows, LayerNormAndItsGradient) {
  for (transom_dtype dtype : kRowTypes) {
    for (const Shape& shape : {Shape{1, 1}, Shape{5, 7}, Shape{0, 5}, Shape{2, 3, 513}, Shape{1100, 32}}) {
      const Tensor x = numbers(dtype, shape, 1, 3), dy = numbers(dtype, shape, -1, 1, 7);
      const Shape wide = {shape.back()};
      const Tensor scale = numbers(dtype, wide, 0.5, 1.5, 2), bias = numbers(dtype, wide, -1, 1, 3);
      const double epsilon = 1e-5;
      std::vector<double> y(x.values.size()), dx(x.values.size()), dscale(scale.values.size()),
          dbias(scale.values.size());
      rows(x, [&](size_t begin, size_t n) {
        double mean = 0, variance = 0, sum = 0, projected = 0;
        for (size_t i = 0; i < n; ++i) mean += x.values[begin + i] / static_cast<double>(n);
        for (size_t i = 0; i < n; ++i) variance += std::pow(x.values[begin + i] - mean, 2) / static_cast<double>(n);
        const double inverse = 1 / std::sqrt(variance + epsilon);
        for (size_t i = 0; i < n; ++i) {
          const double normal = (x.values[begin + i] - mean) * inverse, g = dy.values[begin + i] * scale.values[i];
          y[begin + i] = normal * scale.values[i] + bias.values[i];
          sum += g / static_cast<double>(n);
          projected += g * normal / static_cast<double>(n);
          dscale[i] += dy.values[begin + i] * normal;
          dbias[i] += dy.values[begin + i];
        }
        for (size_t i = 0; i < n; ++i) {
          const double normal = (x.values[begin + i] - mean) * inverse;
          dx[begin + i] = (dy.values[begin + i] * scale.values[i] - sum - normal * projected) * inverse;
        }
      });
      const double allowed = 20 * tolerance(dtype);
      EXPECT_LE(difference(evaluate("layer_norm", {x, scale, bias}, dtype, shape, {{"epsilon", epsilon}}), y), allowed);
      const auto gradients = evaluate("layer_norm_gradient", {x, scale, dy},
                                      {{dtype, shape}, {dtype, wide}, {dtype, wide}}, {{"epsilon", epsilon}});
      EXPECT_LE(difference(gradients[0], dx), allowed);
      EXPECT_LE(difference(gradients[1], dscale, 10), allowed);
      EXPECT_LE(difference(gradients[2], dbias, 10), allowed);
    }
  }
}

std::vector<double> reduce(const Tensor& x, const Shape& axes, const std::string& op) {
  const size_t rank = x.shape.size();
  std::vector<bool> reduced(rank);
  for (int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
  int64_t outputs = 1;
  for (size_t axis = 0; axis < rank; ++axis)
    if (!reduced[axis]) outputs *= x.shape[axis];
  std::vector<double> y(static_cast<size_t>(outputs), op == "reduce_sum"   ? 0
                                                      : op == "reduce_max" ? -kNoScore
                                                                           : kNoScore);
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t axis = rank; axis-- > 0; rest /= x.shape[axis]) {
      if (reduced[axis]) continue;
      at += rest % x.shape[axis] * stride;
      stride *= x.shape[axis];
    }
    double& target = y[static_cast<size_t>(at)];
    const double value = x.values[static_cast<size_t>(i)];
    target = op == "reduce_sum"   ? target + value
             : op == "reduce_max" ? std::max(target, value)
                                  : std::min(target, value);
  }
  return y;
}

TEST(Reductions, AnyAxesOfAllTypes) {
  const std::pair<Shape, Shape> cases[] = {{{7}, {0}},          {{3, 5}, {0}},          {{3, 5}, {1}},
                                           {{3, 5}, {0, 1}},    {{3, 5}, {}},           {{4, 3, 5}, {1}},
                                           {{4, 3, 5}, {0, 2}}, {{2, 3, 4, 5}, {1, 3}}, {{2, 3, 4, 5}, {0, 2}},
                                           {{1, 5, 1}, {0, 2}}, {{0, 5}, {0}},          {{5, 0}, {1}},
                                           {{5, 0}, {0}},       {{0, 3, 5}, {0, 1}},    {{7, 30, 5}, {0, 1}},
                                           {{3, 20011}, {0}},   {{40000, 3}, {0}},      {{}, {}},
                                           {{1500, 1030}, {0}}, {{1030, 700}, {1}},     {{300001}, {0}},
                                           {{20, 3000, 3}, {1}}};
  for (transom_dtype dtype :
       {TRANSOM_FLOAT32, TRANSOM_FLOAT64, TRANSOM_BFLOAT16, TRANSOM_FLOAT16, TRANSOM_INT32, TRANSOM_INT64}) {
    for (const auto& [shape, axes] : cases) {
      const bool integer = dtype < TRANSOM_FLOAT16;
      const Tensor x = numbers(dtype, shape, integer ? -9 : -1, integer ? 9 : 1);
      Shape out;
      for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis)
        if (std::find(axes.begin(), axes.end(), axis) == axes.end()) out.push_back(shape[static_cast<size_t>(axis)]);
      for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) {
        if (integer && x.count() == 0) continue;
        const Tensor y = evaluate(op, {x}, dtype, out, {{"axes", axes}});
        const double scale = 1 + std::sqrt(static_cast<double>(x.count()));
        EXPECT_LE(difference(y, reduce(x, axes, op), scale), 2 * tolerance(dtype))
            << op << " " << dtype << " rank " << shape.size();
      }
    }
  }
}

// Each of the sums is larger than its next number by far.
TEST(Reductions, SumsOfManyRowsLoseNoBitsToTheirSize) {
  for (const Shape& shape : {Shape{1000003, 2}, Shape{20011, 67}}) {
    const Tensor x = tensor(TRANSOM_FLOAT32, shape,
                            std::vector<double>(static_cast<size_t>(shape[0] * shape[1]), static_cast<double>(0.1f)));
    const Tensor y = evaluate("reduce_sum", {x}, TRANSOM_FLOAT32, {shape[1]}, {{"axes", Shape{0}}});
    const double expected = static_cast<double>(0.1f) * static_cast<double>(shape[0]);
    for (const double sum : y.values) EXPECT_NEAR(sum / expected, 1, 1e-5);
  }
}

TEST(Reductions, OfNothingIntegersGiveTheirLimits) {
  const Tensor x = tensor(TRANSOM_INT32, {0}, {});
  EXPECT_EQ(evaluate("reduce_max", {x}, TRANSOM_INT32, {}, {{"axes", Shape{0}}}).values[0],
            std::numeric_limits<int32_t>::lowest());
  EXPECT_EQ(evaluate("reduce_min", {x}, TRANSOM_INT32, {}, {{"axes", Shape{0}}}).values[0],
            std::numeric_limits<int32_t>::max());
}

TEST(Reductions, ExtremesHandOnNaN) {
  Tensor x = numbers(TRANSOM_FLOAT32, {100});
  x.values[60] = std::nan("");
  EXPECT_TRUE(std::isnan(evaluate("reduce_max", {x}, TRANSOM_FLOAT32, {}, {{"axes", Shape{0}}}).values[0]));
  x.shape = {10, 10};
  const Tensor y = evaluate("reduce_min", {x}, TRANSOM_FLOAT32, {10}, {{"axes", Shape{0}}});
  EXPECT_TRUE(std::isnan(y.values[0]));
  EXPECT_FALSE(std::isnan(y.values[1]));
}

}  // namespace
}  // namespace transom::backend_test

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/elementwise/quantization.h"
#include "support/test_names.h"
#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/tensor.h"

namespace transom {
namespace {

Tensor sine(const Shape& shape, double phase) {
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i * i % 1009)));
  return Tensor::from(values, shape);
}

std::vector<double> wide(const Tensor& x) { return cast(x, DType::kFloat64).to_vector<double>(); }

// The root of the mean square of the difference over that of the expected values.
double difference(const std::vector<double>& found, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

struct RoundedCase {
  int64_t rows, depth, outputs;
  bool transposed;
};
class QuantizedProducts : public testing::TestWithParam<RoundedCase> {};

// f64 goes the way of the primitives: a few values that lie between two steps may be rounded the other way there.
TEST_P(QuantizedProducts, AreNearToThoseOfThePrimitivesAndToTheExact) {
  const auto [rows, depth, outputs, transposed] = GetParam();
  const Tensor x = sine({rows, depth}, 1), bias = sine({outputs}, 3);
  const Tensor w = sine(transposed ? Shape{depth, outputs} : Shape{outputs, depth}, 2);
  const auto as = [&, &transposed = transposed](DType dtype) {
    return wide(quantized_linear(cast(x, dtype), cast(w, dtype), cast(bias, dtype), {}, transposed));
  };
  const auto exact = wide(linear(x, transposed ? permute(w, {1, 0}) : w, bias));
  const auto primitives = as(DType::kFloat64), found = as(DType::kFloat32);
  EXPECT_LT(difference(found, primitives), 2e-3);
  EXPECT_LT(difference(found, exact), 0.03);
  EXPECT_GT(difference(found, exact), 0);  // 8 bits are not 24
  EXPECT_LT(difference(as(DType::kBFloat16), exact), 0.04);
}

INSTANTIATE_TEST_SUITE_P(Cases, QuantizedProducts,
                         testing::Values(RoundedCase{1, 17, 5, false}, RoundedCase{3, 64, 64, true},
                                         RoundedCase{33, 384, 1536, false}, RoundedCase{300, 96, 200, true},
                                         RoundedCase{129, 768, 65, false}),
                         [](const auto& info) {
                           const RoundedCase& c = info.param;
                           return test::words(c.rows, "by", c.depth, "by", c.outputs,
                                              c.transposed ? "transposed" : "plain");
                         });

TEST(QuantizedLinear, IsForTheCallThatAsksForIt) {
  const Tensor x = sine({4, 32}, 1), w = sine({8, 32}, 2);
  const auto exact = wide(linear(x, w));
  EXPECT_EQ(wide(linear(x, w, {}, {.int8 = true})), wide(quantized_linear(x, w, {})));
  EXPECT_NE(wide(linear(x, w, {}, {.int8 = true})), exact);
  EXPECT_EQ(wide(linear(x, w)), exact);
}

TEST(QuantizedLinear, ARowOfZerosGivesTheBias) {
  const Tensor zero = Tensor::from(std::vector<float>(8, 0.0f), {1, 8}), w = sine({3, 8}, 2), bias = sine({3}, 1);
  EXPECT_EQ(wide(quantized_linear(zero, w, bias)), wide(bias));
  EXPECT_EQ(wide(quantized_linear(w, zero, {})), std::vector<double>(3, 0.0));
}

}  // namespace
}  // namespace transom

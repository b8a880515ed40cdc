// SPDX-License-Identifier: Apache-2.0
// Experts of codes: rows of random shapes meet the matrix of their expert alone, with the bits that each has by itself.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "files/blocks/rounded_matrix.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/loading/weights/packed_weights.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

// As gpt-oss has them: places in the table of MXFP4.
class ExpertOfMxfp4 : public BlockMatrix {
 public:
  ExpertOfMxfp4(int64_t rows, int64_t depth, uint32_t seed)
      : BlockMatrix({.rows = rows,
                     .depth = depth,
                     .bits = 4,
                     .group = 32,
                     .values = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6}}),
        seed_(seed) {}
  void read_row(int64_t row, uint8_t* codes, float* scales, float*) const override {
    std::mt19937 random(seed_ + static_cast<uint32_t>(row));
    for (int64_t k = 0; k < layout().depth; ++k) codes[k] = static_cast<uint8_t>(random() % 16);
    for (int64_t g = 0; g < layout().groups(); ++g) scales[g] = std::ldexp(1.0f, static_cast<int>(random() % 4) - 6);
  }

 private:
  uint32_t seed_;
};

struct DrawnExperts {
  std::vector<PackedMatrix> matrices;
  std::vector<const PackedMatrix*> list() const {
    std::vector<const PackedMatrix*> result;
    for (const PackedMatrix& matrix : matrices) result.push_back(&matrix);
    return result;
  }
};

DrawnExperts draw_experts(std::mt19937& random, int64_t count, int64_t rows, int64_t depth, bool mxfp4) {
  const Rounding how{.bits = random() % 2 ? 4 : 8, .group = random() % 2 ? 32 : 64, .symmetric = random() % 2 == 0};
  const std::string activations = mxfp4 || random() % 2 ? "int8" : "float32";
  DrawnExperts drawn;
  for (int64_t i = 0; i < count; ++i) {
    if (mxfp4) {
      drawn.matrices.push_back(*packed_matrix(ExpertOfMxfp4(rows, depth, static_cast<uint32_t>(random()))));
    } else {
      std::vector<float> numbers(static_cast<size_t>(rows * depth));
      for (float& number : numbers) number = std::normal_distribution<float>(0, 0.3f)(random);
      drawn.matrices.push_back(*packed_matrix(*rounded_matrix(numbers.data(), rows, depth, how)));
    }
    drawn.matrices.back().activations = activations;
  }
  return drawn;
}

class PackedExperts : public testing::TestWithParam<DType> {};

TEST_P(PackedExperts, MeetTheirRowsAlone) {
  std::mt19937 random(7);
  for (int draw = 0; draw < 24; ++draw) {
    const auto between = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
    };
    const bool mxfp4 = draw % 3 == 0, apart = draw % 2 == 0;
    const int64_t count = between(1, 9), N = draw == 5 ? 130 : between(1, 12), k = between(1, 4), rows = between(1, 50),
                  depth = mxfp4 ? 32 * between(1, 4) : between(1, 150);
    const DrawnExperts experts = draw_experts(random, count, rows, depth, mxfp4);
    SCOPED_TRACE(fmt::format("draw {}: {} of {} experts [{}, {}], {} rows", draw, k, count, rows, depth, N));
    std::vector<float> numbers(static_cast<size_t>(N * (apart ? k : 1) * depth));
    for (float& number : numbers) number = std::normal_distribution<float>()(random);
    std::vector<int64_t> chosen(static_cast<size_t>(N * k));
    for (int64_t& each : chosen) each = between(-1, count);  // two of these are no experts
    const Tensor x = cast(Tensor::from(numbers, apart ? Shape{N, k, depth} : Shape{N, depth}), GetParam());
    const Tensor y = grouped_quantized_matmul(x, Tensor::from(chosen, {N, k}), experts.list(), {});
    ASSERT_EQ(y.shape(), (Shape{N, k, rows}));
    const std::vector<float> found = cast(y, DType::kFloat32).to_vector<float>();
    for (int64_t row = 0; row < N * k; ++row) {
      const int64_t expert = chosen[static_cast<size_t>(row)];
      std::vector<float> expected(static_cast<size_t>(rows), 0.0f);
      const int64_t from = apart ? row : row / k;
      if (expert >= 0 && expert < count) {
        const Tensor own = slice(reshape(x, {N * (apart ? k : 1), depth}), 0, from, from + 1);
        const PackedMatrix& matrix = experts.matrices[static_cast<size_t>(expert)];
        expected = cast(quantized_matmul(own, matrix), DType::kFloat32).to_vector<float>();
      }
      for (int64_t i = 0; i < rows; ++i)
        ASSERT_EQ(found[static_cast<size_t>(row * rows + i)], expected[static_cast<size_t>(i)]) << row << " " << i;
    }
  }
}

TEST_P(PackedExperts, GiveTheProductsOfTheirNumbers) {
  std::mt19937 random(11);
  const DrawnExperts experts = [&] {
    DrawnExperts drawn = draw_experts(random, 5, 34, 96, false);
    for (PackedMatrix& matrix : drawn.matrices) matrix.activations = "float32";
    return drawn;
  }();
  std::vector<float> numbers(7 * 96);
  for (float& number : numbers) number = std::normal_distribution<float>()(random);
  const std::vector<int64_t> chosen{0, 4, 1, 2, 3, 0, 4, 4, 2, 0, 1, 3, 0, 1};
  const Tensor x = cast(Tensor::from(numbers, {7, 96}), GetParam()).set_requires_grad();
  const Tensor y = grouped_quantized_matmul(x, Tensor::from(chosen, {7, 2}), experts.list(), {});
  // Each row by the sum of its two experts, in f64.
  Tensor expected = zeros({7, 34}, DType::kFloat64);
  const Tensor wide = cast(x.detach(), DType::kFloat64).set_requires_grad();
  std::vector<Tensor> rows;
  for (int64_t row = 0; row < 7; ++row) {
    Tensor sum;
    for (int64_t j = 0; j < 2; ++j) {
      const PackedMatrix& matrix = experts.matrices[static_cast<size_t>(chosen[static_cast<size_t>(2 * row + j)])];
      const Tensor part =
          matmul(slice(wide, 0, row, row + 1), cast(permute(dequantised(matrix), {1, 0}), DType::kFloat64));
      sum = sum.defined() ? sum + part : part;
    }
    rows.push_back(sum);
  }
  expected = concatenate(rows, 0);
  const auto found = cast(reduce_sum(cast(y, DType::kFloat64), {1}), DType::kFloat64).to_vector<double>(),
             right = expected.to_vector<double>();
  // Sums of 96 products that are kept in f32; bf16 rounds each of two results to 8 bits.
  const double bound = GetParam() == DType::kBFloat16 ? 2 * std::ldexp(1.0, -8) : 96 * std::ldexp(1.0, -24);
  double most = 0;
  for (const double value : right) most = std::max(most, std::abs(value));
  for (size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(found[i], right[i], bound * most) << i;
  const auto slope = cast(gradients(sum(cast(y, DType::kFloat32)), {x})[0], DType::kFloat64).to_vector<double>(),
             right_slope = gradients(sum(expected), {wide})[0].to_vector<double>();
  most = 0;
  for (const double value : right_slope) most = std::max(most, std::abs(value));
  for (size_t i = 0; i < right_slope.size(); ++i) ASSERT_NEAR(slope[i], right_slope[i], 2 * bound * most) << i;
}

INSTANTIATE_TEST_SUITE_P(Types, PackedExperts, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(info.param == DType::kFloat32 ? "F32" : "Bf16"); });

TEST(ExpertsOfCodes, ThatNoRowChoseAreNotRead) {
  std::mt19937 random(3);
  DrawnExperts experts = draw_experts(random, 4, 20, 64, false);
  for (const size_t other : {0u, 3u})
    experts.matrices[other].scales =
        full(experts.matrices[other].scales.shape(), std::numeric_limits<float>::quiet_NaN(),
             experts.matrices[other].scales.dtype());
  const Tensor y = grouped_quantized_matmul(
      full({3, 64}, 0.5), Tensor::from(std::vector<int64_t>{1, 2, 2, 1, 1, 1}, {3, 2}), experts.list(), {});
  for (const float value : y.to_vector<float>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(ExpertsOfCodes, OfOtherFormsAreRefused) {
  std::mt19937 random(5);
  DrawnExperts experts = draw_experts(random, 2, 20, 64, false);
  const DrawnExperts others = draw_experts(random, 1, 36, 64, true);
  EXPECT_FALSE(are_of_one_form(experts.matrices[0], others.matrices[0]));
  EXPECT_TRUE(are_of_one_form(experts.matrices[0], experts.matrices[1]));
  experts.matrices[1] = others.matrices[0];
  EXPECT_THROW(grouped_quantized_matmul(full({3, 64}, 0.5), zeros({3, 2}, DType::kInt64), experts.list(), {}), Error);
}

}  // namespace
}  // namespace transom

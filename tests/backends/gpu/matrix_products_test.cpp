// SPDX-License-Identifier: Apache-2.0
// Products over matrix units, on the emulated devices of every kind of unit, against float64: shapes that tiles do not
// divide, batches, turned operands, bytes with zero points, packed weights. The emulated instructions hold the vendors'
// layouts, so a fragment that is loaded or stored elsewhere gives other numbers.
#include <cmath>

#include "gpu_device.h"
#include "packed_weight.h"
#include "product_in_loops.h"

namespace transom::backend_test {
namespace {

class GpuMatrixProducts : public OnEachMatrixUnit {};

TEST_P(GpuMatrixProducts, OfShapesThatTilesDoNotDivide) {
  for (const transom_dtype dtype : {TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
    for (const auto& [rows, depth, columns, tile] :
         {std::tuple<int64_t, int64_t, int64_t, const char*>{1, 1, 1, "32x64"},
          {33, 70, 66, "64x64"},
          {130, 40, 130, "128x128"},
          {7, 64, 129, "32x64"}}) {
      const Tensor x = numbers(dtype, {rows, depth}), w = numbers(dtype, {columns, depth}, -1, 1, 2);
      const Tensor b = numbers(dtype, {columns}, -1, 1, 3);
      const Tensor found = run("linear", {x, w, b}, {{dtype, {rows, columns}}}, {})[0];
      EXPECT_LT(difference(found, linear_in_loops(x, w, &b)), tolerance(dtype)) << rows << " x " << columns;
      EXPECT_NE(description_.find(tile), std::string::npos) << description_;
    }
}

TEST_P(GpuMatrixProducts, OfBatchesAndTurnedOperands) {
  const int64_t batch = 3, rows = 34, depth = 48, columns = 40;
  for (const bool x_turned : {false, true})
    for (const bool y_turned : {false, true}) {
      const Tensor x = numbers(TRANSOM_BFLOAT16, x_turned ? Shape{batch, depth, rows} : Shape{batch, rows, depth}),
                   y = numbers(TRANSOM_BFLOAT16, y_turned ? Shape{batch, columns, depth} : Shape{batch, depth, columns},
                               -1, 1, 2);
      std::vector<double> expected;
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < depth; ++k)
              sum += x.values[static_cast<size_t>(x_turned ? (b * depth + k) * rows + i : (b * rows + i) * depth + k)] *
                     y.values[static_cast<size_t>(y_turned ? (b * columns + j) * depth + k
                                                           : (b * depth + k) * columns + j)];
            expected.push_back(sum);
          }
      const Tensor found = run("dot_general", {x, y}, {{TRANSOM_FLOAT32, {batch, rows, columns}}},
                               {{"dtype", TRANSOM_FLOAT32},
                                {"x_batch", Shape{0}},
                                {"x_contract", Shape{x_turned ? 1 : 2}},
                                {"y_batch", Shape{0}},
                                {"y_contract", Shape{y_turned ? 2 : 1}}})[0];
      EXPECT_LT(difference(found, expected), 1e-5) << x_turned << y_turned;
    }
}

TEST_P(GpuMatrixProducts, ARowHasTheBitsThatItHasAloneAndAtEveryRun) {
  const Tensor x = numbers(TRANSOM_BFLOAT16, {131, 70}), w = numbers(TRANSOM_BFLOAT16, {140, 70}, -1, 1, 2);
  const Tensor all = run("linear", {x, w}, {{TRANSOM_BFLOAT16, {131, 140}}}, {})[0];
  EXPECT_EQ(run("linear", {x, w}, {{TRANSOM_BFLOAT16, {131, 140}}}, {})[0].values, all.values);
  const Tensor row{TRANSOM_BFLOAT16, {1, 70}, {x.values.end() - 70, x.values.end()}};
  EXPECT_EQ(run("linear", {row, w}, {{TRANSOM_BFLOAT16, {1, 140}}}, {})[0].values,
            std::vector<double>(all.values.end() - 140, all.values.end()));
}

TEST_P(GpuMatrixProducts, OfBytesAreExact) {
  for (const transom_dtype dtype : {TRANSOM_UINT8, TRANSOM_INT8})
    for (const int64_t zero : {0, 100})
      for (const auto& [rows, depth, columns] :
           {std::tuple<int64_t, int64_t, int64_t>{2, 5, 3}, {40, 150, 70}, {130, 96, 130}}) {
        Tensor x{dtype, {rows, depth}, {}}, w{TRANSOM_INT8, {columns, depth}, {}};
        for (int64_t i = 0; i < rows * depth; ++i)
          x.values.push_back(static_cast<double>(i * 89 % 256 - (dtype == TRANSOM_INT8 ? 128 : 0)));
        for (int64_t i = 0; i < columns * depth; ++i) w.values.push_back(static_cast<double>(i * 57 % 256 - 128));
        std::vector<double> expected = linear_in_loops(x, w, nullptr, static_cast<double>(zero));
        for (double& sum : expected) sum = static_cast<double>(static_cast<float>(sum));
        EXPECT_EQ(run("integer_linear", {x, w}, {{TRANSOM_FLOAT32, {rows, columns}}}, {{"zero_point", zero}})[0].values,
                  expected);
      }
}

TEST_P(GpuMatrixProducts, OfPackedWeightsAndTheirGradient) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
    for (const int64_t bits : {4, 8})
      for (const int kind : {0, 1, 2}) {
        const PackedWeight w(bits, 70, 100, kind == 1 ? 16 : 32, kind == 1, kind == 2);
        const Tensor x = numbers(dtype, {5, w.depth}), dy = numbers(dtype, {5, w.rows}, -1, 1, 9),
                     bias = numbers(dtype, {w.rows}, -1, 1, 3);
        std::vector<double> y, dx;
        for (size_t i = 0; i < 5; ++i) {
          for (int64_t n = 0; n < w.rows; ++n) {
            y.push_back(bias.values[static_cast<size_t>(n)]);
            for (int64_t k = 0; k < w.depth; ++k) y.back() += x.values[i * 100 + static_cast<size_t>(k)] * w.at(n, k);
          }
          for (int64_t k = 0; k < w.depth; ++k) {
            dx.push_back(0);
            for (int64_t n = 0; n < w.rows; ++n) dx.back() += dy.values[i * 70 + static_cast<size_t>(n)] * w.at(n, k);
          }
        }
        std::vector<Tensor> inputs = w.parts(x);
        inputs.push_back(bias);
        // Codes of a byte make sums of hundreds, of which f32 keeps 7 digits.
        const double bound = dtype == TRANSOM_FLOAT32 ? 3e-5 : tolerance(dtype);
        EXPECT_LT(difference(run("quantized_matmul", inputs, {{dtype, {5, w.rows}}}, w.attributes(true))[0], y), bound)
            << bits << " bits, kind " << kind << ", type " << dtype;
        EXPECT_LT(
            difference(run("quantized_matmul_gradient", w.parts(dy), {{dtype, {5, w.depth}}}, w.attributes(false))[0],
                       dx),
            bound)
            << bits << " bits, kind " << kind << ", type " << dtype;
      }
}

// Tiles of a few rows are deeper than others, and codes in 16 bits are two numbers: their order is the same.
TEST_P(GpuMatrixProducts, ARowOfPackedWeightsHasTheBitsThatItHasAlone) {
  const PackedWeight w(4, 70, 100, 32, false, true);
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    const Tensor x = numbers(dtype, {67, w.depth});
    const auto product = [&](const Tensor& of) {
      return run("quantized_matmul", w.parts(of), {{TRANSOM_FLOAT32, {of.shape[0], w.rows}}}, w.attributes(false))[0]
          .values;
    };
    const std::vector<double> all = product(x);
    EXPECT_EQ(product({dtype, {1, w.depth}, {x.values.end() - w.depth, x.values.end()}}),
              std::vector<double>(all.end() - w.rows, all.end()))
        << "type " << dtype;
  }
}

// What follows a product is computed as its results are made, and has the bits that it has in a launch of its own;
// where somebody else reads the product, it is written.
TEST_P(GpuMatrixProducts, WhatFollowsAProductJoinsIt) {
  const Shape shape{40, 70};
  const Tensor x = numbers(TRANSOM_BFLOAT16, {40, 50}), w = numbers(TRANSOM_BFLOAT16, {70, 50}, -1, 1, 2),
               rest = numbers(TRANSOM_BFLOAT16, shape, -1, 1, 3);
  std::vector<double> found[2];
  for (const bool read_twice : {false, true}) {
    Graph inner, graph;
    const int a = inner.input(TRANSOM_BFLOAT16, shape), b = inner.input(TRANSOM_BFLOAT16, shape);
    inner.output(inner.node("add", {inner.node("tanh", {a}, TRANSOM_BFLOAT16, shape), b}, TRANSOM_BFLOAT16, shape));
    const int made = graph.node("linear", {graph.input(x), graph.input(w)}, TRANSOM_BFLOAT16, shape);
    const int joined = graph.fusion({made, graph.input(rest)}, inner)[0];
    graph.output(graph.node("permute", {joined}, TRANSOM_BFLOAT16, {70, 40}, {{"permutation", Shape{1, 0}}}));
    if (read_twice) graph.output(made);
    Program program(*plugin_, graph);
    ASSERT_EQ(program.error, "");
    found[read_twice] = program.run({x, w, rest})[0].values;
    ASSERT_EQ(program.error, "");
    EXPECT_EQ(program.describe().find("what follows") != std::string::npos, !read_twice) << program.describe();
  }
  EXPECT_EQ(found[0], found[1]);
}

INSTANTIATE_TEST_SUITE_P(Units, GpuMatrixProducts, testing::ValuesIn(kMatrixUnitDevices), NameOfMatrixUnit());

}  // namespace
}  // namespace transom::backend_test

// SPDX-License-Identifier: Apache-2.0
// Kernels of the GPU backend on shapes that its tiles, groups and pieces do not divide, against plain loops; and what
// must not depend on what else is computed. `transom certify --device opencl` tries every operation and type.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu_device.h"
#include "product_in_loops.h"

namespace transom::backend_test {
namespace {

class GpuKernels : public OnGpu {};

TEST_F(GpuKernels, ProductsOfShapesThatTilesDoNotDivide) {
  for (const auto& [rows, depth, columns] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {65, 17, 67}, {3, 100, 130}}) {
    const Tensor x = numbers(TRANSOM_FLOAT32, {rows, depth}), w = numbers(TRANSOM_FLOAT32, {columns, depth}, -1, 1, 2);
    const Tensor b = numbers(TRANSOM_FLOAT32, {columns}, -1, 1, 3);
    EXPECT_LT(difference(run("linear", {x, w, b}, {{TRANSOM_FLOAT32, {rows, columns}}})[0], linear_in_loops(x, w, &b)),
              1e-5);
  }
}

TEST_F(GpuKernels, ARowOfAProductHasTheBitsThatItHasAlone) {
  const Tensor x = numbers(TRANSOM_BFLOAT16, {70, 33}), w = numbers(TRANSOM_BFLOAT16, {5, 33}, -1, 1, 2);
  const Tensor all = run("linear", {x, w}, {{TRANSOM_BFLOAT16, {70, 5}}})[0];
  Tensor row{TRANSOM_BFLOAT16, {1, 33}, {x.values.end() - 33, x.values.end()}};
  const Tensor alone = run("linear", {row, w}, {{TRANSOM_BFLOAT16, {1, 5}}})[0];
  EXPECT_EQ(std::vector<double>(all.values.end() - 5, all.values.end()), alone.values);
}

TEST_F(GpuKernels, AxesInAnyOrderMakeAProduct) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {3, 2, 4, 5}), y = numbers(TRANSOM_FLOAT32, {4, 6, 2, 3}, -1, 1, 2);
  // Batch: the axis of 2. Contracted: those of 3 and 4, which lie apart in both.
  const Tensor found = run("dot_general", {x, y}, {{TRANSOM_FLOAT32, {2, 5, 6}}},
                           {{"dtype", TRANSOM_FLOAT32},
                            {"x_batch", Shape{1}},
                            {"x_contract", Shape{0, 2}},
                            {"y_batch", Shape{2}},
                            {"y_contract", Shape{3, 0}}})[0];
  std::vector<double> expected;
  for (size_t b = 0; b < 2; ++b)
    for (size_t m = 0; m < 5; ++m)
      for (size_t n = 0; n < 6; ++n) {
        double sum = 0;
        for (size_t i = 0; i < 3; ++i)
          for (size_t j = 0; j < 4; ++j)
            sum += x.values[((i * 2 + b) * 4 + j) * 5 + m] * y.values[((j * 6 + n) * 2 + b) * 3 + i];
        expected.push_back(sum);
      }
  EXPECT_LT(difference(found, expected), 1e-5);
}

TEST_F(GpuKernels, ATotalHasTheSameBitsFusedAndAlone) {
  const int64_t count = 40'000;  // several pieces, the last one not full
  const Tensor x = numbers(TRANSOM_FLOAT32, {200, 200});
  const Tensor alone = run("reduce_sum", {x}, {{TRANSOM_FLOAT32, {}}}, {{"axes", Shape{0, 1}}})[0];
  Graph inner, graph;
  const int a = inner.input(x), negative = inner.node("neg", {a}, TRANSOM_FLOAT32, {200, 200});
  inner.output(negative);
  inner.output(inner.node("reduce_sum", {negative}, TRANSOM_FLOAT32, {}, {{"axes", Shape{0, 1}}}));
  for (const int output : graph.fusion({graph.input(x)}, inner)) graph.output(output);
  const std::vector<Tensor> fused = run(graph, {x});
  EXPECT_EQ(fused[0].values[123], -x.values[123]);
  EXPECT_EQ(fused[1].values[0], -alone.values[0]);
  EXPECT_NEAR(alone.values[0], std::accumulate(x.values.begin(), x.values.end(), 0.0),
              1e-6 * static_cast<double>(count));
}

TEST_F(GpuKernels, SumsAlongAnyAxesOfShortAndLongLines) {
  for (const int64_t length : {3, 65, 1500}) {  // by threads, by groups, in pieces
    const Tensor x = numbers(TRANSOM_FLOAT32, {2, length, 3});
    for (const int64_t axis : {1, 2}) {
      const Shape shape = axis == 1 ? Shape{2, 3} : Shape{2, length};
      std::vector<double> expected(static_cast<size_t>(shape[0] * shape[1]), 0);
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < length; ++j)
          for (int64_t k = 0; k < 3; ++k)
            expected[static_cast<size_t>(axis == 1 ? i * 3 + k : i * length + j)] +=
                x.values[static_cast<size_t>((i * length + j) * 3 + k)];
      EXPECT_LT(difference(run("reduce_sum", {x}, {{TRANSOM_FLOAT32, shape}}, {{"axes", Shape{axis}}})[0], expected),
                1e-4)
          << length << " along " << axis;
    }
  }
}

TEST_F(GpuKernels, SortIsStableAndPutsNanLast) {
  Tensor x = tensor(TRANSOM_FLOAT32, {1, 300}, std::vector<double>(300));
  for (size_t i = 0; i < 300; ++i) x.values[i] = static_cast<double>(i * 7 % 11) - 5;
  x.values[17] = NAN, x.values[200] = -INFINITY, x.values[3] = -0.0;
  const auto found =
      run("sort", {x}, {{TRANSOM_FLOAT32, {1, 300}}, {TRANSOM_INT64, {1, 300}}}, {{"axis", 1}, {"descending", 0}});
  std::vector<size_t> places(300);
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    if (std::isnan(x.values[a]) || std::isnan(x.values[b])) return !std::isnan(x.values[a]) && std::isnan(x.values[b]);
    return x.values[a] < x.values[b];
  });
  for (size_t i = 0; i < 300; ++i) EXPECT_EQ(found[1].values[i], static_cast<double>(places[i])) << i;
  EXPECT_TRUE(std::isnan(found[0].values[299]));
}

TEST_F(GpuKernels, ScatterAddsRepeatedIndicesInOrder) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {2, 2}, {0, 0, 1, 1});
  const Tensor at = tensor(TRANSOM_INT64, {4}, {1, 0, 1, 1});
  // In order 2^24 + 1 + 1 stays 2^24; any other order gives more.
  const Tensor updates = tensor(TRANSOM_FLOAT32, {4, 2}, {0x1p24, 1, 5, 6, 1, 2, 1, 3});
  const Tensor found = run("scatter_add", {x, at, updates}, {{TRANSOM_FLOAT32, {2, 2}}}, {{"axis", 0}})[0];
  EXPECT_EQ(found.values, (std::vector<double>{5, 6, 0x1p24, 7}));
}

// Rows that write nothing stand between others: all threads must still meet at the barriers.
TEST_F(GpuKernels, ScatterWritesTheLastOfEqualRowsAndNoneOutside) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {4, 3}), updates = numbers(TRANSOM_FLOAT32, {600, 3}, -9, 9, 2);
  Tensor places{TRANSOM_INT32, {600}, {}};
  for (int64_t i = 0; i < 600; ++i) places.values.push_back(static_cast<double>(i * 7 % 9 - 3));  // -3 to 5
  std::vector<double> expected = x.values;
  for (size_t i = 0; i < 600; ++i)
    for (size_t c = 0; c < 3; ++c)
      if (const double at = places.values[i]; at >= 0 && at < 4)
        expected[static_cast<size_t>(at) * 3 + c] = updates.values[i * 3 + c];
  EXPECT_EQ(run("scatter", {x, places, updates}, {{TRANSOM_FLOAT32, {4, 3}}})[0].values, expected);
}

TEST_F(GpuKernels, IndicesOutsideOfMemoryAreMovedInside) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {3}, {10, 20, 30}), at = tensor(TRANSOM_INT64, {3}, {-4, 1, 1e15});
  EXPECT_EQ(run("gather", {x, at}, {{TRANSOM_FLOAT32, {3}}}, {{"axis", 0}})[0].values,
            (std::vector<double>{10, 20, 30}));
}

TEST_F(GpuKernels, HalvesAreRoundedToEvenAtEveryMagnitude) {
  std::vector<double> values;
  for (const double scale : {1.0, 0x1p-14, 0x1p-24, 0x1p15})
    for (int i = 0; i < 40; ++i) values.push_back(scale * (1 + i / 16384.0 * 8));
  values.insert(values.end(), {65519, 65520, -65520, INFINITY, -0.0, 0x1p-25, 0x1p-26});
  const auto count = static_cast<int64_t>(values.size());
  for (const transom_dtype dtype : {TRANSOM_FLOAT16, TRANSOM_BFLOAT16}) {
    const Tensor found =
        run("cast", {tensor(TRANSOM_FLOAT32, {count}, values)}, {{dtype, {count}}}, {{"dtype", dtype}})[0];
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(found.values[i], rounded(dtype, values[i])) << values[i] << " as " << dtype;
  }
}

TEST_F(GpuKernels, NormsAndSoftmaxOfLongRows) {
  const int64_t length = 700;
  const Tensor x = numbers(TRANSOM_FLOAT32, {3, length}, -4, 4), scale = numbers(TRANSOM_FLOAT32, {length}, -1, 1, 2),
               bias = numbers(TRANSOM_FLOAT32, {length}, -1, 1, 3);
  std::vector<double> norm, soft;
  for (size_t row = 0; row < 3; ++row) {
    const auto begin = x.values.begin() + static_cast<int64_t>(row) * length;
    const double mean = std::accumulate(begin, begin + length, 0.0) / static_cast<double>(length);
    double variance = 0, total = 0;
    for (auto at = begin; at != begin + length; ++at) variance += (*at - mean) * (*at - mean), total += std::exp(*at);
    variance /= static_cast<double>(length);
    for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
      norm.push_back((begin[static_cast<int64_t>(i)] - mean) / std::sqrt(variance + 1e-5) * scale.values[i] +
                     bias.values[i]);
      soft.push_back(std::exp(begin[static_cast<int64_t>(i)]) / total);
    }
  }
  EXPECT_LT(
      difference(run("layer_norm", {x, scale, bias}, {{TRANSOM_FLOAT32, {3, length}}}, {{"epsilon", 1e-5}})[0], norm),
      1e-5);
  EXPECT_LT(difference(run("softmax", {x}, {{TRANSOM_FLOAT32, {3, length}}})[0], soft, 1e-3), 1e-4);
}

TEST_F(GpuKernels, ANewShapeCompilesNothing) {
  const auto softmax_of = [&](int64_t rows, int64_t length) {
    const Tensor x = numbers(TRANSOM_FLOAT32, {rows, length});
    run("softmax", {x}, {{TRANSOM_FLOAT32, {rows, length}}});
    run("linear", {x, numbers(TRANSOM_FLOAT32, {9, length})}, {{TRANSOM_FLOAT32, {rows, 9}}});
    run("permute", {x}, {{TRANSOM_FLOAT32, {length, rows}}}, {{"permutation", Shape{1, 0}}});
  };
  softmax_of(2, 10);
  const uint64_t before = kernels_compiled();
  softmax_of(5, 333);
  EXPECT_EQ(kernels_compiled(), before);
}

}  // namespace
}  // namespace transom::backend_test

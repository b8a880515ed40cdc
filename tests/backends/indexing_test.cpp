// SPDX-License-Identifier: Apache-2.0
// Gather, scatter, dynamic slices, orders along an axis and generated values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

// Single numbers are added as they come.
TEST(Indexing, ScatterAddCountsIndices) {
  const Tensor indices = tensor(TRANSOM_INT64, {6}, {3, 0, 3, 3, 4, 0});
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_INT64, TRANSOM_BFLOAT16}) {
    const Tensor x = tensor(dtype, {5}, {1, 2, 3, 4, 5}), updates = tensor(dtype, {6}, {1, 1, 2, 4, -1, 8});
    EXPECT_EQ(evaluate("scatter_add", {x, indices, updates}, dtype, {5}, {{"axis", 0}}).values,
              (std::vector<double>{10, 2, 3, 11, 4}));
  }
}

TEST(Indexing, GatherAlongEachAxis) {
  for (const auto& [index, dtype] :
       std::initializer_list<std::pair<transom_dtype, transom_dtype>>{{TRANSOM_INT32, TRANSOM_FLOAT32},
                                                                      {TRANSOM_INT64, TRANSOM_FLOAT32},
                                                                      {TRANSOM_INT64, TRANSOM_BFLOAT16},
                                                                      {TRANSOM_INT32, TRANSOM_UINT8},
                                                                      {TRANSOM_INT64, TRANSOM_INT64}}) {
    const Tensor x = numbers(dtype, {4, 5, 6}), indices = tensor(index, {2, 2}, {3, 0, 2, 2});
    for (int64_t axis : {0, 1, 2}) {
      Shape shape(x.shape.begin(), x.shape.begin() + axis);
      shape.insert(shape.end(), {2, 2});
      shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
      const Tensor y = evaluate("gather", {x, indices}, dtype, shape, {{"axis", axis}});
      const int64_t inner = axis == 0 ? 30 : axis == 1 ? 6 : 1, extent = x.shape[static_cast<size_t>(axis)];
      for (size_t i = 0; i < y.values.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const int64_t row = static_cast<int64_t>(indices.values[static_cast<size_t>(at / inner % 4)]);
        EXPECT_EQ(y.values[i], x.values[static_cast<size_t>((at / inner / 4 * extent + row) * inner + at % inner)]);
      }
    }
  }
}

TEST(Indexing, ScatterAddsRepeatedIndicesInOrder) {
  for (transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_INT64}) {
    const Tensor x = numbers(dtype, {7, 300}, -50, 50), indices = tensor(TRANSOM_INT64, {5}, {6, 2, 2, 0, 2});
    const Tensor updates = numbers(dtype, {5, 300}, -50, 50, 4);
    std::vector<double> expected = x.values;
    for (size_t i = 0; i < 5; ++i)
      for (size_t j = 0; j < 300; ++j)
        expected[static_cast<size_t>(indices.values[i]) * 300 + j] += updates.values[i * 300 + j];
    EXPECT_LE(difference(evaluate("scatter_add", {x, indices, updates}, dtype, {7, 300}, {{"axis", 0}}), expected, 10),
              tolerance(dtype));
    const Tensor across = numbers(dtype, {7, 5}, -50, 50), columns = numbers(dtype, {7, 300}, -50, 50);
    std::vector<double> other = columns.values;
    const Tensor places = tensor(TRANSOM_INT32, {5}, {299, 0, 0, 150, 299});
    for (size_t i = 0; i < 7; ++i)
      for (size_t j = 0; j < 5; ++j) other[i * 300 + static_cast<size_t>(places.values[j])] += across.values[i * 5 + j];
    EXPECT_LE(difference(evaluate("scatter_add", {columns, places, across}, dtype, {7, 300}, {{"axis", 1}}), other, 10),
              tolerance(dtype));
  }
}

// Rows that no index names, before, between and behind the others, and all of them.
TEST(Indexing, ScatterAddLeavesOtherRowsAsTheyAre) {
  for (const std::vector<double>& places : {std::vector<double>{5, 2, 5}, {3}, {}, {0, 8}}) {
    const auto count = static_cast<int64_t>(places.size());
    const Tensor x = numbers(TRANSOM_FLOAT32, {9, 40}, -5, 5), indices = tensor(TRANSOM_INT64, {count}, places),
                 updates = numbers(TRANSOM_FLOAT32, {count, 40}, -5, 5, 7);
    std::vector<double> expected = x.values;
    for (size_t i = 0; i < places.size(); ++i)
      for (size_t j = 0; j < 40; ++j) expected[static_cast<size_t>(places[i]) * 40 + j] += updates.values[i * 40 + j];
    EXPECT_LE(
        difference(evaluate("scatter_add", {x, indices, updates}, TRANSOM_FLOAT32, {9, 40}, {{"axis", 0}}), expected),
        1e-5);
  }
}

TEST(Indexing, ScatterSetsRowsAndSkipsIndicesOutOfRange) {
  for (transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_INT64})
    for (transom_dtype index : {TRANSOM_INT32, TRANSOM_INT64}) {
      const Tensor x = numbers(dtype, {7, 30}, -50, 50), indices = tensor(index, {5}, {6, 2, -1, 7, 2});
      const Tensor updates = numbers(dtype, {5, 30}, -50, 50, 4);
      std::vector<double> expected = x.values;
      for (size_t i : {0, 1, 4})  // the last of equal indices counts
        for (size_t j = 0; j < 30; ++j)
          expected[static_cast<size_t>(indices.values[i]) * 30 + j] = updates.values[i * 30 + j];
      EXPECT_EQ(evaluate("scatter", {x, indices, updates}, dtype, {7, 30}).values, expected);
    }
}

TEST(Indexing, IndicesOutOfRangeAreAnError) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {4, 3}), updates = numbers(TRANSOM_FLOAT32, {1, 3});
  for (double bad : {-1.0, 4.0, 1e12}) {
    const Tensor index = tensor(TRANSOM_INT64, {1}, {bad});
    EXPECT_NE(failure_of("gather", {x, index}, TRANSOM_FLOAT32, {1, 3}, {{"axis", 0}}), "") << bad;
    EXPECT_NE(failure_of("scatter_add", {x, index, updates}, TRANSOM_FLOAT32, {4, 3}, {{"axis", 0}}), "") << bad;
  }
  const Tensor none = tensor(TRANSOM_INT64, {0}, {});
  EXPECT_EQ(evaluate("gather", {x, none}, TRANSOM_FLOAT32, {0, 3}, {{"axis", 0}}).values.size(), 0u);
}

TEST(Indexing, DynamicSlicesAreClamped) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {5, 6});
  for (auto [row, column] : {std::pair{1.0, 2.0}, {-3.0, 0.0}, {9.0, 9.0}}) {
    const Tensor starts = tensor(TRANSOM_INT64, {2}, {row, column});
    const auto r = static_cast<size_t>(std::clamp(row, 0.0, 3.0)),
               c = static_cast<size_t>(std::clamp(column, 0.0, 3.0));
    const Tensor y = evaluate("dynamic_slice", {x, starts}, TRANSOM_FLOAT32, {2, 3}, {{"sizes", Shape{2, 3}}});
    const Tensor update = numbers(TRANSOM_FLOAT32, {2, 3}, 5, 6);
    const Tensor z = evaluate("dynamic_update_slice", {x, update, starts}, TRANSOM_FLOAT32, {5, 6});
    std::vector<double> expected = x.values;
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 3; ++j) {
        EXPECT_EQ(y.values[i * 3 + j], x.values[(r + i) * 6 + c + j]);
        expected[(r + i) * 6 + c + j] = update.values[i * 3 + j];
      }
    EXPECT_EQ(z.values, expected);
  }
}

TEST(Ordering, SortIsStableWithNaNLast) {
  const double nan = std::nan("");
  const Tensor x = tensor(TRANSOM_FLOAT32, {6}, {2, nan, 1, 2, -1, 1});
  const std::vector<std::pair<transom_dtype, Shape>> outputs = {{TRANSOM_FLOAT32, {6}}, {TRANSOM_INT64, {6}}};
  EXPECT_EQ(evaluate("sort", {x}, outputs, {{"axis", 0}, {"descending", 0}})[1].values,
            (std::vector<double>{4, 2, 5, 0, 3, 1}));
  EXPECT_EQ(evaluate("sort", {x}, outputs, {{"axis", 0}, {"descending", 1}})[1].values,
            (std::vector<double>{0, 3, 2, 5, 4, 1}));
}

TEST(Ordering, TopKTakesNaNForTheLargest) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {1, 4}, {1, NAN, 3, INFINITY});
  const auto top = evaluate("top_k", {x}, {{TRANSOM_FLOAT32, {1, 2}}, {TRANSOM_INT64, {1, 2}}}, {{"k", 2}});
  EXPECT_TRUE(std::isnan(top[0].values[0]));
  EXPECT_EQ(top[0].values[1], INFINITY);
  EXPECT_EQ(top[1].values, (std::vector<double>{1, 3}));
}

TEST(Ordering, SortAlongAnInnerAxis) {
  const Tensor x = numbers(TRANSOM_INT32, {3, 50, 4}, -20, 20);
  const auto sorted = evaluate("sort", {x}, {{TRANSOM_INT32, {3, 50, 4}}, {TRANSOM_INT64, {3, 50, 4}}},
                               {{"axis", 1}, {"descending", 0}});
  for (size_t a = 0; a < 3; ++a)
    for (size_t c = 0; c < 4; ++c)
      for (size_t b = 0; b + 1 < 50; ++b) {
        const size_t at = (a * 50 + b) * 4 + c;
        EXPECT_LE(sorted[0].values[at], sorted[0].values[at + 4]);
        EXPECT_EQ(sorted[0].values[at], x.values[(a * 50 + static_cast<size_t>(sorted[1].values[at])) * 4 + c]);
        const bool equal = sorted[0].values[at] == sorted[0].values[at + 4];
        EXPECT_TRUE(!equal || sorted[1].values[at] < sorted[1].values[at + 4]);
      }
}

TEST(Ordering, TopKTakesTheLowerPlaceOfEqualValues) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {2, 5}, {1, 5, 5, 3, 5, -1, -2, -1, -4, 0});
  const auto top = evaluate("top_k", {x}, {{TRANSOM_FLOAT32, {2, 3}}, {TRANSOM_INT64, {2, 3}}}, {{"k", 3}});
  EXPECT_EQ(top[0].values, (std::vector<double>{5, 5, 5, 0, -1, -1}));
  EXPECT_EQ(top[1].values, (std::vector<double>{1, 2, 4, 4, 0, 2}));
  EXPECT_NE(failure_of("top_k", {x}, TRANSOM_FLOAT32, {2, 6}, {{"k", 6}}), "");
}

TEST(Ordering, ArgExtremesAndRunningSums) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {2, 4}, {1, 7, 7, 0, 3, -2, 8, -2});
  EXPECT_EQ(evaluate("arg_max", {x}, TRANSOM_INT64, {2}, {{"axis", 1}}).values, (std::vector<double>{1, 2}));
  EXPECT_EQ(evaluate("arg_min", {x}, TRANSOM_INT64, {2}, {{"axis", 1}}).values, (std::vector<double>{3, 1}));
  EXPECT_EQ(evaluate("arg_max", {x}, TRANSOM_INT64, {4}, {{"axis", 0}}).values, (std::vector<double>{1, 0, 1, 0}));
  EXPECT_EQ(evaluate("cumulative_sum", {x}, TRANSOM_FLOAT32, {2, 4}, {{"axis", 1}}).values,
            (std::vector<double>{1, 8, 15, 15, 3, 1, 9, 7}));
  EXPECT_EQ(evaluate("cumulative_sum", {x}, TRANSOM_FLOAT32, {2, 4}, {{"axis", 0}}).values,
            (std::vector<double>{1, 7, 7, 0, 4, 5, 15, -2}));
  EXPECT_NE(failure_of("arg_max", {tensor(TRANSOM_FLOAT32, {0}, {})}, TRANSOM_INT64, {}, {{"axis", 0}}), "");
}

TEST(Generators, IotaAndConstant) {
  EXPECT_EQ(evaluate("iota", {}, TRANSOM_INT64, {2, 3}, {{"shape", Shape{2, 3}}, {"axis", 1}, {"dtype", TRANSOM_INT64}})
                .values,
            (std::vector<double>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(
      evaluate("iota", {}, TRANSOM_BFLOAT16, {2, 3}, {{"shape", Shape{2, 3}}, {"axis", 0}, {"dtype", TRANSOM_BFLOAT16}})
          .values,
      (std::vector<double>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(evaluate("constant", {}, TRANSOM_FLOAT32, {}, {{"value", 2.5}, {"dtype", TRANSOM_FLOAT32}}).values,
            std::vector<double>{2.5});
  EXPECT_EQ(evaluate("constant", {}, TRANSOM_INT64, {}, {{"int_value", -7}, {"dtype", TRANSOM_INT64}}).values,
            std::vector<double>{-7});
}

// The published test vectors of Philox4x32-10 and the layout that the operation prescribes.
TEST(Generators, RandomBitsArePhilox) {
  const Tensor zero = tensor(TRANSOM_INT64, {2}, {0, 0});
  const Tensor bits = evaluate("random_bits", {zero}, TRANSOM_UINT32, {4}, {{"shape", Shape{4}}});
  EXPECT_EQ(bits.values, (std::vector<double>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  const Tensor ones = tensor(TRANSOM_INT64, {2}, {-1, -1});
  const Tensor long_run = evaluate("random_bits", {ones}, TRANSOM_UINT32, {100003}, {{"shape", Shape{100003}}});
  const Tensor start = evaluate("random_bits", {ones}, TRANSOM_UINT32, {7}, {{"shape", Shape{7}}});
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(long_run.values[i], start.values[i]);
  const double mean = std::accumulate(long_run.values.begin(), long_run.values.end(), 0.0) / 100003;
  EXPECT_NEAR(mean / 4294967296.0, 0.5, 0.01);
}

}  // namespace
}  // namespace transom::backend_test

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

const std::vector<transom_dtype> kWidths = {TRANSOM_INT8, TRANSOM_BFLOAT16, TRANSOM_FLOAT32, TRANSOM_FLOAT64};

// The expected tensor: for each index of the output, what `source` gives for it (the number of an element of x, or -1).
template <typename Source>
std::vector<double> moved(const Tensor& x, const Shape& shape, double filler, Source&& source) {
  std::vector<double> result;
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    Shape index(shape.size());
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
    const int64_t from = source(index);
    result.push_back(from < 0 ? filler : x.values[static_cast<size_t>(from)]);
  }
  return result;
}

int64_t flat(const Shape& shape, const Shape& index) {
  int64_t at = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) at = at * shape[axis] + index[axis];
  return at;
}

TEST(Movement, Permute) {
  const std::pair<Shape, Shape> cases[] = {{{}, {}},
                                           {{5}, {0}},
                                           {{3, 4}, {1, 0}},
                                           {{67, 129}, {1, 0}},
                                           {{2, 3, 5}, {2, 0, 1}},
                                           {{2, 3, 5}, {1, 0, 2}},
                                           {{2, 19, 3, 17}, {0, 2, 1, 3}},
                                           {{2, 19, 3, 17}, {3, 2, 1, 0}},
                                           {{2, 3, 19, 17}, {0, 1, 3, 2}},
                                           {{0, 3}, {1, 0}},
                                           {{300, 200}, {1, 0}},
                                           {{2, 33, 40, 3}, {0, 3, 1, 2}},
                                           {{2, 3, 50, 90}, {0, 2, 3, 1}},  // channels of pictures, longer than a block
                                           {{2, 4, 61, 70}, {0, 2, 3, 1}}};
  for (transom_dtype dtype : kWidths)
    for (const auto& [shape, permutation] : cases) {
      const Tensor x = numbers(dtype, shape, -100, 100);
      Shape out;
      for (int64_t axis : permutation) out.push_back(shape[static_cast<size_t>(axis)]);
      const auto expected = moved(x, out, 0, [&, &shape = shape, &permutation = permutation](const Shape& index) {
        Shape from(index.size());
        for (size_t i = 0; i < index.size(); ++i) from[static_cast<size_t>(permutation[i])] = index[i];
        return flat(shape, from);
      });
      EXPECT_EQ(evaluate("permute", {x}, dtype, out, {{"permutation", permutation}}).values, expected);
    }
}

TEST(Movement, BroadcastSliceReverse) {
  for (transom_dtype dtype : kWidths) {
    const Tensor x = numbers(dtype, {3, 1, 5}, -100, 100);
    EXPECT_EQ(evaluate("broadcast", {x}, dtype, {3, 70, 5}).values,
              moved(x, {3, 70, 5}, 0, [](const Shape& i) { return i[0] * 5 + i[2]; }));
    const Tensor y = numbers(dtype, {1, 9}, -100, 100);
    EXPECT_EQ(evaluate("broadcast", {y}, dtype, {4, 9}).values,
              moved(y, {4, 9}, 0, [](const Shape& i) { return i[1]; }));
    const Tensor z = numbers(dtype, {7, 11}, -100, 100);
    EXPECT_EQ(evaluate("slice", {z}, dtype, {3, 4},
                       {{"starts", Shape{1, 2}}, {"limits", Shape{6, 10}}, {"strides", Shape{2, 2}}})
                  .values,
              moved(z, {3, 4}, 0, [](const Shape& i) { return (1 + 2 * i[0]) * 11 + 2 + 2 * i[1]; }));
    EXPECT_EQ(evaluate("reverse", {z}, dtype, {7, 11}, {{"axes", Shape{0, 1}}}).values,
              moved(z, {7, 11}, 0, [](const Shape& i) { return (6 - i[0]) * 11 + 10 - i[1]; }));
    EXPECT_EQ(evaluate("reverse", {z}, dtype, {7, 11}, {{"axes", Shape{0}}}).values,
              moved(z, {7, 11}, 0, [](const Shape& i) { return (6 - i[0]) * 11 + i[1]; }));
    EXPECT_EQ(evaluate("reshape", {z}, dtype, {11, 7}, {{"shape", Shape{11, 7}}}).values, z.values);
  }
}

TEST(Movement, PadAndConcatenate) {
  for (transom_dtype dtype : kWidths) {
    const Tensor x = numbers(dtype, {3, 4}, -100, 100);
    EXPECT_EQ(evaluate("pad", {x}, dtype, {6, 5}, {{"low", Shape{1, 0}}, {"high", Shape{2, 1}}, {"value", 7.0}}).values,
              moved(x, {6, 5}, 7,
                    [](const Shape& i) { return i[0] >= 1 && i[0] < 4 && i[1] < 4 ? (i[0] - 1) * 4 + i[1] : -1; }));
    const Tensor a = numbers(dtype, {2, 1, 3}, -9, 9, 1), b = numbers(dtype, {2, 0, 3}, -9, 9, 2),
                 c = numbers(dtype, {2, 2, 3}, -9, 9, 3);
    const Tensor joined = evaluate("concatenate", {a, b, c}, dtype, {2, 3, 3}, {{"axis", 1}});
    const auto expected = moved(a, {2, 3, 3}, 0, [](const Shape& i) { return i[1] == 0 ? i[0] * 3 + i[2] : -1; });
    const auto rest =
        moved(c, {2, 3, 3}, 0, [](const Shape& i) { return i[1] > 0 ? (i[0] * 2 + i[1] - 1) * 3 + i[2] : -1; });
    for (size_t i = 0; i < joined.values.size(); ++i) EXPECT_EQ(joined.values[i], expected[i] + rest[i]);
  }
}

TEST(Movement, RefusesWhatDoesNotFit) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {3, 4});
  EXPECT_NE(failure_of("reshape", {x}, TRANSOM_FLOAT32, {5}), "");
  EXPECT_NE(failure_of("permute", {x}, TRANSOM_FLOAT32, {4, 3}, {{"permutation", Shape{1, 2}}}), "");
  EXPECT_NE(failure_of("broadcast", {x}, TRANSOM_FLOAT32, {3, 5}), "");
  EXPECT_NE(failure_of("slice", {x}, TRANSOM_FLOAT32, {3, 4},
                       {{"starts", Shape{0, 0}}, {"limits", Shape{3, 5}}, {"strides", Shape{1, 1}}}),
            "");
  EXPECT_NE(failure_of("slice", {x}, TRANSOM_FLOAT32, {3, 4}), "");
  EXPECT_NE(failure_of("concatenate", {x, x}, TRANSOM_FLOAT32, {3, 7}, {{"axis", 1}}), "");
}

}  // namespace
}  // namespace transom::backend_test

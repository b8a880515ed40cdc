// SPDX-License-Identifier: Apache-2.0
// The functions for users against values that NumPy (and PyTorch, where NumPy has no such function) gives.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/evaluation.h"
#include "support/message.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

using test::evaluate;
using test::Leaf;
using test::leaf;
using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Leaf counted(const Shape& shape, DType dtype = DType::kFloat64) {
  Array array({dtype, shape});
  for (int64_t i = 0; i < elements(shape); ++i) array.set(i, static_cast<double>(i));
  return leaf(std::move(array));
}

void expect_near(const Values& found, const Values& expected, double tolerance = 1e-15) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) EXPECT_TRUE(std::isnan(found[i])) << "element " << i;
    else if (std::isinf(expected[i])) EXPECT_EQ(found[i], expected[i]) << "element " << i;
    else EXPECT_NEAR(found[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
  }
}

// ---- element by element

TEST(Broadcasting, FollowsNumPy) {
  const Leaf x = counted({2, 3}), row = leaf({3}, {10, 20, 30}), column = counted({3, 1}), line = counted({1, 2});
  EXPECT_EQ(evaluate(x.tensor + row.tensor, {x, row}), (Values{10, 21, 32, 13, 24, 35}));
  EXPECT_EQ(evaluate(column.tensor * line.tensor, {column, line}), (Values{0, 0, 0, 1, 0, 2}));
  EXPECT_EQ(add(make_input({DType::kFloat32, {1}}), make_input({DType::kFloat32, {0}})).shape(), Shape{0});
  EXPECT_EQ(evaluate(2.0 - x.tensor, {x}), (Values{2, 1, 0, -1, -2, -3}));
}

TEST(Arithmetic, RoundsAndDividesAsNumPyDoes) {
  const Leaf x = leaf({5}, {5, -5, 5, -5, 5.5}), y = leaf({5}, {3, 3, -3, -3, -2});
  EXPECT_EQ(evaluate(remainder(x.tensor, y.tensor), {x, y}), (Values{2, 1, -1, -2, -0.5}));
  const Leaf halves = leaf({5}, {0.5, 1.5, 2.5, -0.5, -1.5});
  EXPECT_EQ(evaluate(round(halves.tensor), {halves}), (Values{0, 2, 2, 0, -2}));
  const Leaf base = leaf({3}, {2, 0, -2}), exponent = leaf({3}, {3, 0, 2});
  EXPECT_EQ(evaluate(pow(base.tensor, exponent.tensor), {base, exponent}), (Values{8, 1, 4}));
}

TEST(Arithmetic, PassesNanOn) {
  const Leaf x = leaf({3}, {1, kNan, 2}), y = leaf({3}, {kNan, 2, 1});
  expect_near(evaluate(maximum(x.tensor, y.tensor), {x, y}), {kNan, kNan, 2});
  expect_near(evaluate(minimum(x.tensor, y.tensor), {x, y}), {kNan, kNan, 1});
  expect_near(evaluate(sign(x.tensor), {x}), {1, kNan, 1});
  EXPECT_EQ(evaluate(is_finite(x.tensor), {x}), (Values{1, 0, 1}));
  EXPECT_EQ(evaluate(equal(x.tensor, x.tensor), {x}), (Values{1, 0, 1}));
}

TEST(Integers, AreExactAndWrapAround) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max(), kOdd = (int64_t{1} << 53) + 1;
  Array array({DType::kInt64, {4}});
  array.integer = {kLargest, kOdd, -7, std::numeric_limits<int64_t>::min()};
  const Leaf x = leaf(array);
  const auto integers = [&](const Tensor& y) { return evaluate(std::vector<Tensor>{y}, {x})[0].integer; };
  using Integers = std::vector<int64_t>;
  EXPECT_EQ(integers(x.tensor + 1.0), (Integers{array.integer[3], kOdd + 1, -6, array.integer[3] + 1}));
  EXPECT_EQ(integers(neg(x.tensor)), (Integers{-kLargest, -kOdd, 7, array.integer[3]}));
  EXPECT_EQ(integers(abs(x.tensor)), (Integers{kLargest, kOdd, 7, array.integer[3]}));
  EXPECT_EQ(integers(sort(x.tensor, 0).first), (Integers{array.integer[3], -7, kOdd, kLargest}));
  EXPECT_EQ(integers(div(x.tensor, full({4}, 2, DType::kInt64)))[2], -3);
  EXPECT_EQ(integers(remainder(x.tensor, full({4}, 2, DType::kInt64)))[2], 1);
  EXPECT_EQ(integers(div(x.tensor, full({4}, -1, DType::kInt64)))[3], array.integer[3]);
}

TEST(Integers, MeetOnlyWholeConstants) {
  const Tensor x = make_input({DType::kInt64, {4}});
  EXPECT_THROW(x * 0.5, Error);
  EXPECT_THROW(mean(x, {0}), Error);
  EXPECT_THROW(constant(1e300, DType::kInt64), Error);
  EXPECT_NO_THROW(x * 3.0);
}

TEST(Cast, TruncatesAndStopsAtTheEnds) {
  const Leaf x = leaf({6}, {1.9, -1.9, 0.5, kNan, 1e300, -kInfinity});
  const std::vector<int64_t> integers = evaluate(std::vector<Tensor>{cast(x.tensor, DType::kInt64)}, {x})[0].integer;
  EXPECT_EQ(integers, (std::vector<int64_t>{1, -1, 0, 0, std::numeric_limits<int64_t>::max(),
                                            std::numeric_limits<int64_t>::min()}));
  EXPECT_EQ(evaluate(cast(x.tensor, DType::kBool), {x}), (Values{1, 1, 1, 1, 1, 1}));
}

// ---- reductions and order

TEST(Reductions, FollowNumPy) {
  const Leaf x = counted({2, 3});
  EXPECT_EQ(evaluate(mean(x.tensor, {0}, true), {x}), (Values{1.5, 2.5, 3.5}));
  EXPECT_EQ(mean(x.tensor, {0}, true).shape(), (Shape{1, 3}));
  EXPECT_EQ(evaluate(reduce_sum(x.tensor, {-1}), {x}), (Values{3, 12}));
  EXPECT_EQ(evaluate(sum(x.tensor), {x}), Values{15});
  EXPECT_EQ(evaluate(reduce_max(x.tensor, {0, 1}), {x}), Values{5});
  EXPECT_EQ(evaluate(cumulative_sum(x.tensor, 0), {x}), (Values{0, 1, 2, 3, 5, 7}));
  EXPECT_EQ(evaluate(cumulative_sum(x.tensor, -1), {x}), (Values{0, 1, 3, 3, 7, 12}));
}

TEST(Reductions, OfNothingGiveTheNeutralElement) {
  const Leaf x = leaf({2, 0}, {});
  EXPECT_EQ(evaluate(reduce_sum(x.tensor, {1}), {x}), (Values{0, 0}));
  EXPECT_EQ(evaluate(reduce_max(x.tensor, {1}), {x}), (Values{-kInfinity, -kInfinity}));
  EXPECT_EQ(evaluate(reduce_min(x.tensor, {1}), {x}), (Values{kInfinity, kInfinity}));
}

TEST(Reductions, ReturnNanAndItsFirstPlace) {
  const Leaf x = leaf({4}, {3, kNan, 1, kNan}), ties = leaf({4}, {1, 3, 3, 1}),
             low = leaf({2}, {-kInfinity, -kInfinity});
  EXPECT_TRUE(std::isnan(evaluate(reduce_max(x.tensor, {0}), {x})[0]));
  EXPECT_EQ(evaluate(arg_max(x.tensor, 0), {x}), Values{1});
  EXPECT_EQ(evaluate(arg_min(x.tensor, 0), {x}), Values{1});
  EXPECT_EQ(evaluate(arg_max(ties.tensor, 0), {ties}), Values{1});
  EXPECT_EQ(evaluate(arg_min(ties.tensor, 0), {ties}), Values{0});
  EXPECT_EQ(evaluate(arg_max(low.tensor, 0), {low}), Values{0});
}

TEST(Sort, PutsNanLastAndKeepsTies) {
  const Leaf x = leaf({4}, {3, kNan, 1, 2}), ties = leaf({4}, {1, 0, 1, 0});
  const auto rising = sort(x.tensor, 0), falling = sort(x.tensor, -1, true);
  expect_near(evaluate(rising.first, {x}), {1, 2, 3, kNan});
  EXPECT_EQ(evaluate(rising.second, {x}), (Values{2, 3, 0, 1}));
  expect_near(evaluate(falling.first, {x}), {3, 2, 1, kNan});
  EXPECT_EQ(evaluate(sort(ties.tensor, 0).second, {ties}), (Values{1, 3, 0, 2}));
  EXPECT_EQ(evaluate(sort(ties.tensor, 0, true).second, {ties}), (Values{0, 2, 1, 3}));
}

TEST(TopK, TakesTheLargestAndOfEqualOnesTheFirst) {
  const Leaf x = leaf({2, 4}, {1, 5, 5, 2, 4, 3, 2, 1});
  const auto [values, places] = top_k(x.tensor, 3);
  EXPECT_EQ(evaluate(values, {x}), (Values{5, 5, 2, 4, 3, 2}));
  EXPECT_EQ(evaluate(places, {x}), (Values{1, 2, 3, 0, 1, 2}));
  EXPECT_THROW(top_k(x.tensor, 5), Error);
}

// ---- movement and indexing

TEST(Slice, CountsNegativeIndicesFromTheEnd) {
  const Leaf x = counted({4, 6});
  EXPECT_EQ(evaluate(slice(x.tensor, 1, -4, -1), {x}), (Values{2, 3, 4, 8, 9, 10, 14, 15, 16, 20, 21, 22}));
  EXPECT_EQ(evaluate(slice(x.tensor, -1, 1, 6, 2), {x}), (Values{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}));
  EXPECT_EQ(slice(x.tensor, 0, 2, 2).shape(), (Shape{0, 6}));
  EXPECT_THROW(slice(x.tensor, 0, 3, 2), Error);
  EXPECT_THROW(slice(x.tensor, 0, 0, 5), Error);
  EXPECT_THROW(slice(x.tensor, 0, 0, 4, 0), Error);
}

TEST(Movement, FollowsNumPy) {
  const Leaf x = counted({2, 3}), y = counted({1, 2, 3});
  EXPECT_EQ(evaluate(pad(x.tensor, {1, 0}, {0, 2}, -1), {x}),
            (Values{-1, -1, -1, -1, -1, 0, 1, 2, -1, -1, 3, 4, 5, -1, -1}));
  EXPECT_EQ(evaluate(permute(y.tensor, {2, 0, 1}), {y}), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(evaluate(transpose(x.tensor, 0, -1), {x}), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(evaluate(reverse(x.tensor, {-1}), {x}), (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(evaluate(concatenate({x.tensor, x.tensor}, -1), {x}), (Values{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(reshape(x.tensor, {3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(flatten(y.tensor, 1).shape(), (Shape{1, 6}));
  EXPECT_EQ(unsqueeze(x.tensor, -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(squeeze(y.tensor, 0).shape(), (Shape{2, 3}));
}

TEST(Movement, RefusesWhatDoesNotFit) {
  const Tensor x = make_input({DType::kFloat32, {2, 3}});
  EXPECT_EQ(test::message_of([&] { reshape(x, {4, -1}); }), "reshape: [2, 3] has 6 elements, [4, 1] has 4");
  EXPECT_THROW(reshape(x, {-1, -1}), Error);
  EXPECT_THROW(permute(x, {0, 0}), Error);
  EXPECT_THROW(permute(x, {0}), Error);
  EXPECT_THROW(squeeze(x, 0), Error);
  EXPECT_THROW(flatten(x, 1, 0), Error);
  EXPECT_THROW(concatenate({x, make_input({DType::kFloat32, {3, 2}})}, 0), Error);
  EXPECT_THROW(concatenate({}, 0), Error);
  EXPECT_THROW(broadcast_to(x, {3}), Error);
}

TEST(TakeAlongAxis, FollowsNumPy) {
  const Leaf x = leaf({2, 3}, {10, 20, 30, 40, 50, 60}), along = leaf({2, 2}, {2, 0, 1, 1}, DType::kInt64),
             across = leaf({1, 3}, {1, 0, 1}, DType::kInt32);
  EXPECT_EQ(evaluate(take_along_axis(x.tensor, along.tensor, -1), {x, along}), (Values{30, 10, 50, 50}));
  EXPECT_EQ(evaluate(take_along_axis(x.tensor, across.tensor, 0), {x, across}), (Values{40, 20, 60}));
  EXPECT_THROW(take_along_axis(x.tensor, make_input({DType::kInt64, {3, 1}}), 1), Error);
  EXPECT_THROW(take_along_axis(x.tensor, make_input({DType::kInt64, {2}}), 1), Error);
}

TEST(Indexing, GathersAndAddsUp) {
  const Leaf x = counted({3, 2}), indices = leaf({3}, {2, 0, 2}, DType::kInt64), updates = counted({3, 2});
  EXPECT_EQ(evaluate(gather(x.tensor, indices.tensor, 0), {x, indices}), (Values{4, 5, 0, 1, 4, 5}));
  EXPECT_EQ(evaluate(scatter_add(x.tensor, indices.tensor, updates.tensor, 0), {x, indices, updates}),
            (Values{2, 4, 2, 3, 8, 11}));
  const Leaf outside = leaf({1}, {3}, DType::kInt64);
  EXPECT_THROW(evaluate(gather(x.tensor, outside.tensor, 0), {x, outside}), Error);
}

TEST(Indexing, SetsRows) {
  const Leaf x = counted({4, 2}), updates = leaf({4, 2}, {-1, -2, -3, -4, -5, -6, -7, -8});
  // The last of equal indices counts; -1 and 4 are outside.
  const Leaf indices = leaf({4}, {2, -1, 2, 4}, DType::kInt64);
  const Tensor set = scatter(x.tensor, indices.tensor, updates.tensor);
  EXPECT_EQ(evaluate(set, {x, indices, updates}), (Values{0, 1, 2, 3, -5, -6, 6, 7}));
  EXPECT_THROW(scatter(x.tensor, indices.tensor, make_input({DType::kFloat64, {3, 2}})), Error);
  EXPECT_THROW(scatter(x.tensor, make_input({DType::kFloat64, {4}}), updates.tensor), Error);
  EXPECT_THROW(scatter(x.tensor, make_input({DType::kInt64, {2, 2}}), updates.tensor), Error);
}

TEST(DynamicSlice, MovesTheWindowInwards) {
  const Leaf x = counted({3, 4}), starts = leaf({2}, {2, -1}, DType::kInt64), update = leaf({2, 1}, {-1, -2});
  EXPECT_EQ(evaluate(dynamic_slice(x.tensor, starts.tensor, {2, 2}), {x, starts}), (Values{4, 5, 8, 9}));
  EXPECT_EQ(evaluate(dynamic_update_slice(x.tensor, update.tensor, starts.tensor), {x, update, starts}),
            (Values{0, 1, 2, 3, -1, 5, 6, 7, -2, 9, 10, 11}));
}

// ---- products

TEST(Matmul, BroadcastsBatches) {
  const Leaf x = counted({2, 1, 2, 3}), y = counted({3, 3, 2});
  const Tensor product = matmul(x.tensor, y.tensor);
  EXPECT_EQ(product.shape(), (Shape{2, 3, 2, 2}));
  EXPECT_EQ(evaluate(product, {x, y}), (Values{10, 13, 28, 40, 28,  31,  100, 112, 46,  49,  172, 184,
                                               46, 67, 64, 94, 172, 193, 244, 274, 298, 319, 424, 454}));
  EXPECT_EQ(matmul(make_input({DType::kFloat32, {1, 2, 3}}), make_input({DType::kFloat32, {0, 3, 4}})).shape(),
            (Shape{0, 2, 4}));
  EXPECT_THROW(matmul(x.tensor, make_input({DType::kFloat64, {4, 2}})), Error);
  EXPECT_THROW(matmul(x.tensor, make_input({DType::kFloat64, {3}})), Error);
  EXPECT_THROW(matmul(make_input({DType::kFloat32, {2, 2, 3}}), make_input({DType::kFloat32, {4, 3, 4}})), Error);
}

// Keys and values in blocks that stand in any order give what they give in one stretch.
TEST(PagedAttention, ReadsBlocksByTheirTable) {
  const int64_t T = 2, S = 6, size = 4;
  const Leaf q = counted({1, T, 2, 3}), k = counted({1, S, 1, 3}), v = counted({1, S, 1, 2});
  const AttentionOptions options{.scale = 0.01, .sliding_window = 4};
  const Values expected = evaluate(attention(q.tensor, k.tensor, v.tensor, {}, options), {q, k, v});

  // Tokens 0 to 3 in block 2, 4 and 5 in block 0; what is behind them, and block 1, is nobody's.
  const auto blocks_of = [&](const Leaf& whole) {
    const int64_t width = whole.tensor.dim(3);
    Values blocks(static_cast<size_t>(3 * size * width), 1000);
    for (int64_t s = 0; s < S; ++s)
      for (int64_t i = 0; i < width; ++i)
        blocks[static_cast<size_t>(((s < size ? 2 : 0) * size + s % size) * width + i)] =
            whole.value.real[static_cast<size_t>(s * width + i)];
    return leaf({3, size, 1, width}, blocks);
  };
  const Leaf k_blocks = blocks_of(k), v_blocks = blocks_of(v);
  const Leaf table = leaf({1, 2}, {2, 0}, DType::kInt64), lengths = leaf({1}, {S}, DType::kInt64);
  const Tensor paged =
      paged_attention(q.tensor, k_blocks.tensor, v_blocks.tensor, table.tensor, lengths.tensor, options);
  expect_near(evaluate(paged, {q, k_blocks, v_blocks, table, lengths}), expected, 1e-12);
  EXPECT_THROW(paged_attention(q.tensor, k_blocks.tensor, v_blocks.tensor, table.tensor, lengths.tensor,
                               {.scale = 1, .causal = false}),
               Error);
  EXPECT_THROW(paged_attention(q.tensor, k.tensor, v_blocks.tensor, table.tensor, lengths.tensor, options), Error);
}

TEST(Products, ComputeInTheTypeOfTheirCallAndNotInTheirRules) {
  const Tensor x = make_input({DType::kFloat32, {2, 3}}), w = make_input({DType::kFloat32, {4, 3}});
  const Computing low{.dtype = DType::kBFloat16};
  EXPECT_EQ(linear(x, w, {}, low).dtype(), DType::kBFloat16);
  EXPECT_EQ(softmax(linear(x, w, {}, low), low).dtype(), DType::kFloat32);
  const std::vector<Tensor> inputs{x, w};
  EXPECT_EQ(find_operation("linear").decompose(inputs, {})[0].dtype(), DType::kFloat32);
}

TEST(Convolution, IsCrossCorrelationWithZeroPadding) {
  const Leaf x = leaf({1, 1, 4}, {1, 2, 3, 4}), w = leaf({1, 1, 3}, {1, 0, -1});
  EXPECT_EQ(evaluate(convolution(x.tensor, w.tensor, {.low = {1}, .high = {1}}), {x, w}), (Values{-2, -2, -2, 3}));
}

// ---- composites

TEST(Composites, FollowTheirFormulas) {
  const Leaf x = leaf({3}, {1, 2, 3});
  expect_near(evaluate(softmax(x.tensor), {x}), {0.09003057317038046, 0.24472847105479764, 0.6652409557748218});
  expect_near(evaluate(log_softmax(x.tensor), {x}), {-2.4076059644443806, -1.4076059644443804, -0.4076059644443804});
  const Leaf y = leaf({3}, {1, 2, 4}), one = leaf({3}, {1, 1, 1}), zero = leaf({3}, {0, 0, 0});
  expect_near(evaluate(layer_norm(y.tensor, one.tensor, zero.tensor, 1e-5), {y, one, zero}),
              {-1.0690415314502977, -0.26726038286257453, 1.3363019143128718});
  expect_near(evaluate(rms_norm(y.tensor, one.tensor, 1e-5), {y, one}),
              {0.3779642030348929, 0.7559284060697858, 1.5118568121395717});
  const Leaf z = leaf({3}, {-1, 0, 2});
  expect_near(evaluate(gelu(z.tensor), {z}), {-0.15865525393145707, 0, 1.9544997361036416});
  expect_near(evaluate(gelu_tanh(z.tensor), {z}), {-0.1588080093917233, 0, 1.954597694087775});
  expect_near(evaluate(sigmoid(z.tensor), {z}), {0.2689414213699951, 0.5, 0.8807970779778823});
  const Leaf low = leaf({2}, {-40, 40});
  expect_near(evaluate(log(sigmoid(low.tensor)), {low}), {-40, 0});  // small is not zero
  const Leaf far = leaf({4}, {-100, 0, 2, 1000});
  expect_near(evaluate(softplus(far.tensor), {far}),
              {3.720075976020836e-44, 0.6931471805599453, 2.1269280110429727, 1000});
  const Leaf ends = leaf({3}, {-kInfinity, kInfinity, kNan});
  expect_near(evaluate(softplus(ends.tensor), {ends}), {0, kInfinity, kNan});
}

TEST(Composites, SoftmaxOfLargeValuesIsFinite) {
  const Leaf x = leaf({2}, {1000, 1000});
  EXPECT_EQ(evaluate(softmax(x.tensor), {x}), (Values{0.5, 0.5}));
}

TEST(CrossEntropy, LeavesIgnoredRowsOut) {
  const Leaf logits = leaf({3, 3}, {1, 2, 3, 0, 0, 0, 9, 8, 7}), labels = leaf({3}, {2, 1, -100}, DType::kInt64);
  expect_near(evaluate(cross_entropy(logits.tensor, labels.tensor), {logits, labels}),
              {0.40760596444438013, 1.0986122886681098, 0});
}

TEST(Activations, AreFoundByTheirNamesInConfigurations) {
  const Leaf x = leaf({3}, {-1, 0, 2});
  expect_near(evaluate(activation("relu", x.tensor), {x}), {0, 0, 2});
  expect_near(evaluate(activation("quick_gelu", x.tensor), {x}), {-0.1542042340671787, 0, 1.9356586231442083});
  expect_near(evaluate(activation("elu", x.tensor), {x}), {std::expm1(-1), 0, 2});
  expect_near(evaluate(activation("hardswish", x.tensor), {x}), {-1.0 / 3, 0, 5.0 / 3});
  EXPECT_NE(
      test::message_of([&] { activation("gelu_nwe", x.tensor); }).find("did you mean 'gelu_new'? Known are: gelu"),
      std::string::npos);
}

// At 0 too, where the parts that a function is written with have corners and the function has none.
TEST(Activations, ThatAreSmoothHaveTheSlopeOfTheirValues) {
  const Values points{-3, -0.5, 0, 0.25, 4};
  for (const char* name : {"gelu", "gelu_new", "quick_gelu", "silu", "sigmoid", "tanh", "softplus", "mish", "elu"}) {
    Leaf x = leaf({5}, points);
    x.tensor.set_requires_grad(true);
    constexpr double kStep = 1e-5;
    Values below, above;
    for (const double point : points) below.push_back(point - kStep), above.push_back(point + kStep);
    const Leaf low = leaf({5}, below), high = leaf({5}, above);
    Values slopes = evaluate(activation(name, high.tensor), {high});
    const Values values_below = evaluate(activation(name, low.tensor), {low});
    for (size_t i = 0; i < slopes.size(); ++i) slopes[i] = (slopes[i] - values_below[i]) / (2 * kStep);
    SCOPED_TRACE(name);
    // The second derivative at the point times the step, and rounding over the step. The second derivative of elu jumps
    // at 0.
    expect_near(evaluate(gradients(reduce_sum(activation(name, x.tensor), {0}), {x.tensor})[0], {x}), slopes, 2e-5);
  }
}

TEST(Activations, WithACornerAtZeroHaveTheGradientOfPyTorchThere) {
  for (const auto& [name, slope] : {std::pair{"relu", 0.0}, {"relu2", 0.0}, {"relu6", 0.0}, {"leaky_relu", 0.01}}) {
    Leaf x = leaf({1}, {0});
    x.tensor.set_requires_grad(true);
    SCOPED_TRACE(name);
    expect_near(evaluate(gradients(reduce_sum(activation(name, x.tensor), {0}), {x.tensor})[0], {x}), {slope});
  }
}

// ---- einsum, against NumPy

TEST(Einsum, SumsAsNumPyDoes) {
  const Leaf a = counted({2, 3}), b = counted({3, 2}), square = counted({3, 3}), cube = counted({2, 3, 2});
  EXPECT_EQ(evaluate(einsum("ij,jk->ik", {a.tensor, b.tensor}), {a, b}), (Values{10, 13, 28, 40}));
  EXPECT_EQ(evaluate(einsum("ij,jk", {a.tensor, b.tensor}), {a, b}), (Values{10, 13, 28, 40}));
  EXPECT_EQ(evaluate(einsum("ij,jk->ki", {a.tensor, b.tensor}), {a, b}), (Values{10, 28, 13, 40}));
  EXPECT_EQ(evaluate(einsum("ii", {square.tensor}), {square}), (Values{12}));
  EXPECT_EQ(evaluate(einsum("ii->i", {square.tensor}), {square}), (Values{0, 4, 8}));
  EXPECT_EQ(evaluate(einsum("...j->...", {cube.tensor}), {cube}), (Values{1, 5, 9, 13, 17, 21}));
  EXPECT_EQ(evaluate(einsum("ab,abc->c", {a.tensor, cube.tensor}), {a, cube}), (Values{110, 125}));
  const Leaf left = leaf({2}, {1, 2}), right = leaf({2}, {3, 4});
  EXPECT_EQ(evaluate(einsum("i,j->ij", {left.tensor, right.tensor}), {left, right}), (Values{3, 4, 6, 8}));
}

TEST(Einsum, RefusesWhatDoesNotFit) {
  const Leaf a = counted({2, 3}), b = counted({2, 2});
  const auto why = [&](std::string_view equation, const std::vector<Tensor>& operands) {
    return test::message_of([&] { einsum(equation, operands); });
  };
  EXPECT_NE(why("ij,jk->ik", {a.tensor, b.tensor}).find("the extents 3 and 2"), std::string::npos);
  EXPECT_NE(why("ij->ij", {a.tensor, b.tensor}).find("another number of terms than the 2 tensors"), std::string::npos);
  EXPECT_NE(why("ijk->i", {a.tensor}).find("does not fit a tensor of 2 axes"), std::string::npos);
  EXPECT_NE(why("ij->ii", {a.tensor}).find("twice in the result"), std::string::npos);
  EXPECT_NE(why("ij->k", {a.tensor}).find("an index of no term"), std::string::npos);
  EXPECT_NE(why("i1->i", {a.tensor}).find("expected letters"), std::string::npos);
  EXPECT_NE(why("i......j", {a.tensor}).find("one '...' a term"), std::string::npos);
}

// ---- shorthands

TEST(Shorthands, AreTheOperationsThatTheyStandFor) {
  const Leaf x = counted({2, 3});
  EXPECT_EQ(evaluate(x.tensor[1], {x}), (Values{3, 4, 5}));
  EXPECT_EQ(evaluate(x.tensor[-2][2], {x}), (Values{2}));
  EXPECT_THROW(x.tensor[2], Error);
  EXPECT_THROW(sum(x.tensor)[0], Error);
  EXPECT_EQ(evaluate(mean(x.tensor), {x}), (Values{2.5}));
  EXPECT_EQ(evaluate(where(greater(x.tensor, constant(2, DType::kFloat64)), x.tensor, -x.tensor), {x}),
            (Values{0, -1, -2, 3, 4, 5}));
  EXPECT_EQ(evaluate(stack({x.tensor[0], x.tensor[1]}, -1), {x}), (Values{0, 3, 1, 4, 2, 5}));
}

// ---- random numbers

TEST(RandomNormal, HasTheMomentsOfTheNormalDistribution) {
  const Leaf key = leaf({2}, {7, 0}, DType::kInt64);
  const Values draws = evaluate(random_normal(key.tensor, {40001}), {key});
  double first = 0, second = 0, fourth = 0;
  for (const double x : draws) first += x, second += x * x, fourth += x * x * x * x;
  const auto count = static_cast<double>(draws.size());
  // Five standard errors of each: 1, sqrt(2) and sqrt(96) over the root of the count.
  EXPECT_NEAR(first / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(second / count, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourth / count, 3, 5 * std::sqrt(96 / count));
}

// The known answers of Random123 for Philox4x32-10, all bits clear.
TEST(RandomBits, ArePhilox) {
  const Leaf key = leaf({2}, {0, 0}, DType::kInt64);
  EXPECT_EQ(evaluate(random_bits(key.tensor, {4}), {key}), (Values{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(RandomBits, DependOnPlaceAndOffset) {
  const Leaf key = leaf({2}, {7, 0}, DType::kInt64), next = leaf({2}, {7, 1}, DType::kInt64);
  const Values few = evaluate(random_bits(key.tensor, {5}), {key}),
               many = evaluate(random_bits(key.tensor, {2, 5}), {key});
  EXPECT_EQ(few, Values(many.begin(), many.begin() + 5));
  EXPECT_NE(few, evaluate(random_bits(next.tensor, {5}), {next}));
}

TEST(RandomUniform, StaysBelowOneInEveryType) {
  const Leaf key = leaf({2}, {7, 0}, DType::kInt64);
  for (const auto& [dtype, bits] : {std::pair{DType::kFloat32, 24}, {DType::kFloat16, 11}, {DType::kBFloat16, 8}}) {
    double total = 0;
    const Values values = evaluate(random_uniform(key.tensor, {10'000}, dtype), {key});
    for (const double x : values) {
      ASSERT_TRUE(x >= 0 && x < 1);
      ASSERT_EQ(std::ldexp(x, bits), std::floor(std::ldexp(x, bits)));  // exact in the type
      total += x;
    }
    EXPECT_NEAR(total / 10'000, 0.5, 0.02);
  }
}

TEST(Dropout, ScalesWhatItKeeps) {
  const Leaf x = leaf({1000}, Values(1000, 1.0)), key = leaf({2}, {3, 4}, DType::kInt64);
  int dropped = 0;
  for (const double y : evaluate(dropout(x.tensor, key.tensor, 0.25), {x, key})) {
    EXPECT_TRUE(y == 0 || y == 1 / 0.75);
    dropped += y == 0;
  }
  EXPECT_NEAR(dropped, 250, 60);
  EXPECT_TRUE(dropout(x.tensor, key.tensor, 0).same_as(x.tensor));
}

}  // namespace
}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// What kernels compute, against float64.
#include <cmath>
#include <functional>

#include "synapse/harness.h"
#include "synapse/params.h"

namespace synapse_tests {
namespace {

using namespace synapse_emulator;

// Half a unit in the last place of the type for each element, and the error of the computation in f32.
void expect_close(const Value& found, const std::vector<double>& expected, double relative, const std::string& what) {
  const double unit = found.type == syn_type_bf16 ? 1.0 / 256 : found.type == syn_type_single ? 1.0 / (1 << 24) : 0;
  const std::vector<double> numbers = found.numbers();
  ASSERT_EQ(numbers.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(numbers[i])) << what << " at " << i;
      continue;
    }
    EXPECT_NEAR(numbers[i], expected[i], std::abs(expected[i]) * (unit + relative) + relative * 1e-2)
        << what << " at " << i;
  }
}

struct Unary {
  const char* guid;
  double low, high;
  std::function<double(double)> exact;
};

TEST(SynapseNumbers, KernelsOfOneInput) {
  const std::vector<Unary> all = {
      {"neg_fwd", -2, 2, [](double x) { return -x; }},
      {"abs_fwd", -2, 2, [](double x) { return std::abs(x); }},
      {"sign_fwd", -2, 2, [](double x) { return x > 0   ? 1.0
                                                : x < 0 ? -1.0
                                                        : 0.0; }},
      {"relu_fwd", -2, 2, [](double x) { return x > 0 ? x : 0; }},
      {"floor_fwd", -9, 9, [](double x) { return std::floor(x); }},
      {"ceil_fwd", -9, 9, [](double x) { return std::ceil(x); }},
      {"exp_fwd", -9, 9, [](double x) { return std::exp(x); }},
      {"log_fwd", 0.01, 9, [](double x) { return std::log(x); }},
      {"log1p_fwd", 0, 9, [](double x) { return std::log1p(x); }},
      {"expm1_fwd", -1, 1, [](double x) { return std::expm1(x); }},
      {"sqrt_fwd", 0, 9, [](double x) { return std::sqrt(x); }},
      {"rsqrt_fwd", 0.01, 9, [](double x) { return 1 / std::sqrt(x); }},
      {"reciprocal_fwd", 0.1, 9, [](double x) { return 1 / x; }},
      {"tanh_fwd", -4, 4, [](double x) { return std::tanh(x); }},
      {"sigmoid_fwd", -9, 9, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"silu_fwd", -9, 9, [](double x) { return x / (1 + std::exp(-x)); }},
      {"erf_fwd", -3, 3, [](double x) { return std::erf(x); }},
      {"sin_fwd", -3, 3, [](double x) { return std::sin(x); }},
      {"cos_fwd", -3, 3, [](double x) { return std::cos(x); }},
  };
  EXPECT_TRUE(in_child({}, [&] {
    Card card;
    for (const Unary& kernel : all) {
      for (const synDataType type : {syn_type_single, syn_type_bf16}) {
        const Value x = value({7, 3, 5}, some(105, kernel.low, kernel.high), type);
        Value y = empty(x.sizes, type);
        const std::string guid = std::string(kernel.guid) + (type == syn_type_bf16 ? "_bf16" : "_f32");
        ASSERT_EQ(card.node(guid, {&x}, {&y}), 0) << guid;
        std::vector<double> expected;
        for (const double number : x.numbers()) expected.push_back(kernel.exact(number));
        expect_close(y, expected, 1e-6, guid);
      }
    }
  }));
}

TEST(SynapseNumbers, KernelsOfTwoInputsBroadcast) {
  const std::vector<std::pair<std::string, std::function<double(double, double)>>> all = {
      {"add_fwd", [](double a, double b) { return a + b; }},
      {"sub_fwd", [](double a, double b) { return a - b; }},
      {"mult_fwd", [](double a, double b) { return a * b; }},
      {"div_fwd", [](double a, double b) { return a / b; }},
      {"max_fwd", [](double a, double b) { return std::max(a, b); }},
      {"min_fwd", [](double a, double b) { return std::min(a, b); }},
      {"pow_fwd", [](double a, double b) { return std::pow(a, b); }},
  };
  EXPECT_TRUE(in_child({}, [&] {
    Card card;
    for (const auto& [name, exact] : all) {
      for (const synDataType type : {syn_type_single, syn_type_bf16}) {
        const Value a = value({5, 1, 3}, some(15, 0.1, 2), type);
        const Value b = value({5, 4}, some(20, 0.1, 2, 2), type);
        Value c = empty({5, 4, 3}, type);
        const std::string guid = name + (type == syn_type_bf16 ? "_bf16" : "_f32");
        ASSERT_EQ(card.node(guid, {&a, &b}, {&c}), 0) << guid;
        std::vector<double> expected;
        for (size_t i = 0; i < 60; ++i) expected.push_back(exact(a.numbers()[i % 5 + i / 20 * 5], b.numbers()[i % 20]));
        expect_close(c, expected, 1e-6, guid);
      }
    }
    const Value a = value({4}, {7, -7, 2147483647, 5}, syn_type_int32);
    const Value b = value({4}, {2, 2, 1, -3}, syn_type_int32);
    Value c = empty({4}, syn_type_int32);
    ASSERT_EQ(card.node("add_fwd_i32", {&a, &b}, {&c}), 0);
    EXPECT_EQ(c.numbers(), (std::vector<double>{9, -5, -2147483648.0, 2}));  // wraps
    ASSERT_EQ(card.node("div_fwd_i32", {&a, &b}, {&c}), 0);
    EXPECT_EQ(c.numbers(), (std::vector<double>{3, -3, 2147483647, -1}));  // towards zero
    ASSERT_EQ(card.node("rem_fwd_i32", {&a, &b}, {&c}), 0);
    EXPECT_EQ(c.numbers(), (std::vector<double>{1, 1, 0, -1}));  // the sign of the divisor
    Value less = empty({4}, syn_type_int8);
    ASSERT_EQ(card.node("less_fwd_i32", {&a, &b}, {&less}), 0);
    EXPECT_EQ(less.numbers(), (std::vector<double>{0, 1, 0, 0}));
    ASSERT_EQ(card.node("where_fwd_i32", {&less, &a, &b}, {&c}), 0);
    EXPECT_EQ(c.numbers(), (std::vector<double>{2, -7, 1, -3}));
  }));
}

TEST(SynapseNumbers, MatrixProducts) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const int64_t m = 37, k = 19, n = 21;
    for (const synDataType type : {syn_type_single, syn_type_bf16}) {
      for (const bool turn_a : {false, true}) {
        for (const bool turn_b : {false, true}) {
          const Value a = value(turn_a ? std::vector<uint64_t>{m, k} : std::vector<uint64_t>{k, m}, some(m * k), type);
          const Value b =
              value(turn_b ? std::vector<uint64_t>{k, n} : std::vector<uint64_t>{n, k}, some(k * n, -2, 2, 2), type);
          Value c = empty({n, m}, type);
          const GemmParams params{turn_a, turn_b};
          ASSERT_EQ(card.node("gemm", {&a, &b}, {&c}, &params, sizeof params), 0);
          const auto left = a.numbers(), right = b.numbers();
          std::vector<double> expected;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (int64_t l = 0; l < k; ++l)
                sum += left[static_cast<size_t>(turn_a ? l * m + i : i * k + l)] *
                       right[static_cast<size_t>(turn_b ? j * k + l : l * n + j)];
              expected.push_back(sum);
            }
          }
          expect_close(c, expected, 1e-4, "gemm");
        }
      }
    }
    // One batch dim is repeated.
    const Value a = value({2, 3, 1, 2}, some(12)), b = value({4, 2, 5, 1}, some(40, -2, 2, 3));
    Value c = empty({4, 3, 5, 2});
    ASSERT_EQ(card.node("batch_gemm", {&a, &b}, {&c}), 0);
    std::vector<double> expected;
    for (size_t y = 0; y < 2; ++y)
      for (size_t x = 0; x < 5; ++x)
        for (size_t i = 0; i < 3; ++i)
          for (size_t j = 0; j < 4; ++j)
            expected.push_back(a.numbers()[y * 6 + i * 2] * b.numbers()[x * 8 + j] +
                               a.numbers()[y * 6 + i * 2 + 1] * b.numbers()[x * 8 + 4 + j]);
    expect_close(c, expected, 1e-5, "batch_gemm");
  }));
}

TEST(SynapseNumbers, Casts) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value x = value({6}, {1.00390625, 1.01171875, -3.5, 300, 2.5, -0.25});
    Value bf16 = empty({6}, syn_type_bf16);
    ASSERT_EQ(card.node("cast_f32_to_bf16", {&x}, {&bf16}), 0);
    EXPECT_EQ(bf16.numbers(), (std::vector<double>{1, 1.015625, -3.5, 300, 2.5, -0.25}));  // ties to even
    Value i32 = empty({6}, syn_type_int32);
    ASSERT_EQ(card.node("cast_f32_to_i32", {&x}, {&i32}), 0);
    EXPECT_EQ(i32.numbers(), (std::vector<double>{1, 1, -3, 300, 2, 0}));  // towards zero
    const CastParams nearest{0};
    ASSERT_EQ(card.node("cast_f32_to_i32", {&x}, {&i32}, &nearest, sizeof nearest), 0);
    EXPECT_EQ(i32.numbers(), (std::vector<double>{1, 1, -4, 300, 2, 0}));
    Value i8 = empty({6}, syn_type_int8);
    ASSERT_EQ(card.node("cast_f32_to_i8", {&x}, {&i8}), 0);
    EXPECT_EQ(i8.numbers(), (std::vector<double>{1, 1, -3, 127, 2, 0}));  // saturates
  }));
}

TEST(SynapseNumbers, Movement) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    std::vector<double> count;
    for (int i = 0; i < 24; ++i) count.push_back(i);
    const Value x = value({4, 3, 2}, count);
    Value turned = empty({2, 4, 3});
    const TransposeParams order{{2, 0, 1, 0, 0}, 3};
    ASSERT_EQ(card.node("transpose", {&x}, {&turned}, &order, sizeof order), 0);
    for (size_t a = 0; a < 2; ++a)
      for (size_t b = 0; b < 4; ++b)
        for (size_t c = 0; c < 3; ++c) EXPECT_EQ(turned.numbers()[a + 2 * b + 8 * c], count[b + 4 * c + 12 * a]);
    SliceParams part = {};
    part.axes[0] = 0, part.starts[0] = 1, part.ends[0] = 4, part.steps[0] = 2;
    part.axes[1] = 1, part.starts[1] = 1, part.ends[1] = 3, part.steps[1] = 1;
    part.axes[2] = 2, part.starts[2] = 0, part.ends[2] = 2, part.steps[2] = 1;
    Value piece = empty({2, 2, 2});
    ASSERT_EQ(card.node("slice", {&x}, {&piece}, &part, sizeof part), 0);
    EXPECT_EQ(piece.numbers(), (std::vector<double>{5, 7, 9, 11, 17, 19, 21, 23}));
    const Value ones = value({2, 2, 2}, std::vector<double>(8, -1));
    Value inserted = empty(x.sizes);
    ASSERT_EQ(card.node("slice_insert", {&x, &ones}, {&inserted}, &part, sizeof part), 0);
    EXPECT_EQ(inserted.numbers()[5], -1);
    EXPECT_EQ(inserted.numbers()[6], 6);
    const Value a = value({2, 2}, {0, 1, 2, 3}), b = value({1, 2}, {8, 9});
    Value joined = empty({3, 2});
    const AxisParams first{0};
    ASSERT_EQ(card.node("concat", {&a, &b}, {&joined}, &first, sizeof first), 0);
    EXPECT_EQ(joined.numbers(), (std::vector<double>{0, 1, 8, 2, 3, 9}));
    Value left = empty({2, 2}), right = empty({1, 2});
    ASSERT_EQ(card.node("split", {&joined}, {&left, &right}, &first, sizeof first), 0);
    EXPECT_EQ(left.numbers(), a.numbers());
    EXPECT_EQ(right.numbers(), b.numbers());
    Value wide = empty({2, 2, 2});
    const Value row = value({2, 1, 2}, {1, 2, 3, 4});
    ASSERT_EQ(card.node("broadcast", {&row}, {&wide}), 0);
    EXPECT_EQ(wide.numbers(), (std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4}));
    PadParams pad = {};
    pad.value.f = 7, pad.pads[0] = 1, pad.pads[3] = 1;
    Value padded = empty({3, 3});
    ASSERT_EQ(card.node("pad_fwd_f32", {&a}, {&padded}, &pad, sizeof pad), 0);
    EXPECT_EQ(padded.numbers(), (std::vector<double>{7, 0, 1, 7, 2, 3, 7, 7, 7}));
  }));
}

TEST(SynapseNumbers, Reductions) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value x = value({70, 3, 2}, some(420));
    const auto numbers = x.numbers();
    Value sum = empty({70, 1, 2});
    const ReductionParams one{1};
    ASSERT_EQ(card.node("reduce_sum_fwd_f32", {&x}, {&sum}, &one, sizeof one), 0);
    std::vector<double> expected;
    for (size_t c = 0; c < 2; ++c)
      for (size_t a = 0; a < 70; ++a)
        expected.push_back(numbers[a + 210 * c] + numbers[a + 70 + 210 * c] + numbers[a + 140 + 210 * c]);
    expect_close(sum, expected, 1e-5, "reduce_sum");
    ReductionMaskParams many = {};
    many.dimMask = 5;
    Value mean = empty({3});
    ASSERT_EQ(card.node("reduce_mean_multi_dim_fwd_f32", {&x}, {&mean}, &many, sizeof many), 0);
    Value largest = empty({3}), place = empty({3}, syn_type_int32);
    ASSERT_EQ(card.node("reduce_max_multi_dim_fwd_f32", {&x}, {&largest}, &many, sizeof many), 0);
    std::vector<double> means, maxima;
    for (size_t b = 0; b < 3; ++b) {
      double total = 0, most = -9;
      for (size_t c = 0; c < 2; ++c)
        for (size_t a = 0; a < 70; ++a) {
          total += numbers[a + 70 * b + 210 * c];
          most = std::max(most, numbers[a + 70 * b + 210 * c]);
        }
      means.push_back(total / 140);
      maxima.push_back(most);
    }
    expect_close(mean, means, 1e-5, "reduce_mean");
    expect_close(largest, maxima, 0, "reduce_max");
    const Value list = value({4, 2}, {1, 5, 5, 2, 9, 0, 0, 1}, syn_type_int32);
    ReductionMaskParams rows = {};
    rows.dimMask = 1;
    Value best = empty({2}, syn_type_int32);
    ASSERT_EQ(card.node("argmax_multi_dim_fwd_i32", {&list}, {&best}, &rows, sizeof rows), 0);
    EXPECT_EQ(best.numbers(), (std::vector<double>{1, 0}));  // the first of equals
  }));
}

}  // namespace
}  // namespace synapse_tests

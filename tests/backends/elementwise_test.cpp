// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Unary {
  const char* op;
  double (*function)(double);
  double low, high;
};

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double rsqrt(double x) { return 1 / std::sqrt(x); }

const Unary kUnary[] = {{"neg", [](double x) { return -x; }, -5, 5},
                        {"abs", std::abs, -5, 5},
                        {"sign", sign, -5, 5},
                        {"exp", std::exp, -8, 8},
                        {"expm1", std::expm1, -8, 8},
                        {"log", std::log, 0.001, 50},
                        {"log1p", std::log1p, -0.9, 50},
                        {"sqrt", std::sqrt, 0, 50},
                        {"rsqrt", rsqrt, 0.01, 50},
                        {"tanh", std::tanh, -12, 12},
                        {"erf", std::erf, -6, 6},
                        {"sin", std::sin, -200, 200},
                        {"cos", std::cos, -200, 200},
                        {"floor", std::floor, -9, 9},
                        {"ceil", std::ceil, -9, 9},
                        {"round", std::nearbyint, -9, 9}};

TEST(Elementwise, UnaryFunctionsOfAllFloats) {
  for (const Unary& unary : kUnary) {
    for (transom_dtype dtype : kFloats) {
      for (int64_t count : {0, 1, 7, 512, 513, 100003}) {
        const Tensor x = numbers(dtype, {count}, unary.low, unary.high);
        std::vector<double> expected;
        for (double value : x.values) expected.push_back(unary.function(value));
        const Tensor y = evaluate(unary.op, {x}, dtype, {count});
        EXPECT_LE(difference(y, expected, 1e-2), tolerance(dtype)) << unary.op << " " << dtype << " " << count;
      }
    }
  }
}

// Errors in units of the last place of f32, over the whole range.
TEST(Elementwise, FunctionsOfF32AreAccurate) {
  const Unary cases[] = {
      {"exp", std::exp, -87, 88},     {"expm1", std::expm1, -20, 88},   {"expm1", std::expm1, -1e-3, 1e-3},
      {"log", std::log, 1e-30, 1e30}, {"log", std::log, 0.5, 2},        {"log1p", std::log1p, -0.99, 1},
      {"tanh", std::tanh, -9, 9},     {"tanh", std::tanh, -0.01, 0.01}, {"tanh", std::tanh, 4, 9},
      {"erf", std::erf, -4, 4},       {"erf", std::erf, -0.01, 0.01},   {"erf", std::erf, 2, 4},
      {"sin", std::sin, -1e4, 1e4},   {"cos", std::cos, -1e4, 1e4}};
  for (const Unary& unary : cases) {
    const Tensor x = numbers(TRANSOM_FLOAT32, {200000}, unary.low, unary.high);
    const Tensor y = evaluate(unary.op, {x}, TRANSOM_FLOAT32, x.shape);
    double worst = 0;
    for (size_t i = 0; i < x.values.size(); ++i) {
      const double exact = unary.function(x.values[i]);
      int exponent;
      std::frexp(std::max(std::abs(exact), unary.high > 1000 && unary.op[0] != 'l' ? 0.1 : 1e-37), &exponent);
      worst = std::max(worst, std::abs(y.values[i] - exact) / std::ldexp(1.0, exponent - 24));
    }
    EXPECT_LE(worst, 4) << unary.op << " in [" << unary.low << ", " << unary.high << "]";
    RecordProperty(unary.op, std::to_string(worst));
  }
}

// What is left of 1 decides what gelu is for numbers far below zero, and ties decide an order.
TEST(Elementwise, ErfRisesToOneAndNotBefore) {
  std::vector<double> values;
  for (int i = 0; i <= 100000; ++i) values.push_back(2 + 2.0 * i / 100000);
  const Tensor x = tensor(TRANSOM_FLOAT32, {static_cast<int64_t>(values.size())}, values);
  const Tensor y = evaluate("erf", {x}, TRANSOM_FLOAT32, x.shape);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) {
      EXPECT_GE(y.values[i], y.values[i - 1]) << values[i];
    }
    if (values[i] < 3.8) {
      EXPECT_LT(y.values[i], 1) << values[i];
    }
  }
  EXPECT_EQ(y.values.back(), 1);
}

TEST(Elementwise, OddFunctionsKeepTheSignOfZero) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {2}, {0.0, -0.0});
  for (const char* op : {"abs", "expm1", "log1p", "sqrt", "tanh", "erf", "sin", "floor", "ceil", "round"}) {
    const Tensor y = evaluate(op, {x}, TRANSOM_FLOAT32, x.shape);
    EXPECT_EQ(y.values, (std::vector<double>{0, 0})) << op;
    EXPECT_FALSE(std::signbit(y.values[0])) << op;
    EXPECT_EQ(std::signbit(y.values[1]), std::string(op) != "abs") << op;
  }
}

TEST(Elementwise, SpecialValuesOfF32) {
  const std::vector<double> special = {0.0,  -0.0,  kInfinity, -kInfinity, kNaN, 1e-40, -1e-40,
                                       1e38, -1e38, 1,         -1,         -2,   1e9};
  const Tensor x = tensor(TRANSOM_FLOAT32, {static_cast<int64_t>(special.size())}, special);
  for (const Unary& unary : kUnary) {
    const Tensor y = evaluate(unary.op, {x}, TRANSOM_FLOAT32, x.shape);
    for (size_t i = 0; i < special.size(); ++i) {
      const float in = static_cast<float>(special[i]);
      const double expected = static_cast<float>(unary.function(in)), found = y.values[i];
      if (std::isnan(expected)) EXPECT_TRUE(std::isnan(found)) << unary.op << "(" << in << ") = " << found;
      else if (std::isinf(expected)) EXPECT_EQ(found, expected) << unary.op << "(" << in << ")";
      else EXPECT_NEAR(found, expected, std::abs(expected) * 1e-6 + 1e-44) << unary.op << "(" << in << ")";
    }
  }
  const Tensor finite = evaluate("is_finite", {x}, TRANSOM_BOOL, x.shape);
  for (size_t i = 0; i < special.size(); ++i) EXPECT_EQ(finite.values[i], std::isfinite(special[i])) << special[i];
}

struct Binary {
  const char* op;
  double (*function)(double, double);
  bool compares;
};

double remainder(double x, double y) {
  const double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

const Binary kBinary[] = {{"add", [](double x, double y) { return x + y; }, false},
                          {"sub", [](double x, double y) { return x - y; }, false},
                          {"mul", [](double x, double y) { return x * y; }, false},
                          {"div", [](double x, double y) { return x / y; }, false},
                          {"max", [](double x, double y) { return std::max(x, y); }, false},
                          {"min", [](double x, double y) { return std::min(x, y); }, false},
                          {"remainder", remainder, false},
                          {"equal", [](double x, double y) { return double(x == y); }, true},
                          {"not_equal", [](double x, double y) { return double(x != y); }, true},
                          {"less", [](double x, double y) { return double(x < y); }, true},
                          {"less_equal", [](double x, double y) { return double(x <= y); }, true},
                          {"greater", [](double x, double y) { return double(x > y); }, true},
                          {"greater_equal", [](double x, double y) { return double(x >= y); }, true}};

TEST(Elementwise, BinaryOperationsOfAllTypes) {
  std::vector<transom_dtype> dtypes = kFloats;
  dtypes.insert(dtypes.end(), kIntegers.begin(), kIntegers.end());
  for (const Binary& binary : kBinary) {
    for (transom_dtype dtype : dtypes) {
      const bool floating = dtype >= TRANSOM_FLOAT16, is_unsigned = dtype == TRANSOM_UINT8 || dtype == TRANSOM_UINT32;
      const Shape shape = {3, 347};
      // Small positive ranges for unsigned types, so that plain float64 arithmetic is the truth.
      const Tensor x = numbers(dtype, shape, is_unsigned ? 10 : -11, is_unsigned ? 15 : 11, 3);
      Tensor y = numbers(dtype, shape, is_unsigned ? 1 : -9, 9, 5);
      for (double& value : y.values)
        if (value == 0) value = 1;
      std::vector<double> expected;
      for (size_t i = 0; i < x.values.size(); ++i) {
        const double value = binary.function(x.values[i], y.values[i]);
        expected.push_back(floating ? value : std::trunc(value));
      }
      const Tensor z = evaluate(binary.op, {x, y}, binary.compares ? TRANSOM_BOOL : dtype, shape);
      EXPECT_LE(difference(z, expected, 0.1), binary.compares ? 0 : tolerance(dtype)) << binary.op << " " << dtype;
    }
  }
}

TEST(Elementwise, PowerOfFloatsAndIntegers) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {1000}, 0.01, 20), y = numbers(TRANSOM_FLOAT32, {1000}, -3, 3, 9);
  std::vector<double> expected;
  for (size_t i = 0; i < x.values.size(); ++i) expected.push_back(std::pow(x.values[i], y.values[i]));
  EXPECT_LE(difference(evaluate("pow", {x, y}, TRANSOM_FLOAT32, {1000}), expected, 1e-9), 1e-6);
  const Tensor base = tensor(TRANSOM_INT32, {5}, {2, -3, 7, 1, 0}),
               exponent = tensor(TRANSOM_INT32, {5}, {10, 3, 0, -4, 2});
  EXPECT_EQ(evaluate("pow", {base, exponent}, TRANSOM_INT32, {5}).values, (std::vector<double>{1024, -27, 1, 1, 0}));
}

TEST(Elementwise, ExtremesHandOnNaN) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {4}, {1, kNaN, 3, kNaN}),
               y = tensor(TRANSOM_FLOAT32, {4}, {kNaN, 2, 4, kNaN});
  for (const char* op : {"max", "min"}) {
    const Tensor z = evaluate(op, {x, y}, TRANSOM_FLOAT32, {4});
    EXPECT_TRUE(std::isnan(z.values[0]) && std::isnan(z.values[1]) && std::isnan(z.values[3])) << op;
    EXPECT_EQ(z.values[2], op[1] == 'a' ? 4 : 3);
  }
}

TEST(Elementwise, IntegerDivisionNeverTraps) {
  const double lowest = std::numeric_limits<int32_t>::min();
  const Tensor x = tensor(TRANSOM_INT32, {4}, {lowest, 5, -7, 0}), y = tensor(TRANSOM_INT32, {4}, {-1, 0, 2, 0});
  EXPECT_EQ(evaluate("div", {x, y}, TRANSOM_INT32, {4}).values, (std::vector<double>{lowest, 0, -3, 0}));
  EXPECT_EQ(evaluate("remainder", {x, y}, TRANSOM_INT32, {4}).values, (std::vector<double>{0, 0, 1, 0}));
}

TEST(Elementwise, Logic) {
  const Tensor x = tensor(TRANSOM_BOOL, {4}, {0, 0, 1, 1}), y = tensor(TRANSOM_BOOL, {4}, {0, 1, 0, 1});
  EXPECT_EQ(evaluate("logical_and", {x, y}, TRANSOM_BOOL, {4}).values, (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(evaluate("logical_or", {x, y}, TRANSOM_BOOL, {4}).values, (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(evaluate("logical_xor", {x, y}, TRANSOM_BOOL, {4}).values, (std::vector<double>{0, 1, 1, 0}));
  EXPECT_EQ(evaluate("logical_not", {x}, TRANSOM_BOOL, {4}).values, (std::vector<double>{1, 1, 0, 0}));
  const Tensor a = tensor(TRANSOM_INT64, {2}, {12, -1}), b = tensor(TRANSOM_INT64, {2}, {10, 255});
  EXPECT_EQ(evaluate("logical_and", {a, b}, TRANSOM_INT64, {2}).values, (std::vector<double>{8, 255}));
  EXPECT_EQ(evaluate("logical_xor", {a, b}, TRANSOM_INT64, {2}).values, (std::vector<double>{6, -256}));
}

TEST(Elementwise, SelectOfAllTypes) {
  std::vector<transom_dtype> dtypes = kFloats;
  dtypes.insert(dtypes.end(), kIntegers.begin(), kIntegers.end());
  const Tensor condition = numbers(TRANSOM_BOOL, {700}, 0, 1.99);
  for (transom_dtype dtype : dtypes) {
    const Tensor x = numbers(dtype, {700}, 0, 100, 2), y = numbers(dtype, {700}, 0, 100, 3);
    std::vector<double> expected;
    for (size_t i = 0; i < 700; ++i) expected.push_back(condition.values[i] != 0 ? x.values[i] : y.values[i]);
    EXPECT_EQ(evaluate("select", {condition, x, y}, dtype, {700}).values, expected) << dtype;
  }
}

TEST(Elementwise, CastBetweenAllTypes) {
  std::vector<transom_dtype> dtypes = kFloats;
  dtypes.insert(dtypes.end(), kIntegers.begin(), kIntegers.end());
  dtypes.push_back(TRANSOM_BOOL);
  for (transom_dtype from : dtypes) {
    for (transom_dtype to : dtypes) {
      const Tensor x = numbers(from, {1031}, 0, 100);
      std::vector<double> expected;
      for (double value : x.values) expected.push_back(to == TRANSOM_BOOL ? value != 0 : rounded(to, value));
      EXPECT_EQ(evaluate("cast", {x}, to, {1031}, {{"dtype", to}}).values, expected) << from << " to " << to;
    }
  }
  const Tensor negative = tensor(TRANSOM_FLOAT32, {3}, {-1.7, -0.3, 2.9});
  EXPECT_EQ(evaluate("cast", {negative}, TRANSOM_INT64, {3}, {{"dtype", TRANSOM_INT64}}).values,
            (std::vector<double>{-1, 0, 2}));
}

TEST(Elementwise, HalfRoundsToNearestEvenAndKeepsSpecialValues) {
  const std::vector<double> values = {1.00048828125, 1.00146484375, 65519,      65520, 6e-8,
                                      2.9e-8,        5.96e-8 * 1.5, -kInfinity, kNaN};
  const Tensor x = tensor(TRANSOM_FLOAT32, {9}, values);
  for (transom_dtype dtype : {TRANSOM_FLOAT16, TRANSOM_BFLOAT16}) {
    const Tensor y = evaluate("cast", {x}, dtype, {9}, {{"dtype", dtype}});
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(y.values[i], rounded(dtype, values[i])) << dtype << " " << values[i];
    EXPECT_TRUE(std::isnan(y.values[8]));
  }
}

TEST(Elementwise, RankZero) {
  const Tensor x = tensor(TRANSOM_FLOAT32, {}, {3}), y = tensor(TRANSOM_FLOAT32, {}, {4});
  EXPECT_EQ(evaluate("mul", {x, y}, TRANSOM_FLOAT32, {}).values, std::vector<double>{12});
}

TEST(Elementwise, RefusesWhatIsNotDefined) {
  const Tensor x = tensor(TRANSOM_INT32, {2}, {1, 2}), y = tensor(TRANSOM_FLOAT32, {2}, {1, 2});
  EXPECT_NE(failure_of("exp", {x}, TRANSOM_INT32, {2}), "");
  EXPECT_NE(failure_of("add", {x, y}, TRANSOM_INT32, {2}), "");
  EXPECT_NE(failure_of("add", {x}, TRANSOM_INT32, {2}), "");
  EXPECT_NE(failure_of("no_such_operation", {x}, TRANSOM_INT32, {2}), "");
}

}  // namespace
}  // namespace transom::backend_test

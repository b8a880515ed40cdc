// SPDX-License-Identifier: Apache-2.0
// Primitives that work element by element. Broadcasting is an operation of its own, which the functions for users
// insert.
#include <cmath>

#include "graph/ops/function_records.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Gradients = std::vector<Tensor>;

// ---- shape rules

std::vector<Type> same_as_first(const Inference& in) { return {in.inputs[0]}; }

std::vector<Type> infer_floating(const Inference& in) {
  expect_inputs(in, 1);
  expect_floating(in, 0);
  return same_as_first(in);
}
std::vector<Type> infer_number(const Inference& in) {
  expect_inputs(in, 1);
  check(in, in.dtype(0) != DType::kBool, "expected numbers, found bool");
  return same_as_first(in);
}
std::vector<Type> infer_binary(const Inference& in) {
  expect_inputs(in, 2);
  expect_same_types(in, 0, 1);
  expect_same_shape(in, 0, 1);
  check(in, in.dtype(0) != DType::kBool, "expected numbers, found bool; use logical_and, logical_or or cast");
  return same_as_first(in);
}
std::vector<Type> infer_logical(const Inference& in) {
  expect_inputs(in, 2);
  expect_same_types(in, 0, 1);
  expect_same_shape(in, 0, 1);
  check(in, !is_floating(in.dtype(0)), "expected bool or integers, found {}", in.inputs[0]);
  return same_as_first(in);
}
std::vector<Type> infer_comparison(const Inference& in) {
  expect_inputs(in, 2);
  expect_same_types(in, 0, 1);
  expect_same_shape(in, 0, 1);
  return {{DType::kBool, in.shape(0)}};
}

// ---- float64 references

// Integers are computed as integers: a double has only 53 bits.
template <auto real, auto integer>
void evaluate_unary(std::span<const Array> in, const Attributes&, std::span<Array> out) {
  const int64_t count = elements(out[0].type.shape);
  for (int64_t i = 0; i < count; ++i) {
    if (in[0].floating()) out[0].set(i, real(in[0].real[static_cast<size_t>(i)]));
    else out[0].integer[static_cast<size_t>(i)] = integer(in[0].integer[static_cast<size_t>(i)]);
  }
}

template <auto real, auto integer>
void evaluate_binary(std::span<const Array> in, const Attributes&, std::span<Array> out) {
  const auto count = static_cast<size_t>(elements(out[0].type.shape));
  for (size_t i = 0; i < count; ++i) {
    if (in[0].floating()) out[0].set(static_cast<int64_t>(i), real(in[0].real[i], in[1].real[i]));
    else out[0].integer[i] = integer(in[0].integer[i], in[1].integer[i]);
  }
}

template <auto relation>
void evaluate_comparison(std::span<const Array> in, const Attributes&, std::span<Array> out) {
  for (size_t i = 0; i < out[0].integer.size(); ++i)
    out[0].integer[i] =
        in[0].floating() ? relation(in[0].real[i], in[1].real[i]) : relation(in[0].integer[i], in[1].integer[i]);
}

double no_real(double, double) { return 0; }
double no_bool(double) { return 0; }
int64_t no_integer(int64_t) { return 0; }

double maximum_of(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y); }
double minimum_of(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y); }
double remainder_of(double x, double y) {  // has the sign of y, as Python's
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
int64_t wrapping_subtract(int64_t x, int64_t y) { return wrapping_add(x, wrapping_multiply(y, -1)); }
int64_t negative_of(int64_t x) { return wrapping_subtract(0, x); }
int64_t magnitude_of(int64_t x) { return x < 0 ? negative_of(x) : x; }
template <typename Number>
Number sign_of(Number x) {
  return x != x ? x : static_cast<Number>((x > 0) - (x < 0));  // of -0: +0, as in PyTorch
}
int64_t divide_of(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? negative_of(x) : x / y; }
int64_t integer_remainder_of(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  const int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
int64_t integer_power_of(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; y > 0; y >>= 1, x = wrapping_multiply(x, x))
    if (y & 1) result = wrapping_multiply(result, x);
  return result;
}

// ---- samples: sizes that are 0, 1, prime, and one over a vector or tile

std::vector<Sample> unary_samples(double low, double high) {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64})
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 17}}) samples.push_back({{{dtype, shape}}, {}, low, high});
  samples.push_back({{{DType::kFloat32, {0, 3}}}, {}, low, high});
  samples.push_back({{{DType::kFloat32, {1025}}}, {}, low, high});
  return samples;
}
std::vector<Sample> any_samples() { return unary_samples(-3, 3); }
std::vector<Sample> positive_samples() { return unary_samples(0.05, 4); }
std::vector<Sample> above_minus_one_samples() { return unary_samples(-0.9, 4); }

std::vector<Sample> binary_samples_between(double low, double high, bool with_floats, bool with_integers,
                                           bool with_bool) {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype) {
    for (const Shape& shape : {Shape{}, Shape{5, 13}, Shape{0}})
      samples.push_back({{{dtype, shape}, {dtype, shape}}, {}, low, high, 9});
  };
  if (with_floats)
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) add(dtype);
  if (with_integers)
    for (const DType dtype : {DType::kInt64, DType::kInt32}) add(dtype);
  if (with_bool) add(DType::kBool);
  return samples;
}
std::vector<Sample> binary_samples() { return binary_samples_between(-3, 3, true, true, false); }
std::vector<Sample> floating_binary_samples() { return binary_samples_between(0.2, 3, true, false, false); }
std::vector<Sample> logical_samples() { return binary_samples_between(0, 1, false, true, true); }
std::vector<Sample> comparison_samples() { return binary_samples_between(-1, 1, true, true, true); }

// ---- records

template <auto real, auto integer = no_integer>
constexpr Operation unary(std::string_view name, std::string_view documentation,
                          Gradients (*gradient)(const GradientRequest&), std::vector<Sample> (*samples)() = any_samples,
                          std::vector<Type> (*infer)(const Inference&) = infer_floating) {
  return {.name = name,
          .documentation = documentation,
          .elementwise = true,
          .infer = infer,
          .evaluate = evaluate_unary<real, integer>,
          .gradient = gradient,
          .samples = samples};
}

// The same record for a function whose values devices may round as far as `error` allows.
constexpr Operation within(const ErrorBounds& error, Operation operation) {
  operation.error = error;
  return operation;
}
constexpr Operation jumping(Operation operation) {
  operation.gradient_jumps = true;
  return operation;
}

// For steps: the gradient is zero wherever there is one.
Gradients flat(const GradientRequest&) { return {Tensor()}; }

#define X request.inputs[0]
#define Y request.outputs[0]
#define DY request.cotangents[0]
#define RULE(expression) [](const GradientRequest& request) -> Gradients { return {expression}; }

const Operation kNeg =
    unary<[](double x) { return -x; }, negative_of>("neg", "-x", RULE(-DY), any_samples, infer_number);
const Operation kAbs = unary<[](double x) { return std::fabs(x); }, magnitude_of>("abs", "|x|", RULE(DY* sign(X)),
                                                                                  any_samples, infer_number);
const Operation kSign = unary<sign_of<double>, sign_of<int64_t>>("sign", "-1, 0 or 1", flat, any_samples, infer_number);
const Operation kExp = within(kFunctionError, unary<[](double x) { return std::exp(x); }>("exp", "e^x", RULE(DY* Y)));
const Operation kExpm1 =
    within(kFunctionError, unary<[](double x) { return std::expm1(x); }>("expm1", "e^x - 1", RULE(DY*(Y + 1.0))));
const Operation kLog = within(kFunctionError, unary<[](double x) { return std::log(x); }>(
                                                  "log", "natural logarithm", RULE(DY / X), positive_samples));
const Operation kLog1p =
    within(kFunctionError, unary<[](double x) { return std::log1p(x); }>("log1p", "log(1 + x)", RULE(DY / (X + 1.0)),
                                                                         above_minus_one_samples));
const Operation kSqrt = within(kDivisionError, unary<[](double x) { return std::sqrt(x); }>(
                                                   "sqrt", "square root", RULE(DY * 0.5 / Y), positive_samples));
const Operation kRsqrt = within(kFunctionError, unary<[](double x) { return 1 / std::sqrt(x); }>(
                                                    "rsqrt", "1 / sqrt(x)", RULE(DY * -0.5 * Y / X), positive_samples));
const Operation kTanh = within(
    kFunctionError, unary<[](double x) { return std::tanh(x); }>("tanh", "hyperbolic tangent", RULE(DY*(1.0 - Y * Y))));
const Operation kErf =
    within(kFunctionError, unary<[](double x) { return std::erf(x); }>("erf", "error function",
                                                                       RULE(DY * 1.1283791670955126 * exp(-(X * X)))));
const Operation kSin =
    within(kFunctionError, unary<[](double x) { return std::sin(x); }>("sin", "sine", RULE(DY* cos(X))));
const Operation kCos =
    within(kFunctionError, unary<[](double x) { return std::cos(x); }>("cos", "cosine", RULE(-(DY* sin(X)))));
const Operation kFloor = unary<[](double x) { return std::floor(x); }>("floor", "down to an integer", flat);
const Operation kCeil = unary<[](double x) { return std::ceil(x); }>("ceil", "up to an integer", flat);
const Operation kRound =
    unary<[](double x) { return std::nearbyint(x); }>("round", "to the nearest integer, halves to even", flat);
const Operation kIsFinite = unary<[](double x) { return double(std::isfinite(x)); }>(
    "is_finite", "neither infinite nor NaN", nullptr, any_samples, [](const Inference& in) -> std::vector<Type> {
      infer_floating(in);
      return {{DType::kBool, in.shape(0)}};
    });
const Operation kLogicalNot = unary<no_bool, [](int64_t x) { return static_cast<int64_t>(x == 0); }>(
    "logical_not", "true where x is false", nullptr,
    []() -> std::vector<Sample> {
      return {{{{DType::kBool, {3, 5}}}, {}}, {{{DType::kBool, {}}}, {}}};
    },
    [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      check(in, in.dtype(0) == DType::kBool, "expected bool, found {}", in.inputs[0]);
      return same_as_first(in);
    });

template <auto real, auto integer>
constexpr Operation binary(std::string_view name, std::string_view documentation,
                           Gradients (*gradient)(const GradientRequest&),
                           std::vector<Sample> (*samples)() = binary_samples,
                           std::vector<Type> (*infer)(const Inference&) = infer_binary) {
  return {.name = name,
          .documentation = documentation,
          .elementwise = true,
          .infer = infer,
          .evaluate = evaluate_binary<real, integer>,
          .gradient = gradient,
          .samples = samples};
}

// Where one of two inputs was chosen, equal ones share the gradient, as PyTorch does it.
Gradients choice_gradient(const GradientRequest& request) {
  const Tensor &x = request.inputs[0], &y = request.inputs[1], &chosen = request.outputs[0];
  const Tensor half = select(equal(x, y), full(x.shape(), 0.5, x.dtype()), full(x.shape(), 1.0, x.dtype()));
  const Tensor none = zeros(x.shape(), x.dtype());
  const Tensor share = DY * half;
  return {select(equal(x, chosen), share, none), select(equal(y, chosen), share, none)};
}

Gradients power_gradient(const GradientRequest& request) {
  const Tensor &x = X, &y = request.inputs[1];
  Gradients result(2);
  const Tensor none = zeros(x.shape(), x.dtype());
  if (request.wanted(0)) result[0] = select(equal(y, none), none, DY * y * pow(x, y - 1.0));
  if (request.wanted(1)) {
    const Tensor safe = select(equal(x, none), full(x.shape(), 1, x.dtype()), x);
    result[1] = DY * Y * log(safe);
  }
  return result;
}

const Operation kAdd = within(kRoundedError, binary<std::plus<double>{}, wrapping_add>(
                                                 "add", "x + y", [](const GradientRequest& request) -> Gradients {
                                                   return {DY, DY};
                                                 }));
const Operation kSub = within(kRoundedError, binary<std::minus<double>{}, wrapping_subtract>(
                                                 "sub", "x - y", [](const GradientRequest& request) -> Gradients {
                                                   return {DY, request.wanted(1) ? -DY : Tensor()};
                                                 }));
const Operation kMul = within(
    kRoundedError,
    binary<std::multiplies<double>{}, wrapping_multiply>("mul", "x y", [](const GradientRequest& request) -> Gradients {
      return {request.wanted(0) ? DY * request.inputs[1] : Tensor(), request.wanted(1) ? DY * X : Tensor()};
    }));
const Operation kDiv = within(kDivisionError, binary<std::divides<double>{}, divide_of>(
                                                  "div", "x / y; of integers, towards zero",
                                                  [](const GradientRequest& request) -> Gradients {
                                                    const Tensor dx = DY / request.inputs[1];
                                                    return {dx, request.wanted(1) ? -(dx * Y) : Tensor()};
                                                  },
                                                  floating_binary_samples));
const Operation kPow =
    within(kFunctionError, binary<[](double x, double y) { return std::pow(x, y); }, integer_power_of>(
                               "pow", "x^y", power_gradient, floating_binary_samples));
const Operation kMax = binary<maximum_of, [](int64_t x, int64_t y) { return std::max(x, y); }>(
    "max", "the larger one; NaN if either is", choice_gradient);
const Operation kMin = binary<minimum_of, [](int64_t x, int64_t y) { return std::min(x, y); }>(
    "min", "the smaller one; NaN if either is", choice_gradient);
const Operation kRemainder = jumping(
    within(kFunctionError, binary<remainder_of, integer_remainder_of>(
                               "remainder", "x - y floor(x / y)",
                               [](const GradientRequest& request) -> Gradients {
                                 return {DY, request.wanted(1) ? -(DY * floor(X / request.inputs[1])) : Tensor()};
                               },
                               floating_binary_samples)));
const Operation kLogicalAnd = binary<no_real, [](int64_t x, int64_t y) { return x & y; }>(
    "logical_and", "and, bit by bit", nullptr, logical_samples, infer_logical);
const Operation kLogicalOr = binary<no_real, [](int64_t x, int64_t y) { return x | y; }>(
    "logical_or", "or, bit by bit", nullptr, logical_samples, infer_logical);
const Operation kLogicalXor = binary<no_real, [](int64_t x, int64_t y) { return x ^ y; }>(
    "logical_xor", "exclusive or, bit by bit", nullptr, logical_samples, infer_logical);

template <auto relation>
constexpr Operation comparison(std::string_view name, std::string_view documentation) {
  return {.name = name,
          .documentation = documentation,
          .elementwise = true,
          .infer = infer_comparison,
          .evaluate = evaluate_comparison<relation>,
          .samples = comparison_samples};
}

const Operation kEqual = comparison<std::equal_to<>{}>("equal", "x = y");
const Operation kNotEqual = comparison<std::not_equal_to<>{}>("not_equal", "x != y");
const Operation kLess = comparison<std::less<>{}>("less", "x < y");
const Operation kLessEqual = comparison<std::less_equal<>{}>("less_equal", "x <= y");
const Operation kGreater = comparison<std::greater<>{}>("greater", "x > y");
const Operation kGreaterEqual = comparison<std::greater_equal<>{}>("greater_equal", "x >= y");

const Operation kSelect = {.name = "select",
                           .documentation = "x where the condition holds, else y",
                           .elementwise = true,
                           .flops = no_flops,
                           .infer = [](const Inference& in) -> std::vector<Type> {
                             expect_inputs(in, 3);
                             check(in, in.dtype(0) == DType::kBool, "expected a bool condition, found {}",
                                   in.inputs[0]);
                             expect_same_types(in, 1, 2);
                             expect_same_shape(in, 0, 1);
                             expect_same_shape(in, 1, 2);
                             return {in.inputs[1]};
                           },
                           .evaluate =
                               [](std::span<const Array> in, const Attributes&, std::span<Array> out) {
                                 for (size_t i = 0; i < in[0].integer.size(); ++i) {
                                   const Array& from = in[in[0].integer[i] ? 1 : 2];
                                   if (out[0].floating()) out[0].real[i] = from.real[i];
                                   else out[0].integer[i] = from.integer[i];
                                 }
                               },
                           .gradient = [](const GradientRequest& request) -> Gradients {
                             const Tensor none = zeros(DY.shape(), DY.dtype());
                             return {Tensor(), request.wanted(1) ? select(X, DY, none) : Tensor(),
                                     request.wanted(2) ? select(X, none, DY) : Tensor()};
                           },
                           .samples = []() -> std::vector<Sample> {
                             std::vector<Sample> samples;
                             for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64, DType::kBool})
                               for (const Shape& shape : {Shape{}, Shape{4, 11}})
                                 samples.push_back({{{DType::kBool, shape}, {dtype, shape}, {dtype, shape}}, {}});
                             return samples;
                           }};

const Operation kCast = {
    .name = "cast",
    .documentation = "to another element type; floating to integer truncates, to bool is x != 0",
    .elementwise = true,
    .moves_only = true,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      return {{expect_dtype(in), in.shape(0)}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes&, std::span<Array> out) {
          const int64_t count = elements(out[0].type.shape);
          for (int64_t i = 0; i < count; ++i) {
            if (out[0].type.dtype == DType::kBool) out[0].integer[static_cast<size_t>(i)] = in[0].get(i) != 0;
            else if (!out[0].floating() && !in[0].floating())
              out[0].integer[static_cast<size_t>(i)] = in[0].integer[static_cast<size_t>(i)];
            else out[0].set(i, in[0].get(i));
          }
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      if (!is_floating(X.dtype()) || !is_floating(Y.dtype())) return {Tensor()};
      return {cast(DY, X.dtype())};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      const DType all[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64,
                           DType::kInt64,   DType::kInt32,    DType::kBool,    DType::kUInt8};
      for (const DType from : all)
        for (const DType to : all)
          samples.push_back({{{from, {3, 7}}}, {{"dtype", static_cast<int64_t>(to)}}, 0, 100, 100});
      return samples;
    }};

#undef X
#undef Y
#undef DY
#undef RULE

// Broadcasts two shapes as NumPy does.
Shape common_shape(const Operation& operation, const Shape& x, const Shape& y) {
  const Shape& longer = x.size() >= y.size() ? x : y;
  const Shape& shorter = x.size() >= y.size() ? y : x;
  Shape shape = longer;
  const size_t extra = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& extent = shape[extra + i];
    if (extent == 1) extent = shorter[i];
    else if (shorter[i] != 1 && shorter[i] != extent) {
      fail("{}{}: shapes {} and {} do not fit together", scope_prefix(), operation.name, to_string(x), to_string(y));
    }
  }
  return shape;
}

Tensor broadcasting(const Operation& operation, const Tensor& x, const Tensor& y) {
  // Under autocast 16-bit values meet f32 ones: the result is f32, as in PyTorch.
  if (x.dtype() != y.dtype() && is_floating(x.dtype()) && is_floating(y.dtype())) {
    const bool wide = x.dtype() == DType::kFloat64 || y.dtype() == DType::kFloat64;
    const DType dtype = wide ? DType::kFloat64 : DType::kFloat32;
    return broadcasting(operation, cast(x, dtype), cast(y, dtype));
  }
  if (x.shape() == y.shape()) return make_tensor(operation, {x, y});
  const Shape shape = common_shape(operation, x.shape(), y.shape());
  return make_tensor(operation, {broadcast_to(x, shape), broadcast_to(y, shape)});
}

}  // namespace

const RegisterOperations kRegisteredElementwise{
    &kNeg,       &kAbs,        &kSign,         &kExp,       &kExpm1,      &kLog,   &kLog1p,    &kSqrt,
    &kRsqrt,     &kTanh,       &kErf,          &kSin,       &kCos,        &kFloor, &kCeil,     &kRound,
    &kIsFinite,  &kAdd,        &kSub,          &kMul,       &kDiv,        &kPow,   &kMax,      &kMin,
    &kRemainder, &kLogicalNot, &kLogicalAnd,   &kLogicalOr, &kLogicalXor, &kEqual, &kNotEqual, &kLess,
    &kLessEqual, &kGreater,    &kGreaterEqual, &kSelect,    &kCast};

namespace op {
const Operation &exp = kExp, &pow = kPow, &sqrt = kSqrt, &rsqrt = kRsqrt, &tanh = kTanh, &erf = kErf,
                &not_equal = kNotEqual;
const Operation &add = kAdd, &sub = kSub, &mul = kMul, &div = kDiv, &select = kSelect, &cast = kCast;
}  // namespace op

Tensor neg(const Tensor& x) { return make_tensor(kNeg, {x}); }
Tensor abs(const Tensor& x) { return make_tensor(kAbs, {x}); }
Tensor sign(const Tensor& x) { return make_tensor(kSign, {x}); }
Tensor exp(const Tensor& x) { return make_tensor(kExp, {x}); }
Tensor expm1(const Tensor& x) { return make_tensor(kExpm1, {x}); }
Tensor log(const Tensor& x) { return make_tensor(kLog, {x}); }
Tensor log1p(const Tensor& x) { return make_tensor(kLog1p, {x}); }
Tensor sqrt(const Tensor& x) { return make_tensor(kSqrt, {x}); }
Tensor rsqrt(const Tensor& x) { return make_tensor(kRsqrt, {x}); }
Tensor tanh(const Tensor& x) { return make_tensor(kTanh, {x}); }
Tensor erf(const Tensor& x) { return make_tensor(kErf, {x}); }
Tensor sin(const Tensor& x) { return make_tensor(kSin, {x}); }
Tensor cos(const Tensor& x) { return make_tensor(kCos, {x}); }
Tensor floor(const Tensor& x) { return make_tensor(kFloor, {x}); }
Tensor ceil(const Tensor& x) { return make_tensor(kCeil, {x}); }
Tensor round(const Tensor& x) { return make_tensor(kRound, {x}); }
Tensor is_finite(const Tensor& x) { return make_tensor(kIsFinite, {x}); }
Tensor logical_not(const Tensor& x) { return make_tensor(kLogicalNot, {x}); }

Tensor add(const Tensor& x, const Tensor& y) { return broadcasting(kAdd, x, y); }
Tensor sub(const Tensor& x, const Tensor& y) { return broadcasting(kSub, x, y); }
Tensor mul(const Tensor& x, const Tensor& y) { return broadcasting(kMul, x, y); }
Tensor div(const Tensor& x, const Tensor& y) { return broadcasting(kDiv, x, y); }
Tensor pow(const Tensor& x, const Tensor& y) { return broadcasting(kPow, x, y); }
Tensor maximum(const Tensor& x, const Tensor& y) { return broadcasting(kMax, x, y); }
Tensor minimum(const Tensor& x, const Tensor& y) { return broadcasting(kMin, x, y); }
Tensor remainder(const Tensor& x, const Tensor& y) { return broadcasting(kRemainder, x, y); }
Tensor logical_and(const Tensor& x, const Tensor& y) { return broadcasting(kLogicalAnd, x, y); }
Tensor logical_or(const Tensor& x, const Tensor& y) { return broadcasting(kLogicalOr, x, y); }
Tensor logical_xor(const Tensor& x, const Tensor& y) { return broadcasting(kLogicalXor, x, y); }
Tensor equal(const Tensor& x, const Tensor& y) { return broadcasting(kEqual, x, y); }
Tensor not_equal(const Tensor& x, const Tensor& y) { return broadcasting(kNotEqual, x, y); }
Tensor less(const Tensor& x, const Tensor& y) { return broadcasting(kLess, x, y); }
Tensor less_equal(const Tensor& x, const Tensor& y) { return broadcasting(kLessEqual, x, y); }
Tensor greater(const Tensor& x, const Tensor& y) { return broadcasting(kGreater, x, y); }
Tensor greater_equal(const Tensor& x, const Tensor& y) { return broadcasting(kGreaterEqual, x, y); }

Tensor select(const Tensor& condition, const Tensor& x, const Tensor& y) {
  const Shape shape = common_shape(kSelect, common_shape(kSelect, condition.shape(), x.shape()), y.shape());
  return make_tensor(kSelect, {broadcast_to(condition, shape), broadcast_to(x, shape), broadcast_to(y, shape)});
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return make_tensor(kCast, {x}, {{"dtype", static_cast<int64_t>(dtype)}});
}

}  // namespace transom

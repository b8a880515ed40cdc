// SPDX-License-Identifier: Apache-2.0
// Functions of one number, element by element.
#include <numbers>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

using UnaryFunction = Tensor (*)(const Tensor&);

template <UnaryFunction function>
Results plain(Call& call) {
  return {call.like(0, function(call.tensor(0)))};
}
template <UnaryFunction function>
Results floating(Call& call) {
  return {call.like(0, in_wide(call.tensor(0), function))};
}

Tensor number(const Tensor& like, double value) { return constant(value, like.dtype()); }

// a[0] x^n + ... + a[n]
Tensor polynomial(const Tensor& x, std::initializer_list<double> coefficients) {
  Tensor result;
  for (const double a : coefficients) result = result.defined() ? add(mul(result, x), number(x, a)) : number(x, a);
  return result;
}

// Of an odd function: zeros keep their sign.
Tensor with_sign_of(const Tensor& x, const Tensor& magnitude) {
  const Tensor zero = number(x, 0);
  return select(less(x, zero), neg(magnitude), select(equal(x, zero), x, magnitude));
}

// Cephes' rational approximation, with the argument brought into [0, 0.66].
Tensor arc_tangent(const Tensor& x) {
  constexpr double kHalfPi = std::numbers::pi / 2;
  const Tensor magnitude = abs(x), one = number(x, 1);
  const Tensor large = greater(magnitude, number(x, 2.41421356237309504880)),
               middle = greater(magnitude, number(x, 0.66));
  const Tensor reduced = select(large, div(number(x, -1), maximum(magnitude, one)),
                                select(middle, div(sub(magnitude, one), add(magnitude, one)), magnitude));
  const Tensor start = select(large, number(x, kHalfPi), select(middle, number(x, kHalfPi / 2), number(x, 0)));
  const Tensor z = mul(reduced, reduced);
  const Tensor p = polynomial(z, {-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
                                  -1.228866684490136173410e2, -6.485021904942025371773e1});
  const Tensor q = polynomial(z, {1, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
                                  4.853903996359136964868e2, 1.945506571482613964425e2});
  const Tensor angle = add(start, add(reduced, mul(reduced, mul(z, div(p, q)))));
  return select(not_equal(x, x), x, with_sign_of(x, angle));
}

Tensor arc_sine(const Tensor& x) { return arc_tangent(div(x, sqrt(mul(sub(number(x, 1), x), add(number(x, 1), x))))); }
Tensor arc_cosine(const Tensor& x) { return 2.0 * arc_tangent(sqrt(div(sub(number(x, 1), x), add(number(x, 1), x)))); }
Tensor tangent(const Tensor& x) { return div(sin(x), cos(x)); }

Tensor hyperbolic_sine(const Tensor& x) {
  const Tensor magnitude = abs(x), far = greater(magnitude, number(x, 20));
  const Tensor e = expm1(select(far, number(x, 1), magnitude));
  const Tensor near = 0.5 * add(e, div(e, add(e, number(x, 1))));
  return with_sign_of(x, select(far, exp(sub(magnitude, number(x, std::numbers::ln2))), near));
}
Tensor hyperbolic_cosine(const Tensor& x) {
  const Tensor magnitude = abs(x), ln2 = number(x, std::numbers::ln2);
  return add(exp(sub(magnitude, ln2)), exp(sub(neg(magnitude), ln2)));
}
Tensor area_hyperbolic_sine(const Tensor& x) {
  const Tensor magnitude = abs(x), far = greater(magnitude, number(x, 1e9)), one = number(x, 1);
  const Tensor a = select(far, one, magnitude);
  const Tensor square = mul(a, a);
  const Tensor near = log1p(add(a, div(square, add(one, sqrt(add(square, one))))));
  return with_sign_of(x, select(far, add(log(maximum(magnitude, one)), number(x, std::numbers::ln2)), near));
}
Tensor area_hyperbolic_cosine(const Tensor& x) {
  const Tensor far = greater(x, number(x, 1e9)), one = number(x, 1);
  const Tensor t = sub(select(far, one, x), one);
  const Tensor near = log1p(add(t, sqrt(add(mul(t, t), add(t, t)))));
  return select(far, add(log(maximum(x, one)), number(x, std::numbers::ln2)), near);
}
Tensor area_hyperbolic_tangent(const Tensor& x) { return 0.5 * sub(log1p(x), log1p(neg(x))); }

Tensor reciprocal(const Tensor& x) { return div(number(x, 1), x); }

Results error_function(Call& call) {
  if (is_floating(call.type(0))) return floating<erf>(call);
  return {call.like(0, cast(erf(cast(call.tensor(0), DType::kFloat64)), call.tensor(0).dtype()))};
}

Results magnitude(Call& call) {
  if (is_unsigned(call.type(0))) return {call.value(0)};
  return plain<abs>(call);
}

Results sign_of(Call& call) {
  if (call.type(0) != ElementType::kUInt64) return plain<sign>(call);
  const Tensor zero = integer(0);
  return {call.like(0, select(equal(call.tensor(0), zero), zero, integer(1)))};
}

}  // namespace

const RegisterOperators kFunctions = {{"Neg", plain<neg>},
                                      {"Abs", magnitude},
                                      {"Sign", sign_of, 9},
                                      {"Exp", floating<exp>},
                                      {"Log", floating<log>},
                                      {"Sqrt", floating<sqrt>},
                                      {"Reciprocal", floating<reciprocal>},
                                      {"Floor", plain<floor>},
                                      {"Ceil", plain<ceil>},
                                      {"Round", plain<round>, 11},
                                      {"Erf", error_function, 9},
                                      {"Sin", floating<sin>, 7},
                                      {"Cos", floating<cos>, 7},
                                      {"Tan", floating<tangent>, 7},
                                      {"Asin", floating<arc_sine>, 7},
                                      {"Acos", floating<arc_cosine>, 7},
                                      {"Atan", floating<arc_tangent>, 7},
                                      {"Sinh", floating<hyperbolic_sine>, 9},
                                      {"Cosh", floating<hyperbolic_cosine>, 9},
                                      {"Asinh", floating<area_hyperbolic_sine>, 9},
                                      {"Acosh", floating<area_hyperbolic_cosine>, 9},
                                      {"Atanh", floating<area_hyperbolic_tangent>, 9},
                                      {"Tanh", floating<tanh>}};

}  // namespace transom::onnx

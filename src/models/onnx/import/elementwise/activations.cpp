// SPDX-License-Identifier: Apache-2.0
// Activation functions, in the composites that devices run as one kernel where there is one.
#include "models/onnx/import/elementwise/activations.h"
#include "base/error.h"

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

Tensor number(const Tensor& like, double value) { return constant(value, like.dtype()); }
Tensor positive(const Tensor& x) { return greater(x, number(x, 0)); }

Tensor elu(const Tensor& x, double alpha) { return select(positive(x), x, alpha * expm1(minimum(x, number(x, 0)))); }
Tensor selu(const Tensor& x, double alpha, double gamma) { return gamma * elu(x, alpha); }
Tensor celu(const Tensor& x, double alpha) {
  return select(positive(x), x, alpha * expm1(minimum(x, number(x, 0)) / alpha));
}
Tensor leaky_relu(const Tensor& x, double alpha) { return select(less(x, number(x, 0)), alpha * x, x); }
Tensor thresholded_relu(const Tensor& x, double alpha) { return select(greater(x, number(x, alpha)), x, number(x, 0)); }
Tensor hard_sigmoid(const Tensor& x, double alpha, double beta) {
  return maximum(number(x, 0), minimum(number(x, 1), alpha * x + beta));
}
Tensor softsign(const Tensor& x) { return div(x, add(number(x, 1), abs(x))); }
Tensor mish(const Tensor& x) { return mul(x, tanh(softplus(x))); }

template <typename Function>
Results made(const Call& call, Function&& function) {
  return {call.like(0, in_wide(call.tensor(0), function))};
}

Results relu_operator(Call& call) {
  const Tensor& x = call.tensor(0);
  return {call.like(0, is_floating(call.type(0)) ? relu(x) : maximum(x, number(x, 0)))};
}
Results sigmoid_operator(Call& call) { return made(call, sigmoid); }
Results elu_operator(Call& call) {
  return made(call, [&](const Tensor& x) { return elu(x, call.number("alpha", 1)); });
}
Results selu_operator(Call& call) {
  const bool old = call.version() < 6;
  const double alpha = call.number("alpha", old ? 1.6732 : 1.67326319217681884765625),
               gamma = call.number("gamma", old ? 1.0507 : 1.05070102214813232421875);
  return made(call, [&](const Tensor& x) { return selu(x, alpha, gamma); });
}
Results celu_operator(Call& call) {
  return made(call, [&](const Tensor& x) { return celu(x, call.number("alpha", 1)); });
}
Results leaky_relu_operator(Call& call) {
  return made(call, [&](const Tensor& x) { return leaky_relu(x, call.number("alpha", 0.01f)); });
}
Results thresholded_relu_operator(Call& call) {
  return made(call, [&](const Tensor& x) { return thresholded_relu(x, call.number("alpha", 1)); });
}
Results hard_sigmoid_operator(Call& call) {
  return made(call,
              [&](const Tensor& x) { return hard_sigmoid(x, call.number("alpha", 0.2f), call.number("beta", 0.5)); });
}
Results hard_swish_operator(Call& call) {
  return made(call, [](const Tensor& x) { return mul(x, hard_sigmoid(x, 1.0 / 6, 0.5)); });
}
Results softsign_operator(Call& call) { return made(call, softsign); }
Results softplus_operator(Call& call) { return made(call, softplus); }
Results mish_operator(Call& call) { return made(call, mish); }

Results swish_operator(Call& call) {
  const double alpha = call.number("alpha", 1);
  return made(call, [&](const Tensor& x) { return alpha == 1 ? silu(x) : mul(x, sigmoid(alpha * x)); });
}

Results gelu_operator(Call& call) {
  const std::string approximate = call.text("approximate", "none");
  call.require(approximate == "none" || approximate == "tanh", "approximate must be none or tanh");
  const Tensor& x = call.tensor(0);
  return {call.like(0, approximate == "tanh" ? gelu_tanh(x) : gelu(x))};
}

Results prelu(Call& call) {
  const Tensor& x = call.tensor(0);
  Tensor slope = call.tensor(1);
  if (call.version() < 7 && slope.rank() == 1 && x.rank() > 1) {  // a slope a channel
    Shape shape(static_cast<size_t>(x.rank()) - 1, 1);
    shape[0] = slope.size();
    slope = reshape(slope, shape);
  }
  return {call.like(0, select(less(x, number(x, 0)), mul(slope, x), x))};
}

Results shrink(Call& call) {
  const double lambda = call.number("lambd", 0.5), bias = call.number("bias", 0);
  const Value& given = call.value(0);
  const bool floats = is_floating(given.type);
  const Tensor x = floats ? wide(call.tensor(0)) : cast(call.tensor(0), DType::kFloat64);
  const Tensor shrunk =
      select(less(x, number(x, -lambda)), x + bias, select(greater(x, number(x, lambda)), x - bias, number(x, 0)));
  if (floats) return {call.like(0, cast(shrunk, call.tensor(0).dtype()))};
  return {cast_value({ElementType::kFloat64, shrunk}, given.type)};
}

Results swi_glu(Call& call) {
  call.require(call.shape(0) == call.shape(1), "its inputs differ in shape");
  const double alpha = call.number("alpha", 1);
  const Tensor a = wide(call.tensor(0)), b = wide(call.tensor(1));
  return {call.like(0, cast(mul(mul(a, sigmoid(alpha * a)), b), call.tensor(0).dtype()))};
}

}  // namespace

Tensor activation_of(const Call& call, std::string_view name, const Tensor& x, double alpha, double beta) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (lower == "relu") return relu(x);
  if (lower == "tanh") return tanh(x);
  if (lower == "sigmoid") return sigmoid(x);
  if (lower == "affine") return alpha * x + beta;
  if (lower == "leakyrelu") return leaky_relu(x, alpha);
  if (lower == "thresholdedrelu") return thresholded_relu(x, alpha);
  if (lower == "scaledtanh") return alpha * tanh(beta * x);
  if (lower == "hardsigmoid") return hard_sigmoid(x, alpha, beta);
  if (lower == "elu") return elu(x, alpha);
  if (lower == "softsign") return softsign(x);
  if (lower == "softplus") return softplus(x);
  call.not_supported(fmt::format("the activation {}", name));
}

const RegisterOperators kActivations = {{"Relu", relu_operator},
                                        {"Sigmoid", sigmoid_operator},
                                        {"Elu", elu_operator},
                                        {"Selu", selu_operator},
                                        {"Celu", celu_operator, 12},
                                        {"LeakyRelu", leaky_relu_operator},
                                        {"ThresholdedRelu", thresholded_relu_operator, 10},
                                        {"HardSigmoid", hard_sigmoid_operator},
                                        {"HardSwish", hard_swish_operator, 14},
                                        {"Softsign", softsign_operator},
                                        {"Softplus", softplus_operator},
                                        {"Mish", mish_operator, 18},
                                        {"Swish", swish_operator, 24},
                                        {"Gelu", gelu_operator, 20},
                                        {"PRelu", prelu},
                                        {"Shrink", shrink, 9},
                                        {"SwiGLU", swi_glu, 28}};

}  // namespace transom::onnx

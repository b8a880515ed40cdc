// SPDX-License-Identifier: Apache-2.0
// Activations. GELU and its gradient are composites, so that the gradient keeps only x and computes the rest again.
#include <cmath>

#include "graph/ops/function_records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

// 16-bit inputs are computed in f32 and rounded once.
std::vector<Type> infer_one(const Inference& in) {
  expect_inputs(in, 1);
  expect_floating(in, 0);
  return {in.inputs[0]};
}
std::vector<Type> infer_pair(const Inference& in) {
  expect_inputs(in, 2);
  expect_floating(in, 0);
  expect_same_types(in, 0, 1);
  expect_same_shape(in, 0, 1);
  return {in.inputs[0]};
}

template <size_t inputs>
std::vector<Sample> samples_of() {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (const Shape& shape : {Shape{}, Shape{3, 17}, Shape{1025}})
      samples.push_back({std::vector<Type>(inputs, Type{dtype, shape}), {}, -4, 4});
  return samples;
}

using Tensors = std::vector<Tensor>;

Tensor normal_distribution(const Tensor& x) { return (erf(x * kSqrtHalf) + 1.0) * 0.5; }
// 0 where the exponential overflows. Its gradient must come from the result: the exponential's would be infinite.
Tensor logistic(const Tensor& x) { return 1.0 / (exp(-x) + 1.0); }
Tensor tanh_argument(const Tensor& x) { return (x + x * x * x * kGeluCubic) * kSqrtTwoOverPi; }

const Operation kGeluGradient = {.name = "gelu_gradient",
                                 .kind = OperationKind::kComposite,
                                 .documentation = "(x, dy): the gradient of gelu for x.",
                                 .category = Category::kElements,
                                 .infer = infer_pair,
                                 .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                                   const Tensor x = widened(in[0]), dy = widened(in[1]);
                                   const Tensor slope =
                                       normal_distribution(x) + x * exp(x * x * -0.5) * kInverseSqrtTwoPi;
                                   return {cast(dy * slope, in[0].dtype())};
                                 },
                                 .samples = samples_of<2>};

const Operation kGelu = {.name = "gelu",
                         .kind = OperationKind::kComposite,
                         .documentation = "x Phi(x), with the error function (Hendrycks and Gimpel, 2016).",
                         .category = Category::kElements,
                         .infer = infer_one,
                         .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                           const Tensor x = widened(in[0]);
                           return {cast(x * normal_distribution(x), in[0].dtype())};
                         },
                         .gradient = [](const GradientRequest& request) -> Tensors {
                           return {make_tensor(kGeluGradient, {request.inputs[0], request.cotangents[0]})};
                         },
                         .samples = samples_of<1>};

const Operation kGeluTanhGradient = {
    .name = "gelu_tanh_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(x, dy): the gradient of gelu_tanh for x.",
    .category = Category::kElements,
    .infer = infer_pair,
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
      const Tensor x = widened(in[0]), dy = widened(in[1]);
      const Tensor t = tanh(tanh_argument(x));
      // The factor that vanishes goes before the squares: of large x they are infinite.
      const Tensor part = x * (1.0 - t * t) * (0.5 * kSqrtTwoOverPi);
      return {cast(dy * ((t + 1.0) * 0.5 + (part * x * x * (3 * kGeluCubic) + part)), in[0].dtype())};
    },
    .samples = samples_of<2>};

const Operation kGeluTanh = {.name = "gelu_tanh",
                             .kind = OperationKind::kComposite,
                             .documentation = "gelu with the tanh approximation: gelu_new, gelu_pytorch_tanh.",
                             .category = Category::kElements,
                             .infer = infer_one,
                             .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                               const Tensor x = widened(in[0]);
                               // Halved before the product, which would be infinite for the largest x.
                               return {cast(x * ((tanh(tanh_argument(x)) + 1.0) * 0.5), in[0].dtype())};
                             },
                             .gradient = [](const GradientRequest& request) -> Tensors {
                               return {make_tensor(kGeluTanhGradient, {request.inputs[0], request.cotangents[0]})};
                             },
                             .samples = samples_of<1>};

const Operation kSiluGradient = {.name = "silu_gradient",
                                 .kind = OperationKind::kComposite,
                                 .documentation = "(x, dy): the gradient of silu for x.",
                                 .category = Category::kElements,
                                 .infer = infer_pair,
                                 .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                                   const Tensor x = widened(in[0]), dy = widened(in[1]), s = logistic(x);
                                   return {cast(dy * s * (x * (1.0 - s) + 1.0), in[0].dtype())};
                                 },
                                 .samples = samples_of<2>};

const Operation kSilu = {.name = "silu",
                         .kind = OperationKind::kComposite,
                         .documentation = "x sigmoid(x), also called swish.",
                         .category = Category::kElements,
                         .infer = infer_one,
                         .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                           const Tensor x = widened(in[0]);
                           return {cast(x * logistic(x), in[0].dtype())};
                         },
                         .gradient = [](const GradientRequest& request) -> Tensors {
                           return {make_tensor(kSiluGradient, {request.inputs[0], request.cotangents[0]})};
                         },
                         .samples = samples_of<1>};

const Operation kSigmoid = {.name = "sigmoid",
                            .kind = OperationKind::kComposite,
                            .documentation = "1 / (1 + exp(-x)).",
                            .category = Category::kElements,
                            .infer = infer_one,
                            .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                              return {cast(logistic(widened(in[0])), in[0].dtype())};
                            },
                            .gradient = [](const GradientRequest& request) -> Tensors {
                              const Tensor y = widened(request.outputs[0]), dy = widened(request.cotangents[0]);
                              return {cast(dy * y * (1.0 - y), request.inputs[0].dtype())};
                            },
                            .samples = samples_of<1>};

Tensor clipped(const Tensor& x, double low, double high) {
  return minimum(maximum(x, full(x.shape(), low, x.dtype())), full(x.shape(), high, x.dtype()));
}

struct Activation {
  std::string_view name;
  Tensor (*function)(const Tensor&);
};

// The names of Transformers' ACT2FN.
constexpr Activation kActivations[] = {
    {"gelu", gelu},
    {"gelu_python", gelu},
    {"gelu_new", gelu_tanh},
    {"gelu_fast", gelu_tanh},
    {"gelu_pytorch_tanh", gelu_tanh},
    {"gelu_accurate", gelu_tanh},
    {"quick_gelu", [](const Tensor& x) { return x * sigmoid(x * 1.702); }},
    {"gelu_10", [](const Tensor& x) { return clipped(gelu(x), -10, 10); }},
    {"relu", relu},
    {"relu2", [](const Tensor& x) { return relu(x) * relu(x); }},
    {"relu6", [](const Tensor& x) { return minimum(relu(x), full(x.shape(), 6, x.dtype())); }},  // no gradient at 0
    {"leaky_relu", [](const Tensor& x) { return select(greater(x, zeros(x.shape(), x.dtype())), x, x * 0.01); }},
    {"sigmoid", sigmoid},
    {"silu", silu},
    {"swish", silu},
    {"tanh", tanh},
    {"softplus", softplus},
    {"mish", [](const Tensor& x) { return x * tanh(softplus(x)); }},
    // Cut before the exponential: were the branch that is not taken infinite, its gradient would be 0 inf = NaN.
    {"elu",
     [](const Tensor& x) {
       const Tensor zero = zeros(x.shape(), x.dtype()), positive = greater(x, zero);
       return select(positive, x, expm1(select(positive, zero, x)));
     }},
    {"hardswish", [](const Tensor& x) { return x * clipped(x + 3.0, 0, 6) * (1.0 / 6.0); }},
    {"laplace",
     [](const Tensor& x) { return (erf((x - 0.707107) * (1 / (0.282095 * 1.4142135623730951))) + 1.0) * 0.5; }},
    {"linear", [](const Tensor& x) { return x; }},
};

}  // namespace

const RegisterOperations kRegisteredActivation{&kGelu, &kGeluGradient, &kGeluTanh, &kGeluTanhGradient,
                                               &kSilu, &kSiluGradient, &kSigmoid};

namespace op {
const Operation &gelu = kGelu, &gelu_tanh = kGeluTanh;
}  // namespace op

Tensor gelu(const Tensor& x) { return make_tensor(kGelu, {x}); }
Tensor gelu_tanh(const Tensor& x) { return make_tensor(kGeluTanh, {x}); }
Tensor silu(const Tensor& x) { return make_tensor(kSilu, {x}); }

Tensor sigmoid(const Tensor& x) { return make_tensor(kSigmoid, {x}); }
// NaN stays: it is not less. The gradient is 0 at 0, as PyTorch's.
Tensor relu(const Tensor& x) {
  const Tensor zero = zeros(x.shape(), x.dtype());
  return select(less_equal(x, zero), zero, x);
}
// log(1 + e^x) without overflow. At 0 the larger of x and 0 shares its gradient, and abs has none: 0.5, which is right.
Tensor softplus(const Tensor& x) { return maximum(x, zeros(x.shape(), x.dtype())) + log1p(exp(-abs(x))); }

Tensor activation(std::string_view name, const Tensor& x) {
  std::vector<std::string> names;
  for (const Activation& known : kActivations) {
    if (known.name == name) return known.function(x);
    names.emplace_back(known.name);
  }
  fail("unknown activation {}{} Known are: {}", quoted(name), did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// Gelu, and the gradients of activations. Which operand the gradients of silu, sigmoid, tanh and relu take is not
// documented; here silu and relu take x, sigmoid and tanh take y, as PyTorch's do.
#include "elementwise.h"

namespace synapse_emulator {
namespace {

constexpr double kRootTwoOverPi = 0.79788456080286535588, kCubic = 0.044715, kRootHalf = 0.70710678118654752440;
constexpr double kInverseRootTwoPi = 0.39894228040143267794;

bool by_tanh(const Node& node) { return params_of<GeluParams>(node, {1, 8}).approximation; }

double inner(double x) { return kRootTwoOverPi * (x + kCubic * x * x * x); }
double gelu_slope(double x, bool approximate) {
  if (!approximate) return 0.5 * (1 + std::erf(x * kRootHalf)) + x * kInverseRootTwoPi * std::exp(-0.5 * x * x);
  const double t = std::tanh(inner(x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
}

// x -> {y, saved tanh or erf}
void check_gelu(const Node& node) {
  require_counts(node, 1, 1, 2, 2);
  require_type(node, node.input(0), node.type, "x");
  for (const size_t i : {0, 1}) {
    require_type(node, node.output(i), node.type, "an output");
    require_sizes(node, node.output(i), node.input(0).sizes, "an output");
  }
  by_tanh(node);
}
void run_gelu(const Node& node) {
  const bool approximate = by_tanh(node);
  const auto saved = [approximate](double x) { return approximate ? std::tanh(inner(x)) : std::erf(x * kRootHalf); };
  map_elements<float, float, 1>(node.output(1), {&node.input(0)}, [&](const auto& in, float* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(saved(in[0][i]));
  });
  map_elements<float, float, 1>(node.output(0), {&node.input(0)}, [&](const auto& in, float* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(0.5 * in[0][i] * (1 + saved(in[0][i])));
  });
}

template <size_t kInputs>
void check_gradient(const Node& node) {
  require_counts(node, kInputs, kInputs, 1, 1);
  for (size_t i = 0; i < kInputs; ++i) {
    require_type(node, node.input(i), node.type, "an input");
    require_sizes(node, node.input(i), node.output(0).sizes, "an input");
  }
  require_type(node, node.output(0), node.type, "the output");
}
template <size_t kInputs>
void check_gelu_gradient(const Node& node) {
  check_gradient<kInputs>(node);
  by_tanh(node);
}
void run_gelu_gradient(const Node& node) {
  const bool approximate = by_tanh(node);
  map_elements<float, float, 2>(node.output(0), {&node.input(0), &node.input(1)},
                                [&](const auto& in, float* out, int64_t count) {
                                  for (int64_t i = 0; i < count; ++i)
                                    out[i] = static_cast<float>(in[0][i] * gelu_slope(in[1][i], approximate));
                                });
}

template <double (*Slope)(double)>
void run_gradient(const Node& node) {
  map_elements<float, float, 2>(node.output(0), {&node.input(0), &node.input(1)},
                                [](const auto& in, float* out, int64_t count) {
                                  for (int64_t i = 0; i < count; ++i)
                                    out[i] = static_cast<float>(in[0][i] * Slope(in[1][i]));
                                });
}
double of_silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}
double of_sigmoid(double y) { return y * (1 - y); }
double of_tanh(double y) { return 1 - y * y; }
double of_relu(double x) { return x > 0 ? 1 : 0; }

double heavy(const Node& node) { return 20.0 * static_cast<double>(node.output(0).elements()); }

}  // namespace

void add_activations(KernelTable& table) {
  const auto add = [&](const char* name, void (*check)(const Node&), void (*run)(const Node&)) {
    table.add({name, Engine::kTpc, kFloats, check, run, heavy, false});
  };
  add("gelu_fwd", check_gelu, run_gelu);
  add("gelu_bwd", check_gelu_gradient<3>, run_gelu_gradient);
  add("cgelu_bwd", check_gelu_gradient<2>, run_gelu_gradient);
  add("silu_bwd", check_gradient<2>, run_gradient<of_silu>);
  add("sigmoid_bwd", check_gradient<2>, run_gradient<of_sigmoid>);
  add("tanh_bwd", check_gradient<2>, run_gradient<of_tanh>);
  add("relu_bwd", check_gradient<2>, run_gradient<of_relu>);
}

}  // namespace synapse_emulator

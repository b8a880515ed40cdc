// SPDX-License-Identifier: Apache-2.0
// Composites as exporters of other frameworks write them, of any rank, and what nearly is one: for the passes that look
// for them.
#include "random_graphs/generator.h"

namespace transom::random_graphs {
namespace {

Tensor f32(Generator& g, int64_t low_rank, int64_t high_rank) {
  return g.with_rank(
      [&] {
        const Tensor x = g.floating();
        return x.dtype() == DType::kFloat32 ? x : g.input({DType::kFloat32, x.shape()});
      },
      low_rank, high_rank);
}

// The number that belongs there, now and then another.
Tensor usual_number(Generator& g, double value) {
  constexpr double kOthers[] = {0, -1, 2, 1e-5};
  return constant(g.random.chance(0.1) ? g.random.one_of(kOthers) : value);
}

Tensor in_any_order(Generator& g, Tensor (*operation)(const Tensor&, const Tensor&), const Tensor& x, const Tensor& y) {
  return g.random.chance(0.5) ? operation(x, y) : operation(y, x);
}

void scalars(Generator& g) {
  const Tensor x = f32(g, 0, 0), y = g.random.chance(0.5) ? f32(g, 0, 0) : constant(g.random.unit());
  g.keep(add(mul(x, y), y));
}

void spelled_gelu(Generator& g) {
  const Tensor x = f32(g, 0, 3);
  const bool exact = g.random.chance(0.5);
  const Tensor argument =
      exact ? div(x, usual_number(g, 1.4142135623730951))
            : mul(add(x, mul(usual_number(g, 0.044715), mul(x, mul(x, x)))), usual_number(g, 0.7978845608028654));
  const Tensor one = in_any_order(g, add, exact ? erf(argument) : tanh(argument), usual_number(g, 1));
  g.keep(in_any_order(g, mul, in_any_order(g, mul, x, one), usual_number(g, 0.5)));
}

void spelled_softmax(Generator& g) {
  const Tensor x = f32(g, 1, 4);
  const int64_t axis = g.random.chance(0.8) ? x.rank() - 1 : g.axis_of(x);
  if (x.dim(axis) == 0) return;
  const Tensor powers = exp(sub(x, reduce_max(x, {axis}, true)));
  g.keep(div(powers, reduce_sum(powers, {axis}, true)));
}

void spelled_norm(Generator& g) {
  const Tensor x = f32(g, 1, 4);
  const int64_t axis = g.random.chance(0.85) ? x.rank() - 1 : g.axis_of(x);
  if (x.dim(axis) == 0) return;
  const Tensor centred = g.random.chance(0.6) ? sub(x, mean(x, {axis}, true)) : x;
  const Tensor squares = g.random.chance(0.5) ? mul(centred, centred) : pow(centred, constant(2));
  const Tensor power = add(mean(squares, {axis}, true), usual_number(g, 0.001));
  Tensor y = g.random.chance(0.5) ? div(centred, sqrt(power)) : mul(centred, rsqrt(power));
  const Shape width = g.random.chance(0.8) ? Shape{x.dim(-1)} : g.random.chance(0.5) ? Shape{} : x.shape();
  y = in_any_order(g, mul, y, g.input({DType::kFloat32, width}, -2, 2, 0));
  if (g.random.chance(0.7)) y = in_any_order(g, add, y, g.input({DType::kFloat32, width}, -2, 2, 0));
  g.keep(y);
}

void spelled_attention(Generator& g) {
  constexpr int64_t kFew[] = {1, 1, 2, 3, 5};
  const auto few = [&] { return g.random.one_of(kFew); };
  const int64_t B = few(), H = few(), T = few(), S = g.random.chance(0.05) ? 0 : few(), d = few();
  const auto heads = [&](int64_t places) { return g.input({DType::kFloat32, {B, H, places, d}}, -2, 2, 0); };
  Tensor scores = matmul(heads(T), permute(heads(S), {0, 1, 3, 2}));
  if (g.random.chance(0.7)) scores = mul(scores, usual_number(g, 0.5));
  const Shape biases[] = {{B, 1, 1, S}, {1, 1, T, S}, {T, S}, {}, {1, H, T, 1}, {B, H, T, S}};
  if (g.random.chance(0.7))
    scores = in_any_order(g, add, scores, g.input({DType::kFloat32, g.random.one_of(biases)}, -2, 2, 0));
  if (g.random.chance(0.2)) scores = scores + g.input({DType::kFloat32, g.random.one_of(biases)}, -2, 2, 0);
  g.keep(matmul(softmax(scores), heads(S)));
}

constexpr Step kCompositeSteps[] = {
    {4, scalars}, {5, spelled_gelu}, {5, spelled_softmax}, {6, spelled_norm}, {5, spelled_attention}};

}  // namespace

std::span<const Step> composite_steps() { return kCompositeSteps; }

}  // namespace transom::random_graphs

// SPDX-License-Identifier: Apache-2.0
// Steps with matrix products and convolutions, and the composites and patterns of models.
#include <cmath>

#include "random_graphs/generator.h"

namespace transom::random_graphs {
namespace {

void matrix_product(Generator& g) {
  const Tensor x = g.with_rank([&] { return g.floating(); }, 1, 4);
  const int64_t N = g.extent(), K = x.dim(-1);
  switch (g.random.below(3)) {
    case 0: {
      Shape shape{K, N};
      if (x.rank() > 2 && g.random.chance(0.5)) shape.insert(shape.begin(), g.random.chance(0.5) ? x.dim(-3) : 1);
      return g.keep(matmul(x, g.of_type({x.dtype(), shape})));
    }
    case 1:
      return g.keep(
          linear(x, g.of_type({x.dtype(), {N, K}}), g.random.chance(0.6) ? g.of_type({x.dtype(), {N}}) : Tensor()));
    default: {
      const Tensor y = linear(x, g.of_type({x.dtype(), {N, K}}), g.of_type({x.dtype(), {N}}));
      return g.keep(g.random.chance(0.5) ? gelu(y) : y + g.of_type(y.type()));
    }
  }
}

// Any axes of x are batch, contracted, or neither; those of y stand in any order.
void general_product(Generator& g) {
  const Tensor x = g.with_rank([&] { return g.floating(); }, 1, 4);
  DotAxes axes;
  Shape shape;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const int64_t kind = g.random.below(3);
    if (kind == 2) continue;
    (kind ? axes.x_batch : axes.x_contract).push_back(axis);
  }
  std::vector<std::pair<int64_t, int64_t>> order;  // axis of x or -1, kind
  for (const int64_t axis : axes.x_batch) order.emplace_back(axis, 0);
  for (const int64_t axis : axes.x_contract) order.emplace_back(axis, 1);
  for (int64_t i = g.random.below(3); i > 0; --i) order.emplace_back(-1, 2);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(g.random.below(static_cast<int64_t>(i)))]);
  for (const auto& [axis, kind] : order) shape.push_back(axis < 0 ? g.extent() : x.dim(axis));
  const auto place_of = [&](int64_t axis) {
    for (size_t i = 0; i < order.size(); ++i)
      if (order[i].first == axis) return static_cast<int64_t>(i);
    return int64_t{-1};
  };
  for (const int64_t axis : axes.x_batch) axes.y_batch.push_back(place_of(axis));
  for (const int64_t axis : axes.x_contract) axes.y_contract.push_back(place_of(axis));
  if (elements(shape) > g.largest) return;
  std::optional<DType> dtype;
  if (x.dtype() == DType::kBFloat16 && g.random.chance(0.3)) dtype = DType::kFloat32;
  g.keep(dot_general(x, g.of_type({x.dtype(), shape}), axes, {}, dtype));
}

void convolved(Generator& g) {
  const int64_t spatial = g.random.between(1, 2), groups = g.random.chance(0.3) ? g.random.between(2, 4) : 1;
  const int64_t C = groups * g.random.between(1, 4), O = groups * g.random.between(1, 4);
  const DType dtype = g.floating_type();
  Shape x{g.random.between(1, 3), C}, weight{O, C / groups};
  ConvolutionOptions options;
  options.groups = groups;
  for (int64_t i = 0; i < spatial; ++i) {
    weight.push_back(g.random.between(1, 4));
    x.push_back(g.random.between(4, 13));
    options.strides.push_back(g.random.between(1, 3));
    options.low.push_back(g.random.below(3));
    options.high.push_back(g.random.below(3));
    options.dilations.push_back(g.random.between(1, 2));
  }
  g.keep(convolution(g.of_type({dtype, x}), g.of_type({dtype, weight}), options));
}

void pooled_windows(Generator& g) {
  const Tensor x =
      g.input({g.floating_type(),
               {g.random.between(1, 2), g.random.between(1, 4), g.random.between(3, 11), g.random.between(3, 11)}});
  PoolingOptions options{{g.random.between(1, 3), g.random.between(1, 3)},
                         {g.random.between(1, 3), g.random.between(1, 2)},
                         {g.random.below(2), 0},
                         {0, g.random.below(2)}};
  g.keep(g.random.chance(0.5) ? max_pool(x, options) : average_pool(x, options));
}

void normalized(Generator& g) {
  const Tensor x = g.with_rank([&] { return g.floating(); }, 1, 4);
  const Type row{x.dtype(), {x.dim(-1)}};
  switch (g.random.below(4)) {
    case 0:
      return g.keep(softmax(x));
    case 1:
      return g.keep(log_softmax(x));
    case 2:
      return g.keep(layer_norm(x, g.of_type(row), g.of_type(row), 1e-5));
    default:
      return g.keep(rms_norm(x, g.of_type(row), 1e-6));
  }
}

void loss(Generator& g) {
  const int64_t N = g.random.between(1, 17), C = g.random.between(1, 40);
  const Tensor logits = g.of_type({g.floating_type(), {N, C}});
  g.keep(mean(cross_entropy(logits, g.input({DType::kInt64, {N}}, 0, 0, C), g.random.below(3) - 1), {0}));
}

// The products and the softmax of attention, with what models put between them.
void attended(Generator& g) {
  const int64_t B = g.random.between(1, 2), H = g.random.between(1, 3), T = g.random.between(1, 17),
                S = g.random.chance(0.5) ? T : g.random.between(1, 33), d = g.random.one_of(Axes{1, 4, 8, 16, 17});
  const DType dtype = g.floating_type();
  const Tensor q = g.of_type({dtype, {B, T, H, d}}), k = g.of_type({dtype, {B, S, H, d}}),
               v = g.of_type({dtype, {B, S, H, d}});
  Tensor scores = dot_general(q, k, {{0, 2}, {0, 2}, {3}, {3}});
  if (g.random.chance(0.8)) scores = scores * (1 / std::sqrt(static_cast<double>(d)));
  if (g.random.chance(0.5)) {
    const Tensor visible = g.random.chance(0.5) ? less_equal(iota({T, S}, 1), iota({T, S}, 0) + double(S - T))
                                                : g.input({DType::kBool, {B, 1, 1, S}});
    scores = scores + select(visible, full(visible.shape(), 0, dtype), full(visible.shape(), -1e4, dtype));
  }
  Tensor weights = softmax(scores);
  if (g.random.chance(0.2)) weights = dropout(weights, g.input({DType::kInt64, {2}}, 0, 0, 99), 0.1);
  const Tensor mixed = dot_general(weights, v, {{0, 1}, {0, 2}, {3}, {1}});
  g.keep(reshape(permute(mixed, {0, 2, 1, 3}), {B, T, H * d}));
}

// A norm, a product, an activation and the way around them.
void block(Generator& g) {
  const Tensor x = g.with_rank([&] { return g.floating(); }, 2, 3);
  const int64_t D = x.dim(-1), F = g.random.between(1, 24);
  const Tensor normal = layer_norm(x, g.of_type({x.dtype(), {D}}), g.of_type({x.dtype(), {D}}), 1e-5);
  const Tensor inner = gelu(linear(normal, g.of_type({x.dtype(), {F, D}}), g.of_type({x.dtype(), {F}})));
  g.keep(x + linear(inner, g.of_type({x.dtype(), {D, F}}), g.of_type({x.dtype(), {D}})));
}

constexpr Step kContractionSteps[] = {{12, matrix_product}, {10, general_product},
                                      {8, convolved},       {5, pooled_windows},
                                      {18, normalized},     {6, loss},
                                      {8, attended},        {5, block}};

}  // namespace

std::span<const Step> contraction_steps() { return kContractionSteps; }

}  // namespace transom::random_graphs

// SPDX-License-Identifier: Apache-2.0
// softmax(scale q k^T + biases) v of heads [B, H, T, d], as products and what stands between them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "graph/ops/computing.h"
#include "graph/ops/function_records.h"
#include "graph/passes/composites/pattern_values.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr double kLowest = -1e30;  // from here on no score shows beside a bias
constexpr int kMostSteps = 12;

// Products of [B, H, ., .] with [B, H, ., .]; gives the axis of the second that is contracted with the last of the
// first, or 0.
int64_t contracted(const Tensor& x) {
  if (!is_op(x, op::dot_general) || x.dtype() != DType::kFloat32 || x.rank() != 4) return 0;
  const Attributes& attributes = x.node()->attributes;
  const Axes heads{0, 1}, last{3};
  if (attributes.get_ints("x_batch") != heads || attributes.get_ints("y_batch") != heads ||
      attributes.get_ints("x_contract") != last || attributes.get_ints("y_contract").size() != 1)
    return 0;
  for (const Tensor& input : x.node()->inputs)
    if (input.dtype() != DType::kFloat32 || input.rank() != 4) return 0;
  return attributes.get_ints("y_contract")[0];
}

// A tensor of the shape of the scores without the axes along which it repeats.
Tensor unrepeated(const Tensor& x) {
  if (!is_op(x, op::broadcast)) return x;
  return input_of(x).rank() == x.rank() ? input_of(x) : x;
}

Tensor spread(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : emit(op::broadcast, {x}, {{"shape", shape}});
}

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = a[i] == 1 ? b[i] : a[i];
  return shape;
}

Tensor number_like(double number, const Shape& shape) {
  const Tensor one = emit(op::constant, {}, {{"dtype", static_cast<int64_t>(DType::kFloat32)}, {"value", number}});
  return spread(reshaped(one, Shape(shape.size(), 1)), shape);
}

// What stands between the product of queries and keys and the softmax, from the outside to the inside.
struct Scores {
  Tensor product;
  double scale = 1, cap = 0;
  std::vector<Tensor> biases;  // [B, H, T, S], or 1 in place of an extent
};

// c tanh(y / c)
std::optional<std::pair<Tensor, double>> uncapped(const Tensor& x, const LeafNumbers& numbers) {
  const Scaled outer = numbers.scaled(x);
  if (!is_op(outer.value, op::tanh) || outer.factor <= 0) return std::nullopt;
  const Tensor inner = input_of(outer.value);
  for (const size_t side : {size_t{0}, size_t{1}})
    if (is_op(inner, op::mul) && numbers.is(input_of(inner, side), 1 / outer.factor))
      return std::pair(input_of(inner, 1 - side), outer.factor);
  if (is_op(inner, op::div) && numbers.is(input_of(inner, 1), outer.factor))
    return std::pair(input_of(inner, 0), outer.factor);
  return std::nullopt;
}

std::optional<Scores> scores_of(const Tensor& x, const LeafNumbers& numbers, int steps) {
  if (steps == 0) return std::nullopt;
  const auto with_bias = [&](const Tensor& rest, const Tensor& bias) {
    auto found = scores_of(rest, numbers, steps - 1);
    if (found) found->biases.push_back(bias);
    return found;
  };
  if (is_op(x, op::add)) {
    for (const size_t side : {size_t{0}, size_t{1}})
      if (auto found = with_bias(input_of(x, side), unrepeated(input_of(x, 1 - side)))) return found;
    return std::nullopt;
  }
  if (is_op(x, op::select)) {  // scores that are replaced by a number so low that nothing shows beside it
    for (const size_t side : {size_t{1}, size_t{2}}) {
      const std::optional<double> number = numbers(input_of(x, 3 - side));
      if (!number || !(*number <= kLowest)) continue;
      const Tensor mask = unrepeated(input_of(x, 0));
      const Tensor none = number_like(0, mask.shape()), low = number_like(*number, mask.shape());
      return with_bias(input_of(x, side), emit(op::select, {mask, side == 1 ? none : low, side == 1 ? low : none}, {}));
    }
    return std::nullopt;
  }
  Scores scores;
  Tensor rest = x;
  if (const auto inner = uncapped(x, numbers)) rest = inner->first, scores.cap = inner->second;
  const Scaled product = numbers.scaled(rest);
  if (contracted(product.value) < 2) return std::nullopt;
  scores.product = product.value, scores.scale = product.factor;
  return scores;
}

// Numbers that q or k are multiplied with go into the scale, also those before a permutation.
Scaled without_numbers(const Tensor& x, const LeafNumbers& numbers) {
  Scaled outer = numbers.scaled(x);
  if (!is_op(outer.value, op::permute)) return outer;
  const Scaled inner = numbers.scaled(input_of(outer.value));
  if (inner.value.same_as(input_of(outer.value))) return outer;
  return {permuted(inner.value, outer.value.node()->attributes.get_ints("permutation")), outer.factor * inner.factor};
}

// [B, G, S, d] where x [B, H, S, d] has each of its heads H / G times, one behind the other.
Tensor unshared(const Tensor& x) {
  if (!is_op(x, op::reshape) || !is_op(input_of(x), op::broadcast)) return x;
  const Tensor &repeated = input_of(x), &source = input_of(repeated);
  if (repeated.rank() != 5 || source.rank() != 5) return x;
  const Shape &from = source.shape(), &to = repeated.shape();
  for (size_t axis = 0; axis < 5; ++axis)
    if (axis == 2 ? from[axis] != 1 : from[axis] != to[axis]) return x;
  const Shape heads{to[0], to[1] * to[2], to[3], to[4]};
  return x.shape() == heads ? reshaped(source, {from[0], from[1], from[3], from[4]}) : x;
}

// softmax(scores), and whether zeros are put in the place of NaN.
struct Weights {
  Tensor scores;
  bool zeros_for_nan = false;
};

std::optional<Weights> weights_of(const Tensor& x, const LeafNumbers& numbers) {
  if (is_op(x, op::softmax)) return Weights{input_of(x)};
  if (!is_op(x, op::select) || !is_op(input_of(x, 2), op::softmax) || !is_op(input_of(x, 0), op::not_equal))
    return std::nullopt;
  const Tensor &softmax = input_of(x, 2), &test = input_of(x, 0);
  const std::optional<double> instead = numbers(input_of(x, 1));
  if (!input_of(test, 0).same_as(softmax) || !input_of(test, 1).same_as(softmax) || !instead || *instead != 0)
    return std::nullopt;
  return Weights{input_of(softmax), true};
}

Tensor attention_of(const Tensor& root, const LeafNumbers& numbers) {
  if (contracted(root) != 2) return {};
  const auto weights = weights_of(input_of(root, 0), numbers);
  if (!weights) return {};
  const auto scores = scores_of(weights->scores, numbers, kMostSteps);
  if (!scores) return {};
  Tensor bias;
  for (const Tensor& each : scores->biases) {
    if (each.dtype() != DType::kFloat32 || each.rank() != 4) return {};
    const Shape both = bias.defined() ? joined(bias.shape(), each.shape()) : each.shape();
    bias = bias.defined() ? emit(op::add, {spread(bias, both), spread(each, both)}, {}) : each;
  }
  const Axes places_first{0, 2, 1, 3};
  const Scaled queries = without_numbers(input_of(scores->product, 0), numbers),
               keys = without_numbers(input_of(scores->product, 1), numbers);
  // [B, H, S, d] for both
  const Tensor turned = contracted(scores->product) == 2 ? permuted(keys.value, {0, 1, 3, 2}) : keys.value;
  Tensor k = unshared(turned), v = unshared(input_of(root, 1));
  if (k.dim(1) != v.dim(1)) k = turned, v = input_of(root, 1);
  const AttentionOptions options{.scale = scores->scale * queries.factor * keys.factor,
                                 .causal = false,
                                 .sliding_window = 0,
                                 .soft_cap = scores->cap};
  const Computing as_products{.batch_invariant = root.node()->attributes.has(kBatchInvariant)};
  const Tensor mixed = attention(permuted(queries.value, places_first), permuted(k, places_first),
                                 permuted(v, places_first), bias, options, as_products);
  const Tensor result = permuted(mixed, places_first);
  if (!weights->zeros_for_nan || !bias.defined()) return result;
  // A query whose biases are all -infinity.
  Shape rows = bias.shape();
  rows[3] = 1;
  const Tensor highest = reduce_max(bias, {3}, true);
  const Tensor nothing = equal(highest, number_like(-std::numeric_limits<double>::infinity(), rows));
  return select(spread(nothing, result.shape()), number_like(0, result.shape()), result);
}

}  // namespace

Graph find_attention(const Graph& graph, const LeafNumbers& numbers) {
  return rewrite(graph, [&](const Node& node, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    if (!is_op(node, op::dot_general) || node.types[0].dtype != DType::kFloat32) return {};
    const Tensor root = emit(*node.operation, inputs, node.attributes);
    const Tensor found = attention_of(root, numbers);
    return {found.defined() ? found : root};
  });
}

}  // namespace transom

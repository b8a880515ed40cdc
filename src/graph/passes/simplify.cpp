// SPDX-License-Identifier: Apache-2.0
// Common subexpressions, neutral elements, and movement that cancels.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/numbers/fnv.h"
#include "graph/ir/tensor_map.h"
#include "graph/passes/composites/pattern_values.h"
#include "graph/passes/graph_builder.h"
#include "graph/passes/passes.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The value of a constant that may have been reshaped or broadcast.
std::optional<double> constant_value(Tensor tensor) {
  while (is_op(tensor, op::broadcast) || is_op(tensor, op::reshape)) tensor = input_of(tensor);
  if (!is_op(tensor, op::constant) || !is_floating(tensor.dtype())) return std::nullopt;
  return tensor.node()->attributes.get_float("value");
}

using Rule = Tensor (*)(const Node& node, const std::vector<Tensor>& inputs);  // undefined: does not apply
struct RuleOfOperation {
  const Operation& operation;
  Rule rule;
};

bool is_constant_of(const Tensor& tensor, double value) {
  const std::optional<double> found = constant_value(tensor);
  return found && *found == value && std::signbit(*found) == std::signbit(value);
}

Tensor neutral(const std::vector<Tensor>& inputs, double element, bool either_side) {
  if (is_constant_of(inputs[1], element)) return inputs[0];
  if (either_side && is_constant_of(inputs[0], element)) return inputs[1];
  return {};
}

// The gradients of slices: one tensor that is zero where the other is not. Two neighbours become one behind the other,
// within what is left of the padding.
Tensor sum_of_paddings(const Tensor& a, const Tensor& b) {
  if (!is_op(a, op::pad) || !is_op(b, op::pad)) return {};
  const Attributes &first = a.node()->attributes, &second = b.node()->attributes;
  if (first.get_float("value") != 0 || second.get_float("value") != 0) return {};
  Axes low = first.get_ints("low"), high = first.get_ints("high");
  const Axes &low_b = second.get_ints("low"), &high_b = second.get_ints("high");
  size_t axis = low.size();
  for (size_t i = 0; i < low.size(); ++i) {
    if (low[i] == low_b[i] && high[i] == high_b[i]) continue;
    if (axis != low.size()) return {};
    axis = i;
  }
  if (axis == low.size()) return {};
  if (low[axis] > low_b[axis]) return sum_of_paddings(b, a);
  if (low[axis] + input_of(a).shape()[axis] != low_b[axis]) return {};
  high[axis] = high_b[axis];
  const Attributes along{{"axis", static_cast<int64_t>(axis)}};
  std::vector<Tensor> parts;
  for (const Tensor& side : {input_of(a), input_of(b)}) {
    const bool nested = is_op(side, op::concatenate) && side.node()->attributes == along;
    if (nested) parts.insert(parts.end(), side.node()->inputs.begin(), side.node()->inputs.end());
    else parts.push_back(side);
  }
  const Tensor joined = emit(op::concatenate, parts, along);
  const auto is_zero = [](int64_t extent) { return extent == 0; };
  if (std::all_of(low.begin(), low.end(), is_zero) && std::all_of(high.begin(), high.end(), is_zero)) return joined;
  return emit(op::pad, {joined}, {{"low", low}, {"high", high}, {"value", 0.0}});
}

// A sum over all rows is the same however the axes before the last are cut.
Tensor sum_over_rows(const Node& node, const std::vector<Tensor>& inputs) {
  const Tensor& x = inputs[0];
  if (!is_op(x, op::reshape) || !is_column_sum(node)) return {};
  const Tensor& source = input_of(x);
  if (source.rank() < 2 || source.shape().back() != x.shape().back()) return {};
  return emit(op::reduce_sum, {source}, {{"axes", leading_axes(source.rank())}});
}

// Rows of a table whose numbers are wider than they are stored: the rows are widened, not the table. Casts to wider
// numbers are exact, so that the bits are the same.
Tensor rows_before_widening(const Node& node, const std::vector<Tensor>& inputs) {
  if (!is_op(inputs[0], op::cast)) return {};
  const Tensor& stored = input_of(inputs[0]);
  const DType wide = inputs[0].dtype();
  const bool widens = is_floating(stored.dtype()) && is_floating(wide) && size_of(stored.dtype()) < size_of(wide);
  if (!widens || elements(node.types[0].shape) >= elements(stored.shape())) return {};
  return emit(op::cast, {emit(op::gather, {stored, inputs[1]}, node.attributes)}, inputs[0].node()->attributes);
}

std::span<const RuleOfOperation> rules() {
  static const RuleOfOperation all[] = {
      {op::reduce_sum, sum_over_rows},
      {op::gather, rows_before_widening},
      {op::stop_gradient, [](const Node&, const std::vector<Tensor>& in) { return in[0]; }},
      {op::add,
       [](const Node&, const std::vector<Tensor>& in) {
         const Tensor other = neutral(in, -0.0, true);  // -0 + 0 is 0
         return other.defined() ? other : sum_of_paddings(in[0], in[1]);
       }},
      {op::sub, [](const Node&, const std::vector<Tensor>& in) { return neutral(in, 0, false); }},
      {op::mul, [](const Node&, const std::vector<Tensor>& in) { return neutral(in, 1, true); }},
      {op::div, [](const Node&, const std::vector<Tensor>& in) { return neutral(in, 1, false); }},
      {op::select, [](const Node&, const std::vector<Tensor>& in) { return in[1].same_as(in[2]) ? in[1] : Tensor(); }},
      {op::reshape,
       [](const Node& node, const std::vector<Tensor>& in) -> Tensor {
         if (in[0].shape() == node.types[0].shape) return in[0];
         return is_op(in[0], op::reshape) ? reshaped(input_of(in[0]), node.types[0].shape) : Tensor();
       }},
      {op::permute,
       [](const Node& node, const std::vector<Tensor>& in) -> Tensor {
         const Axes& outer = node.attributes.get_ints("permutation");
         Axes joined = outer;
         Tensor source = in[0];
         if (is_op(in[0], op::permute)) {
           const Axes& inner = in[0].node()->attributes.get_ints("permutation");
           for (int64_t& axis : joined) axis = inner[static_cast<size_t>(axis)];
           source = input_of(in[0]);
         }
         bool identity = true;
         for (size_t i = 0; i < joined.size(); ++i) identity &= joined[i] == static_cast<int64_t>(i);
         if (identity) return source;
         return source.same_as(in[0]) ? Tensor() : emit(op::permute, {source}, {{"permutation", joined}});
       }},
      {op::broadcast,
       [](const Node& node, const std::vector<Tensor>& in) {
         return in[0].shape() == node.types[0].shape ? in[0] : Tensor();
       }},
      {op::cast, [](const Node& node,
                    const std::vector<Tensor>& in) { return in[0].dtype() == node.types[0].dtype ? in[0] : Tensor(); }},
  };
  return all;
}

Tensor apply_rules(const Node& node, const std::vector<Tensor>& inputs) {
  for (const RuleOfOperation& rule : rules())
    if (is_op(node, rule.operation)) return rule.rule(node, inputs);
  return {};
}

}  // namespace

Graph simplify(const Graph& graph) {
  // Nodes that were seen, by operation and inputs; the few of one key are compared in full.
  std::unordered_multimap<size_t, std::shared_ptr<Node>> seen;
  return rewrite(graph, [&](const Node& node, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    if (const Tensor simpler = apply_rules(node, inputs); simpler.defined()) return {simpler};
    if (node.region || is_op(node, op::optimization_barrier)) return {};
    size_t key = std::hash<const void*>()(node.operation);
    for (const Tensor& input : inputs) key = key * kFnvPrime + TensorHash()(input);
    const auto [begin, end] = seen.equal_range(key);
    for (auto candidate = begin; candidate != end; ++candidate) {
      const Node& other = *candidate->second;
      if (other.operation == node.operation && other.attributes == node.attributes && other.types == node.types &&
          std::equal(inputs.begin(), inputs.end(), other.inputs.begin(), other.inputs.end(), SameTensor()))
        return outputs_of(candidate->second);
    }
    const auto fresh = make_node(*node.operation, inputs, node.attributes);
    seen.emplace(key, fresh);
    return outputs_of(fresh);
  });
}

}  // namespace transom

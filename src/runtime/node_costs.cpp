// SPDX-License-Identifier: Apache-2.0
#include "runtime/node_costs.h"

#include <algorithm>

#include "base/error.h"
#include "ir/graph.h"

namespace transom {
namespace {

double bytes_of(const Type& type) {
  return static_cast<double>(elements(type.shape)) * static_cast<double>(size_of(type.dtype));
}

double count_of(const Type& type) { return static_cast<double>(elements(type.shape)); }

// Elements that one output of a convolution sums: of a group's channels and the window.
double window_of(const Shape& weight) {
  return weight.empty() || weight[0] == 0 ? 0 : static_cast<double>(elements(weight)) / static_cast<double>(weight[0]);
}

}  // namespace

double bytes_of(const Node& node) {
  double total = 0;
  const std::string_view name = node.operation->name;
  if (name == "reshape") return 0;
  if (name == "gather" || name == "slice" || name == "dynamic_slice") return 2 * bytes_of(node.types[0]);
  for (const Tensor& input : node.inputs) total += bytes_of(input.type());
  for (const Type& type : node.types) total += bytes_of(type);
  return total;
}

double arithmetic_of(const Node& node) {
  double contracted = 1;
  const std::string_view name = node.operation->name;
  if (name == "linear") {
    contracted = static_cast<double>(node.inputs[1].dim(1));
  } else if (name == "dot_general") {
    for (const int64_t axis : node.attributes.get_ints("x_contract"))
      contracted *= static_cast<double>(node.inputs[0].dim(axis));
  } else if (name.ends_with("convolution")) {
    contracted = window_of(node.inputs[1].shape());
  } else if (name.ends_with("convolution_input_gradient")) {
    return 2 * window_of(node.inputs[1].shape()) * count_of(node.inputs[0].type());
  } else if (name.ends_with(
                 "convolution_weight_gradient")) {  // as often as the forward pass: each output meets its window
    const auto dy = std::min_element(node.inputs.begin(), node.inputs.end(),
                                     [](const Tensor& a, const Tensor& b) { return a.size() < b.size(); });
    return 2 * window_of(node.types[0].shape) * count_of(dy->type());
  } else if (name == "attention" || name == "attention_gradient") {
    // q k and weights v; backward: those of the scores again, and two for each of the three gradients' sides.
    const Shape &q = node.inputs[0].shape(), &v = node.inputs[2].shape();
    const double pairs = static_cast<double>(q[0] * q[2] * q[1]) * static_cast<double>(v[1]);
    const double d = static_cast<double>(q[3]), e = static_cast<double>(v[3]);
    return 2 * pairs * (name == "attention" ? d + e : 3 * d + 2 * e);
  } else {
    return 0;
  }
  return 2 * contracted * count_of(node.types[0]);
}

double operations_of(const Node& node) {
  if (node.region) {
    double total = 0;
    for (const auto& inner : node.region->nodes) total += operations_of(*inner);
    return total;
  }
  if (const double products = arithmetic_of(node); products > 0) return products;
  const std::string_view name = node.operation->name;
  if (node.operation->elementwise) return name == "cast" || name == "select" ? 0 : count_of(node.types[0]);
  if (name.starts_with("reduce_") || name == "cumulative_sum") return count_of(node.inputs[0].type());
  if (node.operation->kind == OperationKind::kComposite && !node.inputs.empty())  // a norm or a softmax: a few passes
    return 5 * count_of(node.inputs[0].type());
  return 0;
}

std::string operation_of(const Node& node) {
  std::string name(node.operation->name);
  if (!node.region) return name;
  constexpr size_t kShown = 6;
  std::string parts;
  const auto& nodes = node.region->nodes;
  for (size_t i = 0; i < std::min(nodes.size(), kShown); ++i)
    parts += (i ? " " : "") + std::string(nodes[i]->operation->name);
  if (nodes.size() > kShown) parts += fmt::format(" and {} more", nodes.size() - kShown);
  return fmt::format("{}({})", name, parts);
}

std::string types_of(const Node& node) {
  std::vector<Type> inputs;
  for (const Tensor& input : node.inputs) inputs.push_back(input.type());
  return to_string(inputs) + " -> " + to_string(node.types);
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// What becomes of an operation on parts: its attributes, and whether it may be computed of summands.
#include <algorithm>
#include <string_view>

#include "models/sharding/rules/factor_rules.h"
#include "transom/ops.h"

namespace transom {

Attributes local_attributes(const Node& node, const std::vector<Shape>& inputs, const Shape& output) {
  Attributes result = node.attributes;
  const std::string_view name = node.operation->name;
  if (name == "reshape" || name == "broadcast" || name == "convolution_input_gradient" ||
      name == "convolution_weight_gradient")
    result.set("shape", output);
  if (name == "dynamic_slice") result.set("sizes", output);
  if (name == "slice") {
    Axes limits = node.attributes.get_ints("limits");
    for (size_t d = 0; d < limits.size(); ++d)
      if (inputs[0][d] != node.inputs[0].shape()[d]) limits[d] = inputs[0][d];
    result.set("limits", limits);
  }
  return result;
}

bool is_linear(const Node& node, const std::vector<bool>& partial) {
  const std::string_view name = node.operation->name;
  const bool all = std::all_of(partial.begin(), partial.end(), [](bool each) { return each; });
  if (name == "neg" || name == "reshape" || name == "permute" || name == "broadcast" || name == "slice" ||
      name == "reduce_sum" || name == "stop_gradient" || name == "reverse")
    return true;
  if (name == "cast") return node.inputs[0].dtype() == node.types[0].dtype;
  if (name == "pad") return node.attributes.get_float("value") == 0;
  if (name == "add" || name == "sub" || name == "concatenate") return all;
  if (name == "mul") return !all;
  if (name == "div" || name == "gather") return partial[0] && !partial[1];
  if (name == "select") return !partial[0] && partial[1] && partial[2];
  return false;
}

}  // namespace transom

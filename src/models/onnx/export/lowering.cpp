// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/export/lowering.h"

#include <map>

#include "base/error.h"

namespace transom::onnx {
namespace {

bool is_16_bit(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// The operator that came with opset 23 has no window, and an order of cap and mask that later opsets changed.
bool is_plain_attention(const transom::Node& node) {
  const Attributes& attributes = node.attributes;
  const Shape &q = node.inputs[0].shape(), &k = node.inputs[1].shape();
  return attributes.get_float("soft_cap") == 0 && attributes.get_int("sliding_window") == 0 &&
         attributes.get_float("dropout") == 0 && (attributes.get_int("causal") == 0 || q[1] == k[1]) &&
         !is_16_bit(node.inputs[0].dtype());
}

}  // namespace

std::vector<int64_t> Lowering::ints(std::string_view name) const {
  std::vector<int64_t> values;
  for (const Extent& extent : extents(name)) {
    if (!is_constant(extent))
      fail("export: {}{}: {} depends on the extents of the inputs, which ONNX has no form for", scope_prefix_of(node()),
           node().operation->name, name);
    values.push_back(extent[0]);
  }
  return values;
}

int64_t Lowering::integer(std::string_view name) const {
  const Extent value = extent(name);
  if (!is_constant(value))
    fail("export: {}{}: {} depends on the extents of the inputs, which ONNX has no form for", scope_prefix_of(node()),
         node().operation->name, name);
  return value[0];
}

std::string scope_prefix_of(const transom::Node& node) { return node.scope->empty() ? "" : *node.scope + ": "; }

LoweringFunction find_lowering(std::string_view operation) {
  static const std::map<std::string_view, LoweringFunction> all = [] {
    std::map<std::string_view, LoweringFunction> table;
    for (const auto& entries : {elementwise_lowerings(), movement_lowerings(), product_lowerings(),
                                composite_lowerings(), recurrence_lowerings()})
      for (const LoweringEntry& entry : entries) table.emplace(entry.operation, entry.lower);
    return table;
  }();
  const auto found = all.find(operation);
  return found == all.end() ? nullptr : found->second;
}

bool stays_whole(const transom::Node& node, int64_t opset) {
  static const std::map<std::string_view, int64_t> since = {
      {"linear", 13},   {"softmax", 13},  {"log_softmax", 13}, {"layer_norm", 17},     {"sigmoid", 13},
      {"silu", 13},     {"max_pool", 13}, {"sum_pool", 13},    {"gelu", 20},           {"gelu_tanh", 20},
      {"rms_norm", 23}, {"rotary", 23},   {"attention", 23},   {"selective_scan", 13}, {"gated_delta_rule", 13}};
  const auto found = since.find(node.operation->name);
  if (found == since.end() || opset < found->second) return false;
  if (node.operation->name == std::string_view("attention")) return is_plain_attention(node);
  if (node.operation->name == std::string_view("rotary")) return node.inputs[1].dim(2) == 1;
  return true;
}

Extents broadcast_shape(const Extents& x, const Extents& y) {
  const Extents &longer = x.size() >= y.size() ? x : y, &shorter = x.size() >= y.size() ? y : x;
  Extents result = longer;
  const size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i)
    if (result[shift + i] == constant_extent(1)) result[shift + i] = shorter[i];
  return result;
}

Extent product_of(const Extents& extents) {
  Extent product = constant_extent(1);
  for (const Extent& extent : extents)
    for (size_t s = 0; s < kSignatures; ++s) product[s] *= extent[s];
  return product;
}

}  // namespace transom::onnx

// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels/kernel.h"

#include <algorithm>
#include <cstring>

#include "cpu/attention/paged_attention.h"
#include "cpu/products/grouped_linear.h"
#include "cpu/products/quantized/quantized_matmul.h"
#include "cpu/recurrence/recurrence.h"

namespace transom::cpu {
bool Node::is_frozen(int32_t value) const {
  const bool flagged = (graph_.values[value].flags & TRANSOM_VALUE_FROZEN) != 0;
  return flagged &&
         std::find(graph_.inputs, graph_.inputs + graph_.inputs_count, value) != graph_.inputs + graph_.inputs_count;
}

bool Node::frozen(size_t input) const { return is_frozen(node_.inputs[input]); }

std::optional<Node::Origin> Node::frozen_origin(size_t input) const {
  const auto origin = [&](int32_t value) {
    return Origin{value, static_cast<transom_dtype>(graph_.values[value].dtype)};
  };
  const int32_t value = node_.inputs[input];
  if (is_frozen(value)) return origin(value);
  const plugin::Nodes nodes(graph_);
  const auto maker = std::find_if(nodes.begin(), nodes.end(), [&](const transom_node& node) {
    return node.outputs_count == 1 && node.outputs[0] == value;
  });
  if (maker == nodes.end() || std::strcmp(maker->op, "cast") != 0 || maker->inputs_count != 1) return std::nullopt;
  const int32_t source = maker->inputs[0];
  if (source < 0 || static_cast<size_t>(source) >= graph_.values_count || !is_frozen(source)) return std::nullopt;
  const auto narrow = [](transom_dtype dtype) { return dtype == TRANSOM_FLOAT16 || dtype == TRANSOM_BFLOAT16; };
  const Origin found = origin(source);
  const bool reads = (narrow(found.dtype) || found.dtype == TRANSOM_FLOAT32) &&
                     (narrow(this->input(input).dtype) || this->input(input).dtype == TRANSOM_FLOAT32);
  return reads ? std::optional(found) : std::nullopt;
}

bool claims_always(std::span<const transom_value>, std::span<const transom_attribute>) { return true; }

bool claims_one_f32(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  return inputs.size() == 1 && inputs[0].dtype == TRANSOM_FLOAT32;
}

bool claims_equal_floats(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [&](const transom_value& input) {
    const auto dtype = static_cast<transom_dtype>(input.dtype);
    return input.dtype == inputs[0].dtype && (dtype == TRANSOM_FLOAT32 || is_half(dtype));
  });
}

const KernelTable& kernel_table() {
  static const KernelTable table = [] {
    KernelTable made;
    add_elementwise_kernels(made);
    add_movement_kernels(made);
    add_generator_kernels(made);
    add_indexing_kernels(made);
    add_embedding_bag_kernels(made);
    add_reduction_kernels(made);
    add_ordering_kernels(made);
    add_assignment_kernels(made);
    add_row_fusion_kernels(made);
    add_softmax_kernels(made);
    add_layer_norm_kernels(made);
    add_product_kernels(made);
    add_attention_kernels(made);
    add_attention_gradient_kernels(made);
    add_paged_attention_kernels(made);
    add_scan_kernels(made);
    add_paged_state_kernels(made);
    add_delta_kernels(made);
    add_quantized_kernels(made);
    add_grouped_kernels(made);
    add_code_kernels(made);
    add_convolution_kernels(made);
    add_pooling_kernels(made);
    return made;
  }();
  return table;
}

}  // namespace transom::cpu

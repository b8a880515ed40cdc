// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/graph_view.h"

namespace transom {

std::vector<transom_attribute> attribute_view(const Attributes& attributes) {
  std::vector<transom_attribute> result;
  for (const auto& [name, value] : attributes.items()) {
    transom_attribute item{.name = name.c_str()};
    if (const auto* number = std::get_if<int64_t>(&value)) {
      item.kind = TRANSOM_ATTRIBUTE_INT;
      item.int_value = *number;
    } else if (const auto* real = std::get_if<double>(&value)) {
      item.kind = TRANSOM_ATTRIBUTE_FLOAT;
      item.float_value = *real;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      item.kind = TRANSOM_ATTRIBUTE_STRING;
      item.string_value = text->c_str();
    } else {
      const auto& list = std::get<std::vector<int64_t>>(value);
      item.kind = TRANSOM_ATTRIBUTE_INTS;
      item.ints = list.data();
      item.ints_count = list.size();
    }
    result.push_back(item);
  }
  return result;
}

GraphView::GraphView(const Graph& graph, const MemoryPlan* plan, const std::vector<bool>& frozen) : source_(graph) {
  std::vector<int32_t>& inputs = lists_.emplace_back();
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    inputs.push_back(add_value(graph.inputs[i], nullptr, i < frozen.size() && frozen[i]));
  for (const std::shared_ptr<Node>& node : graph.nodes) add_node(*node, node, plan);
  std::vector<int32_t>& outputs = lists_.emplace_back();
  for (const Tensor& output : graph.outputs) outputs.push_back(indices_.at(output));
  graph_ = {.struct_size = sizeof(transom_graph),
            .values = values_.data(),
            .values_count = values_.size(),
            .nodes = nodes_.data(),
            .nodes_count = nodes_.size(),
            .inputs = inputs.data(),
            .inputs_count = inputs.size(),
            .outputs = outputs.data(),
            .outputs_count = outputs.size(),
            .arena_size = plan ? static_cast<size_t>(plan->arena_bytes) : 0};
}

int32_t GraphView::add_value(const Tensor& tensor, const MemoryPlan* plan, bool frozen) {
  const Type& type = tensor.type();
  int64_t offset = -1;
  if (plan)
    if (const auto found = plan->offsets.find(tensor); found != plan->offsets.end()) offset = found->second;
  values_.push_back({.dtype = static_cast<int32_t>(type.dtype),
                     .rank = static_cast<int32_t>(type.shape.size()),
                     .shape = type.shape.data(),
                     .arena_offset = offset,
                     .flags = frozen ? uint64_t{TRANSOM_VALUE_FROZEN} : 0});
  const auto index = static_cast<int32_t>(values_.size() - 1);
  indices_.emplace(tensor, index);
  return index;
}

void GraphView::add_node(const Node& node, const std::shared_ptr<Node>& owner, const MemoryPlan* plan) {
  std::vector<int32_t>& inputs = lists_.emplace_back();
  for (const Tensor& input : node.inputs) inputs.push_back(indices_.at(input));
  std::vector<int32_t>& outputs = lists_.emplace_back();
  for (size_t o = 0; o < node.types.size(); ++o)
    outputs.push_back(add_value(Tensor(owner, static_cast<int>(o)), plan, false));
  const std::vector<transom_attribute>& attributes = attributes_.emplace_back(attribute_view(node.attributes));
  const transom_graph* region = nullptr;
  if (node.region) {
    regions_.push_back(std::make_unique<GraphView>(*node.region, nullptr, std::vector<bool>()));
    region = &regions_.back()->graph();
  }
  nodes_.push_back({.struct_size = sizeof(transom_node),
                    .op = names_.emplace_back(node.operation->name).c_str(),
                    .scope = node.scope->c_str(),
                    .inputs = inputs.data(),
                    .inputs_count = inputs.size(),
                    .outputs = outputs.data(),
                    .outputs_count = outputs.size(),
                    .attributes = attributes.data(),
                    .attributes_count = attributes.size(),
                    .region = region});
}

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/quantization/edited_graph.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace transom::onnx {
namespace {

template <typename T>
TensorView view_of_numbers(DType dtype, std::vector<T> values, std::vector<int64_t> shape) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {dtype, std::move(shape), std::as_bytes(std::span(*owner)), owner};
}

std::shared_ptr<const TensorData> data_of(const std::string& name, const TensorView& view) {
  return std::make_shared<const TensorData>(TensorData{.name = name,
                                                       .type = element_type_of(view.dtype),
                                                       .shape = view.shape,
                                                       .bytes = view.bytes,
                                                       .owner = view.owner});
}

Attribute attribute_as_read(const std::string& name, const WrittenAttribute& written) {
  Attribute attribute{.name = name};
  if (const auto* number = std::get_if<int64_t>(&written)) {
    attribute.type = AttributeType::kInt;
    attribute.i = *number;
  } else if (const auto* real = std::get_if<float>(&written)) {
    attribute.type = AttributeType::kFloat;
    attribute.f = *real;
  } else if (const auto* text = std::get_if<std::string>(&written)) {
    attribute.type = AttributeType::kString;
    attribute.s = *text;
  } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&written)) {
    attribute.type = AttributeType::kInts;
    attribute.ints = *numbers;
  } else if (const auto* reals = std::get_if<std::vector<float>>(&written)) {
    attribute.type = AttributeType::kFloats;
    attribute.floats = *reals;
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&written)) {
    attribute.type = AttributeType::kStrings;
    attribute.strings = *texts;
  } else {
    attribute.type = AttributeType::kTensor;
    attribute.tensor = data_of("", *std::get<std::shared_ptr<const TensorView>>(written));
  }
  return attribute;
}

}  // namespace

EditedGraph::EditedGraph(WrittenModel model) : model_(std::move(model)) { index(); }

void EditedGraph::index() {
  made_by_.clear(), read_by_.clear(), initializers_.clear();
  for (size_t i = 0; i < model_.nodes.size(); ++i) {
    for (const std::string& output : model_.nodes[i].outputs) made_by_[output] = i;
    for (const std::string& input : model_.nodes[i].inputs)
      if (!input.empty()) read_by_[input].push_back(i);
  }
  for (size_t i = 0; i < model_.initializers.size(); ++i) initializers_[model_.initializers[i].first] = i;
}

WrittenNode* EditedGraph::producer(const std::string& value) {
  const auto found = made_by_.find(value);
  return found == made_by_.end() ? nullptr : &model_.nodes[found->second];
}

std::vector<WrittenNode*> EditedGraph::consumers(const std::string& value) {
  std::vector<WrittenNode*> nodes;
  if (const auto found = read_by_.find(value); found != read_by_.end())
    for (const size_t i : found->second) nodes.push_back(&model_.nodes[i]);
  return nodes;
}

WrittenNode* EditedGraph::only_consumer(const std::string& value) {
  const std::vector<WrittenNode*> nodes = consumers(value);
  return nodes.size() == 1 && !is_output(value) ? nodes[0] : nullptr;
}

bool EditedGraph::is_output(const std::string& value) const {
  return std::any_of(model_.outputs.begin(), model_.outputs.end(),
                     [&](const WrittenValue& output) { return output.name == value; });
}

const TensorView* EditedGraph::initializer(const std::string& name) const {
  const auto found = initializers_.find(name);
  return found == initializers_.end() ? nullptr : &model_.initializers[found->second].second;
}

void EditedGraph::set_initializer(const std::string& name, TensorView view) {
  const auto [place, fresh] = initializers_.try_emplace(name, model_.initializers.size());
  if (fresh) model_.initializers.emplace_back(name, std::move(view));
  else model_.initializers[place->second].second = std::move(view);
}

void EditedGraph::remove_unread() {
  std::unordered_set<std::string> read;
  for (const WrittenValue& output : model_.outputs) read.insert(output.name);
  std::vector<WrittenNode> kept;  // from the last to the first
  for (auto node = model_.nodes.rbegin(); node != model_.nodes.rend(); ++node) {
    const bool needed =
        std::any_of(node->outputs.begin(), node->outputs.end(), [&](const std::string& o) { return read.contains(o); });
    if (!needed) continue;
    read.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  model_.nodes = std::move(kept);
  std::erase_if(model_.initializers, [&](const auto& each) { return !read.contains(each.first); });
  index();
}

Model as_read(const WrittenModel& written, const std::vector<std::string>& outputs) {
  Model model;
  model.where = written.name;
  model.opsets[""] = written.opset;
  for (const WrittenNode& each : written.nodes) {
    Node node{.name = each.name, .op_type = each.operation, .inputs = each.inputs, .outputs = each.outputs};
    for (const auto& [name, value] : each.attributes) node.attributes.push_back(attribute_as_read(name, value));
    model.graph.nodes.push_back(std::move(node));
  }
  for (const auto& [name, view] : written.initializers) model.graph.initializers.push_back(data_of(name, view));
  for (const WrittenValue& input : written.inputs)
    model.graph.inputs.push_back(
        {.name = input.name, .kind = ValueInfo::Kind::kTensor, .type = element_type_of(input.dtype)});
  for (const std::string& name : outputs) model.graph.outputs.push_back({.name = name});
  return model;
}

TensorView view_of(std::vector<float> values, std::vector<int64_t> shape) {
  return view_of_numbers(DType::kFloat32, std::move(values), std::move(shape));
}
TensorView view_of(std::vector<int8_t> values, std::vector<int64_t> shape) {
  return view_of_numbers(DType::kInt8, std::move(values), std::move(shape));
}
TensorView view_of(std::vector<int32_t> values, std::vector<int64_t> shape) {
  return view_of_numbers(DType::kInt32, std::move(values), std::move(shape));
}

std::vector<float> floats_of(const TensorView& view) {
  if (view.dtype != DType::kFloat32) fail(ErrorKind::kInternal, "expected f32, found {}", name_of(view.dtype));
  std::vector<float> values(view.bytes.size() / sizeof(float));
  std::memcpy(values.data(), view.bytes.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace transom::onnx

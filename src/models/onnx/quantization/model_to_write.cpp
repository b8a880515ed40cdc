// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/quantization/model_to_write.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"

namespace transom::onnx {
namespace {

class ModelToWrite {
 public:
  explicit ModelToWrite(const Model& model) : model_(model) {}

  WrittenModel operator()() {
    if (!model_.functions.empty()) refuse("functions of the file");
    const auto opset = model_.opsets.find("");
    written_.opset = opset == model_.opsets.end() ? 1 : opset->second;
    written_.name = model_.graph.name.empty() ? "graph" : model_.graph.name;
    std::unordered_set<std::string_view> defaults;
    for (const auto& data : model_.graph.initializers) {
      defaults.insert(data->name);
      written_.initializers.emplace_back(data->name, view_of_data(*data));
    }
    for (const ValueInfo& input : model_.graph.inputs)
      if (!defaults.contains(input.name)) written_.inputs.push_back(value_of_graph(input));
    for (const ValueInfo& output : model_.graph.outputs) written_.outputs.push_back(value_of_graph(output));
    for (const Node& node : model_.graph.nodes) add(node);
    return std::move(written_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::kUnsupported, "{}: writing it anew is not supported with {}", model_.where, what);
  }

  TensorView view_of_data(const TensorData& data) const {
    if (data.type == ElementType::kString) refuse("strings");
    const auto carrier = info(data.type).carrier;
    if (!carrier || element_type_of(*carrier) != data.type)
      refuse(fmt::format("elements of type {} ({})", name_of(data.type), quoted(data.name)));
    return {*carrier, data.shape, data.bytes, data.owner};
  }

  WrittenValue value_of_graph(const ValueInfo& value) const {
    if (value.kind != ValueInfo::Kind::kTensor || !value.shape || value.type == ElementType::kUndefined)
      refuse(fmt::format("{}, which is no tensor of a known rank", quoted(value.name)));
    const auto carrier = info(value.type).carrier;
    if (!carrier || element_type_of(*carrier) != value.type)
      refuse(fmt::format("{} of type {}", quoted(value.name), name_of(value.type)));
    WrittenValue written{value.name, *carrier, {}};
    for (size_t axis = 0; axis < value.shape->size(); ++axis) {
      const auto& [extent, symbol] = (*value.shape)[axis];
      if (extent >= 0) written.shape.emplace_back(extent);
      else written.shape.emplace_back(symbol.empty() ? fmt::format("{}_{}", value.name, axis) : symbol);
    }
    return written;
  }

  void add(const Node& node) {
    if (node.outputs.empty() || node.outputs[0].empty())
      refuse(fmt::format("node {} ({}), which gives nothing", quoted(node.name), quoted(node.op_type)));
    if (!node.domain.empty()) refuse(fmt::format("operator {} of {}", quoted(node.op_type), quoted(node.domain)));
    if (node.op_type == "Constant") {
      written_.initializers.emplace_back(node.outputs[0], constant_of(node));
      return;
    }
    WrittenNode written{node.op_type, node.name, node.inputs, node.outputs, {}};
    for (const Attribute& attribute : node.attributes) written.attributes.emplace_back(attribute.name, of(attribute));
    written_.nodes.push_back(std::move(written));
  }

  WrittenAttribute of(const Attribute& attribute) const {
    switch (attribute.type) {
      case AttributeType::kInt:
        return attribute.i;
      case AttributeType::kFloat:
        return attribute.f;
      case AttributeType::kString:
        return attribute.s;
      case AttributeType::kInts:
        return attribute.ints;
      case AttributeType::kFloats:
        return attribute.floats;
      case AttributeType::kStrings:
        return attribute.strings;
      case AttributeType::kTensor:
        if (attribute.tensor) return std::make_shared<const TensorView>(view_of_data(*attribute.tensor));
        break;
      default:
        break;
    }
    refuse(fmt::format("attribute {}, which is a graph or of another kind", quoted(attribute.name)));
  }

  template <typename T>
  static TensorView view_of_values(DType dtype, std::vector<T> values, bool scalar) {
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    std::vector<int64_t> shape;
    if (!scalar) shape.push_back(static_cast<int64_t>(owner->size()));
    return {dtype, std::move(shape), std::as_bytes(std::span(*owner)), owner};
  }

  TensorView constant_of(const Node& node) const {
    for (const Attribute& attribute : node.attributes) {
      if (attribute.name == "value" && attribute.tensor) return view_of_data(*attribute.tensor);
      if (attribute.name == "value_float") return view_of_values<float>(DType::kFloat32, {attribute.f}, true);
      if (attribute.name == "value_int") return view_of_values<int64_t>(DType::kInt64, {attribute.i}, true);
      if (attribute.name == "value_floats") return view_of_values<float>(DType::kFloat32, attribute.floats, false);
      if (attribute.name == "value_ints") return view_of_values<int64_t>(DType::kInt64, attribute.ints, false);
    }
    refuse(fmt::format("the constant {}", quoted(node.outputs[0])));
  }

  const Model& model_;
  WrittenModel written_;
};

}  // namespace

WrittenModel model_to_write(const Model& model) { return ModelToWrite(model)(); }

}  // namespace transom::onnx

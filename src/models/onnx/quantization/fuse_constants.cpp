// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/quantization/fuse_constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace transom::onnx {
namespace {

// Values that depend on no input and are read by nodes that do: they become initializers.
void fold(EditedGraph& graph, const NamedValues& sample) {
  std::unordered_set<std::string> constant, frontier;
  for (const auto& [name, view] : graph.model().initializers) constant.insert(name);
  for (const WrittenNode& node : graph.model().nodes) {
    const bool folds = std::all_of(node.inputs.begin(), node.inputs.end(),
                                   [&](const std::string& input) { return input.empty() || constant.contains(input); });
    if (folds) constant.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const WrittenNode& node : graph.model().nodes) {
    if (constant.contains(node.outputs[0])) continue;
    for (const std::string& input : node.inputs)
      if (constant.contains(input) && !graph.initializer(input)) frontier.insert(input);
  }
  if (frontier.empty()) return;
  const std::vector<std::string> names(frontier.begin(), frontier.end());
  const ImportedGraph run(as_read(graph.model(), names));
  const NamedValues values = run.run(sample, kAsGiven);
  for (size_t i = 0; i < names.size(); ++i) {
    const Tensor& tensor = values[i].second.tensor;
    const auto bytes = std::make_shared<const std::vector<std::byte>>(tensor.to_bytes());
    graph.set_initializer(names[i], {tensor.dtype(), tensor.shape(), *bytes, bytes});
  }
  std::erase_if(graph.model().nodes, [&](const WrittenNode& node) { return frontier.contains(node.outputs[0]); });
  graph.index();
  graph.remove_unread();
}

bool is_zero(const EditedGraph& graph, const std::string& name) {
  const TensorView* view = graph.initializer(name);
  return view && view->dtype == DType::kFloat32 && view->bytes.size() == sizeof(float) && floats_of(*view)[0] == 0;
}

// Where(LessOrEqual(x, 0), 0, x) is Relu(x), and so is Where(Greater(x, 0), x, 0) of what is a number.
void find_relu(EditedGraph& graph) {
  for (WrittenNode& node : graph.model().nodes) {
    if (node.operation != "Where") continue;
    const WrittenNode* compared = graph.producer(node.inputs[0]);
    if (!compared || (compared->operation != "LessOrEqual" && compared->operation != "Greater")) continue;
    const bool positive = compared->operation == "Greater";
    const std::string x = node.inputs[positive ? 1 : 2];
    if (!is_zero(graph, node.inputs[positive ? 2 : 1]) || compared->inputs[0] != x ||
        !is_zero(graph, compared->inputs[1]))
      continue;
    node.operation = "Relu";
    node.inputs = {x};
    graph.index();
  }
  graph.remove_unread();
}

// Whether the value is computed from constants and Shape alone.
bool follows_from_extents(EditedGraph& graph, const std::string& value, int depth = 0) {
  if (graph.initializer(value)) return true;
  const WrittenNode* node = graph.producer(value);
  if (!node || depth > 32) return false;
  return node->operation == "Shape" ||
         std::all_of(node->inputs.begin(), node->inputs.end(), [&](const std::string& input) {
           return input.empty() || follows_from_extents(graph, input, depth + 1);
         });
}

// One number for each of C channels, from an initializer that stands beside [N, C, ...]; nothing for other shapes.
std::optional<std::vector<float>> by_channel(const TensorView& view, int64_t channels, size_t rank) {
  if (view.dtype != DType::kFloat32 || view.shape.size() > rank) return std::nullopt;
  const size_t offset = rank - view.shape.size();
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    const bool is_channel = axis + offset == 1;
    if (view.shape[axis] != 1 && !(is_channel && view.shape[axis] == channels)) return std::nullopt;
  }
  std::vector<float> values = floats_of(view);
  if (values.size() == 1) values.assign(static_cast<size_t>(channels), values[0]);
  return values;
}

// Takes what follows a convolution, a product or sum with a number a channel, into its weight and bias.
bool fold_into_convolution(EditedGraph& graph, WrittenNode& convolution) {
  WrittenNode* next = graph.only_consumer(convolution.outputs[0]);
  if (!next || (next->operation != "Mul" && next->operation != "Add" && next->operation != "Sub")) return false;
  const size_t other = next->inputs[0] == convolution.outputs[0] ? 1 : 0;
  if ((next->operation == "Sub" && other == 0) || graph.is_output(next->outputs[0])) return false;
  const TensorView *operand = graph.initializer(next->inputs[other]),
                   *weight = graph.initializer(convolution.inputs[1]);
  if (!operand || !weight || weight->dtype != DType::kFloat32) return false;
  const int64_t channels = weight->shape.empty() ? 0 : weight->shape[0];
  if (channels < 1) return false;
  const std::optional<std::vector<float>> numbers = by_channel(*operand, channels, weight->shape.size());
  if (!numbers) return false;
  std::vector<float> kernel = floats_of(*weight), bias(static_cast<size_t>(channels), 0);
  if (convolution.inputs.size() > 2) {
    const TensorView* given = graph.initializer(convolution.inputs[2]);
    if (!given || given->dtype != DType::kFloat32 || given->shape != Shape{channels}) return false;
    bias = floats_of(*given);
  }
  const size_t each = kernel.size() / bias.size();
  for (size_t c = 0; c < bias.size(); ++c) {
    const float number = (*numbers)[c];
    if (next->operation == "Mul") {
      bias[c] *= number;
      for (size_t i = 0; i < each; ++i) kernel[c * each + i] *= number;
    } else {
      bias[c] += next->operation == "Add" ? number : -number;
    }
  }
  // Names of its own: another node may read the same weight.
  const std::string name = convolution.outputs[0];
  graph.set_initializer(name + "/weight", view_of(std::move(kernel), weight->shape));
  graph.set_initializer(name + "/bias", view_of(std::move(bias), {channels}));
  convolution.inputs = {convolution.inputs[0], name + "/weight", name + "/bias"};
  const std::string folded = next->outputs[0];
  for (WrittenNode* consumer : graph.consumers(folded))  // `next` itself is then read by nobody
    std::replace(consumer->inputs.begin(), consumer->inputs.end(), folded, name);
  graph.index();
  graph.remove_unread();
  return true;
}

// The sum over both extents of pictures, times a number that follows from extents and is one over their product.
void find_global_average(EditedGraph& graph, const NamedValues& sample) {
  for (WrittenNode& node : graph.model().nodes) {
    if (node.operation != "ReduceSum" || node.inputs.size() < 2) continue;
    const TensorView* axes = graph.initializer(node.inputs[1]);
    const bool keeps = std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& attribute) {
      return attribute.first == "keepdims" && attribute.second == WrittenAttribute(int64_t{1});
    });
    WrittenNode* product = graph.only_consumer(node.outputs[0]);
    if (!axes || axes->dtype != DType::kInt64 || axes->bytes.size() != 2 * sizeof(int64_t) || !product ||
        product->operation != "Mul")
      continue;
    int64_t numbers[2];
    std::memcpy(numbers, axes->bytes.data(), sizeof numbers);
    const std::string factor = product->inputs[product->inputs[0] == node.outputs[0] ? 1 : 0], sum = node.inputs[0];
    if (numbers[0] != 2 || numbers[1] != 3 || !follows_from_extents(graph, factor)) continue;
    const ImportedGraph run(as_read(graph.model(), {sum, factor}));
    const NamedValues values = run.run(sample, kAsGiven);
    const Tensor &x = values[0].second.tensor, &scale = values[1].second.tensor;
    if (x.rank() != 4 || x.dtype() != DType::kFloat32 || scale.size() != 1) continue;
    const double expected = 1 / static_cast<double>(x.dim(2) * x.dim(3));
    if (std::abs(scale.to_vector<float>()[0] - expected) > 1e-6 * expected) continue;
    // The node of the sum becomes the average, which keeps its axes; that of the product takes them off if need be.
    product->operation = keeps ? "Identity" : "Flatten";
    product->inputs = {node.outputs[0]};
    node.operation = "GlobalAveragePool";
    node.inputs = {sum};
    node.attributes.clear();
  }
  graph.index();
  graph.remove_unread();
}

}  // namespace

void fuse_constants(EditedGraph& graph, const NamedValues& sample) {
  fold(graph, sample);
  find_relu(graph);
  find_global_average(graph, sample);
  for (size_t i = 0; i < graph.model().nodes.size();) {
    WrittenNode& node = graph.model().nodes[i];
    if (node.operation != "Conv" || !fold_into_convolution(graph, node)) ++i;
  }
}

}  // namespace transom::onnx

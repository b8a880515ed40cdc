// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/quantization/quantize_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "models/onnx/quantization/edited_graph.h"
#include "models/onnx/quantization/fuse_constants.h"
#include "models/onnx/quantization/observer.h"

namespace transom::onnx {
namespace {

using Names = std::vector<std::string>;

constexpr double kLikeAMask = 65504;  // beyond float16; additive masks are near the lowest float32

bool is_one_of(const std::string& operation, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), operation) != names.end();
}

bool multiplies(const WrittenNode& node) { return is_one_of(node.operation, {"Conv", "MatMul", "Gemm"}); }

bool only_moves(const WrittenNode& node) {
  return is_one_of(node.operation,
                   {"Reshape", "Transpose", "Expand", "Squeeze", "Unsqueeze", "Slice", "Shape", "Gather", "Cast",
                    "Identity", "Flatten", "Pad", "Size", "Range", "ConstantOfShape"});
}

class GraphQuantizer {
 public:
  GraphQuantizer(WrittenModel model, const QuantizationScheme& scheme, const std::vector<NamedValues>& samples)
      : graph_(std::move(model)), scheme_(scheme), samples_(samples) {}

  WrittenModel operator()(QuantizationReport& report) {
    fuse_constants(graph_, samples_[0]);
    observe();
    count(report);
    share_scales();
    for (const auto& [value, observer] : observers_)
      scales_[value] = observers_.at(root(value)).scale(scheme_, scheme_.activation_bits);
    std::vector<WrittenNode> nodes;
    for (const WrittenValue& input : graph_.model().inputs)
      if (scales_.contains(input.name)) quantize_value(input.name, input.name, input.name + "/dequantized", nodes);
    for (WrittenNode node : graph_.model().nodes) {
      if (is_integer(node)) quantize_constants(node, nodes);
      for (std::string& input : node.inputs)
        if (scales_.contains(input) && !graph_.producer(input)) input += "/dequantized";
      // Consumers go on to read the name, which now stands for the dequantised value.
      const Names outputs = node.outputs;
      for (std::string& output : node.outputs)
        if (scales_.contains(output)) output += "/float";
      nodes.push_back(std::move(node));
      for (const std::string& output : outputs)
        if (scales_.contains(output)) quantize_value(output, output + "/float", output, nodes);
    }
    graph_.model().nodes = std::move(nodes);
    graph_.index();
    graph_.remove_unread();
    return graph_.model();
  }

 private:
  bool is_integer(const WrittenNode& node) const {
    if (multiplies(node)) return true;
    return scheme_.powers_of_two &&
           is_one_of(node.operation, {"Add", "Relu", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat"});
  }

  void count(QuantizationReport& report) {
    for (const WrittenNode& node : graph_.model().nodes) {
      if (only_moves(node)) continue;
      const bool integer = is_integer(node) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](const auto& x) {
                             return observers_.contains(x) || graph_.initializer(x) || is_inside_of_a_step(x);
                           });
      ++(integer ? report.integer_nodes : report.float_nodes)[node.operation];
    }
  }

  // A Relu behind a node is one step with it: the value between them has no scale.
  bool is_inside_of_a_step(const std::string& value) {
    WrittenNode *producer = graph_.producer(value), *consumer = graph_.only_consumer(value);
    return producer && consumer && consumer->operation == "Relu" &&
           (multiplies(*producer) || producer->operation == "Add");
  }

  void observe() {
    std::vector<std::string> values;
    const auto watch = [&](const std::string& value) {
      if (value.empty() || graph_.initializer(value) || is_inside_of_a_step(value)) return;
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    };
    for (const WrittenNode& node : graph_.model().nodes) {
      if (!is_integer(node)) continue;
      for (const std::string& input : node.inputs) watch(input);
      for (const std::string& output : node.outputs) watch(output);
    }
    const ImportedGraph run(as_read(graph_.model(), values));
    for (const NamedValues& sample : samples_) {
      const NamedValues seen = run.run(sample, kAsGiven);
      for (size_t i = 0; i < values.size(); ++i)
        if (seen[i].second.type == ElementType::kFloat32)
          observers_[values[i]].add(seen[i].second.tensor.to_vector<float>());
    }
    // Masks, and scores that hold them: no integers have steps for both.
    std::erase_if(observers_, [](const auto& each) { return each.second.greatest() > kLikeAMask; });
  }

  std::string root(std::string value) const {
    for (auto found = shared_with_.find(value); found != shared_with_.end(); found = shared_with_.find(value))
      value = found->second;
    return value;
  }
  void share(const std::string& a, const std::string& b) {
    const std::string first = root(a), second = root(b);
    if (first == second || !observers_.contains(first) || !observers_.contains(second)) return;
    observers_.at(first).merge(observers_.at(second));
    shared_with_[second] = first;
  }
  void share_scales() {
    for (const WrittenNode& node : graph_.model().nodes) {
      if (!is_integer(node)) continue;
      const bool with_output = is_one_of(node.operation, {"MaxPool", "Concat"});
      if (!with_output && node.operation != "Add") continue;
      for (size_t i = 1; i < node.inputs.size(); ++i) share(node.inputs[0], node.inputs[i]);
      if (with_output) share(node.inputs[0], node.outputs[0]);
    }
  }

  std::string scalar(const std::string& name, double value) {
    graph_.set_initializer(name, view_of(std::vector<float>{static_cast<float>(value)}, {}));
    return name;
  }
  std::string zero_point() {
    graph_.set_initializer("/quantization/zero", view_of(std::vector<int8_t>{0}, {}));
    return "/quantization/zero";
  }

  // `from` -> QuantizeLinear -> DequantizeLinear -> `to`.
  void quantize_value(const std::string& value, const std::string& from, const std::string& to,
                      std::vector<WrittenNode>& nodes) {
    const std::string scale = scalar(value + "/scale", scales_.at(value)), integer = value + "/quantized";
    WrittenNode quantize{"QuantizeLinear", value + "/QuantizeLinear", {from, scale}, {integer}, {}};
    WrittenNode dequantize{"DequantizeLinear", value + "/DequantizeLinear", {integer, scale}, {to}, {}};
    if (scheme_.activation_bits == 8) {
      quantize.inputs.push_back(zero_point());
      dequantize.inputs.push_back(zero_point());
    } else {
      quantize.attributes.emplace_back("output_dtype", static_cast<int64_t>(ElementType::kInt16));
    }
    nodes.push_back(std::move(quantize));
    nodes.push_back(std::move(dequantize));
  }

  // The weight and the bias of a node, or the constant side of an addition.
  void quantize_constants(WrittenNode& node, std::vector<WrittenNode>& nodes) {
    std::optional<double> weight_scale;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorView* view = graph_.initializer(node.inputs[i]);
      if (!view || view->dtype != DType::kFloat32) continue;
      const bool bias = i == 2 && multiplies(node);
      if (bias && !scheme_.powers_of_two) {
        if (const auto input = scales_.find(node.inputs[0]); input != scales_.end() && weight_scale)
          node.inputs[i] = integers<int32_t>(node.inputs[i], *view, input->second * *weight_scale, nodes);
        continue;
      }
      QuantizationScheme scheme = scheme_;
      if (!scheme_.powers_of_two) scheme.method = CalibrationMethod::kMinMax;
      Observer observer;
      observer.add(floats_of(*view));
      const double scale = observer.scale(scheme, 8);
      if (!bias) weight_scale = scale;
      node.inputs[i] = integers<int8_t>(node.inputs[i], *view, scale, nodes);
    }
  }

  template <typename T>
  std::string integers(const std::string& name, const TensorView& view, double scale, std::vector<WrittenNode>& nodes) {
    const std::string result = name + (sizeof(T) == 1 ? "/int8" : "/int32/" + std::to_string(nodes.size()));
    if (graph_.initializer(result + "/quantized")) return result;  // of another node that reads the same weight
    constexpr double kTop = std::numeric_limits<T>::max();
    std::vector<T> values;
    for (const float value : floats_of(view))
      values.push_back(
          static_cast<T>(std::clamp(std::nearbyint(value / scale), sizeof(T) == 1 ? -kTop - 1 : -kTop, kTop)));
    std::vector<int64_t> shape = view.shape;
    graph_.set_initializer(result + "/quantized", view_of(std::move(values), std::move(shape)));
    WrittenNode dequantize{"DequantizeLinear",
                           result + "/DequantizeLinear",
                           {result + "/quantized", scalar(result + "/scale", scale)},
                           {result},
                           {}};
    if (sizeof(T) == 1) dequantize.inputs.push_back(zero_point());
    nodes.push_back(std::move(dequantize));
    return result;
  }

  EditedGraph graph_;
  const QuantizationScheme& scheme_;
  const std::vector<NamedValues>& samples_;
  std::map<std::string, Observer> observers_;       // by value
  std::map<std::string, std::string> shared_with_;  // value -> one that has the same scale
  std::map<std::string, double> scales_;
};

// The first output of both graphs over all samples.
void compare(const WrittenModel& exact, const WrittenModel& quantized, const std::vector<NamedValues>& samples,
             QuantizationReport& report) {
  const Names outputs = {exact.outputs[0].name};
  const ImportedGraph a(as_read(exact, outputs)), b(as_read(quantized, outputs));
  double signal = 0, noise = 0;
  int64_t same = 0;
  for (const NamedValues& sample : samples) {
    const Tensor expected = a.run(sample, kAsGiven)[0].second.tensor, found = b.run(sample, kAsGiven)[0].second.tensor;
    const std::vector<float> x = expected.to_vector<float>(), y = found.to_vector<float>();
    const auto rows = static_cast<size_t>(expected.dim(0)), width = x.size() / std::max<size_t>(rows, 1);
    for (size_t i = 0; i < x.size(); ++i) {
      signal += static_cast<double>(x[i]) * x[i];
      noise += static_cast<double>(x[i] - y[i]) * (x[i] - y[i]);
    }
    for (size_t row = 0; row < rows && width > 0; ++row) {
      const auto first = [&](const std::vector<float>& values) {
        const auto begin = values.begin() + static_cast<ptrdiff_t>(row * width);
        return std::max_element(begin, begin + static_cast<ptrdiff_t>(width)) - begin;
      };
      same += first(x) == first(y);
    }
    report.samples += static_cast<int64_t>(rows);
  }
  report.signal_to_noise = noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
  if (exact.outputs[0].shape.size() == 2)
    report.same_first = static_cast<double>(same) / static_cast<double>(std::max<int64_t>(report.samples, 1));
}

}  // namespace

WrittenModel quantize_graph(WrittenModel model, const QuantizationScheme& scheme,
                            const std::vector<NamedValues>& samples, QuantizationReport& report) {
  if (samples.empty()) fail("quantization: expected at least one sample to find the scales with");
  if (scheme.activation_bits == 16 && model.opset < 21)
    fail(ErrorKind::kUsage, "quantization: a16w8 needs opset 21 or later, for 16-bit QuantizeLinear; found {}",
         model.opset);
  WrittenModel quantized = GraphQuantizer(model, scheme, samples)(report);
  compare(model, quantized, samples, report);
  return quantized;
}

}  // namespace transom::onnx

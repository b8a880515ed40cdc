// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/export/traces.h"

#include "base/error.h"

namespace transom::onnx {
namespace {

constexpr size_t kInput = ~size_t{0};

std::string described(const transom::Node& node) {
  return fmt::format("{}{}", node.scope->empty() ? "" : *node.scope + ": ", node.operation->name);
}

}  // namespace

Traces::Traces(std::vector<Graph> graphs, std::vector<std::vector<Tensor>> leaves)
    : graphs_(std::move(graphs)), leaves_(std::move(leaves)) {
  if (graphs_.size() != kSignatures || leaves_.size() != kSignatures)
    fail(ErrorKind::kInternal, "expected {} traces, found {}", kSignatures, graphs_.size());
  for (size_t i = 0; i < graph().inputs.size(); ++i) places_[graph().inputs[i]] = {kInput, i};
  for (size_t i = 0; i < graph().nodes.size(); ++i)
    for (const Tensor& output : outputs_of(graph().nodes[i]))
      places_[output] = {i, static_cast<size_t>(output.output())};
  check();
}

void Traces::check() const {
  for (const Graph& other : graphs_) {
    const size_t count = std::min(graph().nodes.size(), other.nodes.size());
    TensorMap<Place> places;
    for (size_t i = 0; i < other.inputs.size(); ++i) places[other.inputs[i]] = {kInput, i};
    for (size_t i = 0; i < count; ++i) {
      const Node &a = *graph().nodes[i], &b = *other.nodes[i];
      bool same = a.operation == b.operation && a.inputs.size() == b.inputs.size() &&
                  a.types.size() == b.types.size() && a.attributes.items().size() == b.attributes.items().size();
      for (size_t k = 0; same && k < a.inputs.size(); ++k) {
        const Place &x = places_.at(a.inputs[k]), &y = places.at(b.inputs[k]);
        same = x.node == y.node && x.output == y.output;
      }
      for (size_t k = 0; same && k < a.types.size(); ++k)
        same = a.types[k].dtype == b.types[k].dtype && a.types[k].shape.size() == b.types[k].shape.size();
      if (!same)
        fail(
            "export: {} is computed in another way for other extents ({} there), so that no file with dynamic axes "
            "says "
            "both",
            described(a), described(b));
      for (const Tensor& output : outputs_of(other.nodes[i]))
        places[output] = {i, static_cast<size_t>(output.output())};
    }
    if (graph().nodes.size() != other.nodes.size() || graph().inputs.size() != other.inputs.size() ||
        graph().outputs.size() != other.outputs.size())
      fail(
          "export: the model computes {} operations for one signature and {} for another, so that no file with dynamic "
          "axes says both",
          graph().nodes.size(), other.nodes.size());
  }
}

Extents Traces::shape_of(const Tensor& tensor) const {
  const Place& place = places_.at(tensor);
  Extents result(tensor.shape().size(), Extent(kSignatures));
  for (size_t s = 0; s < kSignatures; ++s) {
    const Shape& shape = place.node == kInput ? graphs_[s].inputs[place.output].shape()
                                              : graphs_[s].nodes[place.node]->types[place.output].shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) result[axis][s] = shape[axis];
  }
  return result;
}

Extents Traces::ints(size_t index, std::string_view name) const {
  Extents result(graph().nodes[index]->attributes.get_ints(name).size(), Extent(kSignatures));
  for (size_t s = 0; s < kSignatures; ++s) {
    const auto& values = graphs_[s].nodes[index]->attributes.get_ints(name);
    if (values.size() != result.size())
      fail("export: {}: {} has other lengths for other extents", described(*graph().nodes[index]), name);
    for (size_t i = 0; i < values.size(); ++i) result[i][s] = values[i];
  }
  return result;
}

Extent Traces::integer(size_t index, std::string_view name) const {
  Extent result;
  for (const Graph& graph : graphs_) result.push_back(graph.nodes[index]->attributes.get_int(name));
  return result;
}

std::vector<double> Traces::real(size_t index, std::string_view name) const {
  std::vector<double> result;
  for (const Graph& graph : graphs_) result.push_back(graph.nodes[index]->attributes.get_float(name));
  return result;
}

Tensor Traces::constant_input(size_t index) const {
  const Tensor& first = leaves_[0][index];
  std::vector<std::byte> bytes;
  for (const std::vector<Tensor>& leaves : leaves_) {
    const Tensor& tensor = leaves[index];
    if (tensor.same_as(first)) continue;
    if (bytes.empty()) bytes = first.to_bytes();
    if (tensor.type() != first.type() || tensor.to_bytes() != bytes)
      fail("export: a table {} that the model makes depends on the extents of its inputs", to_string(first.type()));
  }
  return first;
}

}  // namespace transom::onnx

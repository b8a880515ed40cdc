// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/run/host_values.h"

#include <algorithm>

#include "base/error.h"
#include "graph/ops/array_bytes.h"
#include "graph/ops/rules.h"
#include "runtime/tensor/evaluate.h"

namespace transom::onnx {
namespace {

constexpr int64_t kMostOnHost = 1 << 12;  // elements; more are computed by the device

Array read_stored(const Tensor& tensor) {
  const std::vector<std::byte> bytes = tensor.to_bytes();
  return load_array(bytes.data(), tensor.type());
}

bool is_large(const Type& type) { return elements(type.shape) > kMostOnHost; }

bool is_argument(const transom::Node& node) { return is_input(node) && !node.computed(0); }

}  // namespace

HostValues::Source HostValues::source_of_leaf(const Tensor& leaf) const {
  if (is_argument(*leaf.node())) return Source::kArguments;
  return buffer_of(leaf)->frozen() ? Source::kConstants : Source::kData;
}

// Without recursion, as outputs_of.
HostValues::Source HostValues::source_of(const std::shared_ptr<transom::Node>& root) {
  std::vector<std::shared_ptr<transom::Node>> pending{root};
  while (!pending.empty()) {
    const std::shared_ptr<transom::Node> node = pending.back();
    if (sources_.contains(node->sequence)) {
      pending.pop_back();
      continue;
    }
    Source source = Source::kConstants;
    if (node->computed(0) || is_input(*node)) {
      source = source_of_leaf(Tensor(node, 0));
    } else {
      const size_t before = pending.size();
      for (const Tensor& input : node->inputs) {
        const auto found = sources_.find(input.node()->sequence);
        if (found == sources_.end()) pending.push_back(input.node());
        else source = std::max(source, found->second);
      }
      if (pending.size() > before) continue;
    }
    sources_.emplace(node->sequence, source);
    pending.pop_back();
  }
  return sources_.at(root->sequence);
}

const Array& HostValues::read(const Tensor& tensor) {
  const Source source = source_of(tensor.node());
  if (source == Source::kArguments) throw DependsOnArguments();
  data_was_read_ |= source == Source::kData;
  return outputs_of(tensor.node())[static_cast<size_t>(tensor.output())];
}

bool HostValues::is_for_device(const std::shared_ptr<transom::Node>& node) {
  const auto is_floating_tensor = [](const Tensor& x) { return is_floating(x.dtype()); };
  return std::any_of(node->types.begin(), node->types.end(), is_large) ||
         std::any_of(node->inputs.begin(), node->inputs.end(), [](const Tensor& x) { return is_large(x.type()); }) ||
         (std::any_of(node->inputs.begin(), node->inputs.end(), is_floating_tensor) &&
          source_of(node) == Source::kData);
}

// Nodes are computed from the leaves upwards, without recursion: chains of them may be long.
const std::vector<Array>& HostValues::outputs_of(const std::shared_ptr<transom::Node>& root) {
  std::vector<std::shared_ptr<transom::Node>> pending{root};
  while (!pending.empty()) {
    const std::shared_ptr<transom::Node> node = pending.back();
    if (computed_.contains(node.get())) {
      pending.pop_back();
      continue;
    }
    const size_t before = pending.size();
    if (!node->computed(0) && !is_for_device(node))
      for (const Tensor& input : node->inputs)
        if (!computed_.contains(input.node().get())) pending.push_back(input.node());
    if (pending.size() > before) continue;
    std::vector<Array> outputs = compute(node);
    computed_[node.get()] = {node, std::move(outputs)};
    pending.pop_back();
  }
  return computed_.at(root.get()).outputs;
}

std::vector<Array> HostValues::compute(const std::shared_ptr<transom::Node>& node) {
  std::vector<Array> outputs;
  if (node->computed(0) || is_for_device(node)) {
    if (!node->computed(0)) compute_(Tensor(node, 0));
    for (const Tensor& output : transom::outputs_of(node)) outputs.push_back(read_stored(output));
    return outputs;
  }
  if (node->operation->kind == OperationKind::kComposite) {
    for (const Tensor& output : node->operation->decompose(node->inputs, node->attributes))
      outputs.push_back(read(output));
    return outputs;
  }
  std::vector<Array> inputs;
  for (const Tensor& input : node->inputs) inputs.push_back(read(input));
  for (const Type& type : node->types) outputs.emplace_back(type);
  node->operation->evaluate(inputs, node->attributes, outputs);
  for (Array& output : outputs) round_to_dtype(output);
  return outputs;
}

}  // namespace transom::onnx

// SPDX-License-Identifier: Apache-2.0
// The reverse sweep over the records' gradient rules.
#include "transom/gradients.h"

#include <algorithm>

#include "base/error.h"
#include "ir/node.h"
#include "ir/tensor_map.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The nodes between `sources` and `outputs`, in order of creation, and the set of values that depend on a source.
class Dependence {
 public:
  Dependence(const std::vector<Tensor>& outputs, const std::vector<Tensor>& sources) : depends_(sources.begin(), sources.end()) {
    std::unordered_set<const Node*> seen;
    std::vector<std::shared_ptr<Node>> reached, pending;
    const auto visit = [&](const Tensor& tensor) {
      if (!depends_.contains(tensor) && seen.insert(tensor.node().get()).second) pending.push_back(tensor.node());
    };
    for (const Tensor& output : outputs) visit(output);
    while (!pending.empty()) {
      reached.push_back(std::move(pending.back()));
      pending.pop_back();
      const std::vector<Tensor> inputs = reached.back()->inputs;
      for (const Tensor& input : inputs) visit(input);
    }
    std::sort(reached.begin(), reached.end(), [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
    for (const std::shared_ptr<Node>& node : reached) {
      if (node->operation->name == "stop_gradient") continue;
      if (std::none_of(node->inputs.begin(), node->inputs.end(), [&](const Tensor& x) { return depends_.contains(x); })) continue;
      for (const Tensor& output : outputs_of(node)) depends_.insert(output);
      nodes_.push_back(node);
    }
  }

  const std::vector<std::shared_ptr<Node>>& nodes() const { return nodes_; }
  bool holds(const Tensor& tensor) const { return depends_.contains(tensor); }

 private:
  TensorSet depends_;
  std::vector<std::shared_ptr<Node>> nodes_;
};

// The gradients of one node's inputs, by its rule or through its decomposition.
std::vector<Tensor> input_gradients(const Node& node, const std::vector<Tensor>& outputs, std::vector<Tensor> cotangents,
                                    const Dependence& dependence) {
  const std::unique_ptr<bool[]> wants(new bool[node.inputs.size()]);
  for (size_t i = 0; i < node.inputs.size(); ++i) wants[i] = dependence.holds(node.inputs[i]);
  if (node.operation->gradient) {
    // A rule of one output may rely on its cotangent; of several outputs, those that nobody used are zero.
    if (cotangents.size() > 1 && node.operation->kind == OperationKind::kComposite)
      for (size_t i = 0; i < cotangents.size(); ++i)
        if (!cotangents[i].defined()) cotangents[i] = zeros(outputs[i].shape(), outputs[i].dtype());
    return node.operation->gradient({node.inputs, outputs, cotangents, node.attributes, {wants.get(), node.inputs.size()}});
  }
  if (!node.operation->decompose)
    fail("{}{}: {} has no gradient; detach() what needs none", *node.scope, node.scope->empty() ? "" : ": ", "this operation '" + std::string(node.operation->name) + "'");
  std::vector<Tensor> parts = node.operation->decompose(node.inputs, node.attributes), used_parts, used_cotangents, sources;
  for (size_t i = 0; i < parts.size(); ++i)
    if (cotangents[i].defined()) {
      used_parts.push_back(parts[i]);
      used_cotangents.push_back(cotangents[i]);
    }
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (wants[i]) sources.push_back(node.inputs[i]);
  const std::vector<Tensor> found = gradients(used_parts, used_cotangents, sources);
  std::vector<Tensor> result(node.inputs.size());
  for (size_t i = 0, next = 0; i < node.inputs.size(); ++i)
    if (wants[i]) result[i] = found[next++];
  return result;
}

}  // namespace

std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents,
                              const std::vector<Tensor>& with_respect_to) {
  const NoGradient no_second_order;  // the backward pass itself does not remember how it was computed
  const Dependence dependence(outputs, with_respect_to);
  TensorMap<Tensor> total;
  const auto accumulate = [&](const Tensor& tensor, const Tensor& part) {
    if (!part.defined() || !dependence.holds(tensor)) return;
    if (part.shape() != tensor.shape())
      fail(ErrorKind::kInternal, "a gradient of {} came for a value of {}", to_string(part.type()), to_string(tensor.type()));
    const auto [place, fresh] = total.try_emplace(tensor, part);
    if (!fresh) place->second = place->second + part;
  };
  for (size_t i = 0; i < outputs.size(); ++i) accumulate(outputs[i], cotangents[i]);

  const TensorSet sources(with_respect_to.begin(), with_respect_to.end());
  for (auto node = dependence.nodes().rbegin(); node != dependence.nodes().rend(); ++node) {
    const std::vector<Tensor> node_outputs = outputs_of(*node);
    std::vector<Tensor> node_cotangents;
    bool any = false;
    for (const Tensor& output : node_outputs) {
      const auto found = total.find(output);
      node_cotangents.push_back(found == total.end() ? Tensor() : found->second);
      any |= node_cotangents.back().defined();
      if (found != total.end() && !sources.contains(output)) total.erase(found);
    }
    if (!any) continue;
    const UseScope scope((*node)->scope);
    const std::vector<Tensor> parts = input_gradients(**node, node_outputs, std::move(node_cotangents), dependence);
    for (size_t i = 0; i < parts.size(); ++i) accumulate((*node)->inputs[i], parts[i]);
  }

  std::vector<Tensor> result;
  for (const Tensor& tensor : with_respect_to) {
    const auto found = total.find(tensor);
    result.push_back(found == total.end() ? zeros(tensor.shape(), tensor.dtype()) : found->second);
  }
  return result;
}

std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& with_respect_to) {
  if (loss.size() != 1) fail("gradients: expected a loss of one element, found {}", to_string(loss.type()));
  return gradients({loss}, {full(loss.shape(), 1, loss.dtype())}, with_respect_to);
}

}  // namespace transom

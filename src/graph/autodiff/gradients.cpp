// SPDX-License-Identifier: Apache-2.0
// The reverse sweep over the records' gradient rules.
#include "transom/gradients.h"

#include <algorithm>

#include "base/error.h"
#include "graph/ir/claimed_graph.h"
#include "graph/ir/tensor_map.h"
#include "graph/ops/records.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Whether a source may depend on other sources, and passes its gradient on to them.
enum class Sources { kPassOn, kEnd };

// A node that the sweep passes, with its inputs: it lets go of its own when another thread computes it meanwhile.
struct Reached {
  std::shared_ptr<Node> node;
  std::vector<Tensor> inputs;
};

// A value that was computed, and may be computed from the source, has nothing left that would tell it.
[[noreturn]] void refuse_released(const Node& node, const Tensor& source) {
  const std::string where = node.scope->empty() ? "" : *node.scope + ": ";
  fail(ErrorKind::kUsage,
       "gradients: {}{} of {} was computed before, and it is not known any more whether it depends on the tensor of {} "
       "that its gradient is asked for; ask for gradients before values are read, or call set_requires_grad() on that "
       "tensor before it is used",
       where, node.operation->name, to_string(node.types), to_string(source.type()));
}

// The nodes between `sources` and `outputs`, in order of creation, and the set of values that depend on a source.
class Dependence {
 public:
  Dependence(const std::vector<Tensor>& outputs, const std::vector<Tensor>& sources, Sources kind)
      : depends_(sources.begin(), sources.end()) {
    // A node is younger than its inputs, so what is not younger than the oldest source depends on none.
    uint64_t oldest = UINT64_MAX;
    for (const Tensor& source : sources) oldest = std::min(oldest, source.node()->sequence);
    std::vector<Reached> reached;
    {
      const ClaimedGraph claimed([&] { return between(outputs, sources, oldest, kind); });
      for (const std::shared_ptr<Node>& node : claimed.graph().nodes) reached.push_back({node, node->inputs});
    }
    std::sort(reached.begin(), reached.end(),
              [](const Reached& a, const Reached& b) { return a.node->sequence < b.node->sequence; });
    for (Reached& each : reached) {
      const auto& [node, inputs] = each;
      const auto depends = [&](const Tensor& x) { return depends_.contains(x); };
      if (node->operation->stops_gradient || std::none_of(inputs.begin(), inputs.end(), depends)) continue;
      bool carries = false;  // integers and bool carry no gradient
      for (const Tensor& output : outputs_of(node))
        if (is_floating(output.dtype())) depends_.insert(output), carries = true;
      if (carries) nodes_.push_back(std::move(each));
    }
  }

  const std::vector<Reached>& nodes() const { return nodes_; }
  bool holds(const Tensor& tensor) const { return depends_.contains(tensor); }

 private:
  // What the outputs are computed from, as far as it is younger than the oldest source.
  Graph between(const std::vector<Tensor>& outputs, const std::vector<Tensor>& sources, uint64_t oldest,
                Sources kind) const {
    Graph graph;
    std::unordered_set<const Node*> seen;
    std::vector<std::shared_ptr<Node>> pending;
    const auto visit = [&](const Tensor& tensor) {
      if (kind == Sources::kEnd && depends_.contains(tensor)) return;
      if (tensor.node()->sequence > oldest && seen.insert(tensor.node().get()).second) pending.push_back(tensor.node());
    };
    for (const Tensor& output : outputs) visit(output);
    while (!pending.empty()) {
      const std::shared_ptr<Node> node = std::move(pending.back());
      pending.pop_back();
      if (node->released)
        for (const Tensor& source : sources)
          if (source.node() != node && source.node()->released_use <= node->sequence) refuse_released(*node, source);
      for (const Tensor& input : node->inputs) visit(input);
      graph.nodes.push_back(node);
    }
    return graph;
  }

  TensorSet depends_;
  std::vector<Reached> nodes_;
};

std::vector<Tensor> sweep(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents,
                          const std::vector<Tensor>& sources, Sources kind);

// What a node without a gradient rule of its own stands for: the same outputs, computed from `inputs` by other nodes.
struct Expansion {
  std::vector<Tensor> inputs, outputs, cotangents;
};

// A copy of the region, separated from the forward pass and tied to the cotangents (see checkpoint.cpp).
Expansion recomputed(const Graph& region, const std::vector<Tensor>& inputs, const std::vector<Tensor>& cotangents) {
  const EnableGrad expanding;
  std::vector<Tensor> separated = inputs;
  for (const Tensor& cotangent : cotangents)
    if (cotangent.defined()) separated.push_back(cotangent);
  separated = make_tensors(op::optimization_barrier, std::move(separated));
  Expansion expansion;
  expansion.inputs.assign(separated.begin(), separated.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
  auto next = separated.begin() + static_cast<std::ptrdiff_t>(inputs.size());
  for (const Tensor& cotangent : cotangents) expansion.cotangents.push_back(cotangent.defined() ? *next++ : Tensor());
  expansion.outputs = inline_graph(region, expansion.inputs);
  return expansion;
}

std::vector<Tensor> gradients_through(const Expansion& expansion, const std::vector<bool>& wants) {
  std::vector<Tensor> outputs, cotangents, sources;
  for (size_t i = 0; i < expansion.outputs.size(); ++i)
    if (expansion.cotangents[i].defined()) {
      outputs.push_back(expansion.outputs[i]);
      cotangents.push_back(expansion.cotangents[i]);
    }
  // A tensor that is an input twice gets its whole gradient in its first place.
  std::vector<size_t> places;
  TensorSet seen;
  for (size_t i = 0; i < expansion.inputs.size(); ++i)
    if (wants[i] && seen.insert(expansion.inputs[i]).second) {
      sources.push_back(expansion.inputs[i]);
      places.push_back(i);
    }
  const std::vector<Tensor> found = sweep(outputs, cotangents, sources, Sources::kEnd);
  std::vector<Tensor> result(expansion.inputs.size());
  for (size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
  return result;
}

// The gradients of one node's inputs, by its rule, or through what it stands for.
std::vector<Tensor> input_gradients(const Reached& reached, const std::vector<Tensor>& outputs,
                                    std::vector<Tensor> cotangents, const Dependence& dependence) {
  const Node& node = *reached.node;
  const Operation& operation = *node.operation;
  std::vector<bool> wants;
  for (const Tensor& input : reached.inputs) wants.push_back(dependence.holds(input));
  if (node.region) return gradients_through(recomputed(*node.region, reached.inputs, cotangents), wants);
  if (operation.gradient) {
    const std::unique_ptr<bool[]> flags(new bool[wants.size()]);
    std::copy(wants.begin(), wants.end(), flags.get());
    std::vector<Tensor> given =
        operation.gradient({reached.inputs, outputs, cotangents, node.attributes, {flags.get(), wants.size()}});
    // A rule may leave what is seldom wanted to the decomposition, by an empty answer.
    if (!given.empty() || !operation.decompose) return given;
  }
  if (!operation.decompose) {
    const std::string where = node.scope->empty() ? "" : *node.scope + ": ";
    fail("{}{} has no gradient: detach() its input, or ask for no gradient through it", where, operation.name);
  }
  const auto decomposed = [&] {
    // Eager mode runs its nodes at once; without this they would drop their inputs before the sweep reaches them.
    const EnableGrad expanding;
    return operation.decompose(reached.inputs, node.attributes);
  };
  return gradients_through({reached.inputs, decomposed(), std::move(cotangents)}, wants);
}

// The gradients of the sources; undefined where the outputs do not depend on one.
std::vector<Tensor> sweep(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents,
                          const std::vector<Tensor>& sources, Sources kind) {
  const Dependence dependence(outputs, sources, kind);
  TensorMap<Tensor> total;
  const auto accumulate = [&](const Tensor& tensor, const Tensor& part) {
    if (!part.defined() || !dependence.holds(tensor)) return;
    if (part.type() != tensor.type())
      fail(ErrorKind::kInternal, "a gradient of {} came for a value of {}", to_string(part.type()),
           to_string(tensor.type()));
    const auto [place, fresh] = total.try_emplace(tensor, part);
    if (!fresh) place->second = place->second + part;
  };
  for (size_t i = 0; i < outputs.size(); ++i) accumulate(outputs[i], cotangents[i]);

  const TensorSet kept(sources.begin(), sources.end());
  for (auto reached = dependence.nodes().rbegin(); reached != dependence.nodes().rend(); ++reached) {
    const std::vector<Tensor> node_outputs = outputs_of(reached->node);
    std::vector<Tensor> node_cotangents;
    bool any = false;
    for (const Tensor& output : node_outputs) {
      const auto found = total.find(output);
      node_cotangents.push_back(found == total.end() ? Tensor() : found->second);
      any |= node_cotangents.back().defined();
      if (found != total.end() && !kept.contains(output)) total.erase(found);
    }
    if (!any) continue;
    const UseScope scope(reached->node->scope);
    const std::vector<Tensor> parts = input_gradients(*reached, node_outputs, std::move(node_cotangents), dependence);
    for (size_t i = 0; i < parts.size(); ++i) accumulate(reached->inputs[i], parts[i]);
  }

  std::vector<Tensor> result;
  for (const Tensor& source : sources) {
    const auto found = total.find(source);
    result.push_back(found == total.end() ? Tensor() : found->second);
  }
  return result;
}

}  // namespace

std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents,
                              const std::vector<Tensor>& with_respect_to) {
  if (outputs.size() != cotangents.size())
    fail("gradients: expected a cotangent for each of {} outputs, found {}", outputs.size(), cotangents.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_floating(outputs[i].dtype()))
      fail("gradients: expected floating outputs, found {}", to_string(outputs[i].type()));
    if (cotangents[i].type() != outputs[i].type())
      fail("gradients: expected a cotangent of {}, found {}", to_string(outputs[i].type()),
           to_string(cotangents[i].type()));
  }
  for (const Tensor& tensor : with_respect_to) tensor.type();  // refuses empty ones
  const NoGradient no_second_order;  // the backward pass itself does not remember how it was computed
  std::vector<Tensor> result = sweep(outputs, cotangents, with_respect_to, Sources::kPassOn);
  for (size_t i = 0; i < result.size(); ++i)
    if (!result[i].defined()) result[i] = zeros(with_respect_to[i].shape(), with_respect_to[i].dtype());
  return result;
}

std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& with_respect_to) {
  if (loss.size() != 1) fail("gradients: expected a loss of one element, found {}", to_string(loss.type()));
  return gradients({loss}, {full(loss.shape(), 1, loss.dtype())}, with_respect_to);
}

}  // namespace transom

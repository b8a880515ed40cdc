// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/graph.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "graph/ir/tensor_map.h"

namespace transom {

Graph make_graph(std::vector<Tensor> outputs, std::vector<Tensor> inputs) {
  Graph graph{std::move(inputs), {}, std::move(outputs)};
  TensorSet leaves;
  for (const Tensor& input : graph.inputs) leaves.insert(input);
  std::unordered_set<const Node*> seen;
  std::vector<Tensor> pending(graph.outputs.rbegin(), graph.outputs.rend());
  while (!pending.empty()) {
    const Tensor tensor = std::move(pending.back());
    pending.pop_back();
    if (leaves.contains(tensor)) continue;
    if (tensor.node()->computed(tensor.output()) || is_input(*tensor.node())) {
      leaves.insert(tensor);
      graph.inputs.push_back(tensor);
    } else if (seen.insert(tensor.node().get()).second) {
      graph.nodes.push_back(tensor.node());
      pending.insert(pending.end(), tensor.node()->inputs.rbegin(), tensor.node()->inputs.rend());
    }
  }
  std::sort(graph.nodes.begin(), graph.nodes.end(),
            [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
  return graph;
}

namespace {

// Appends to `nodes` what `tensor` needs and `placed` does not hold yet, inputs first.
void place(const Tensor& tensor, std::unordered_set<const Node*>& placed, std::vector<std::shared_ptr<Node>>& nodes) {
  std::vector<std::pair<std::shared_ptr<Node>, size_t>> path;
  if (placed.insert(tensor.node().get()).second) path.emplace_back(tensor.node(), 0);
  while (!path.empty()) {
    auto& [node, next] = path.back();
    if (next < node->inputs.size()) {
      const std::shared_ptr<Node>& input = node->inputs[next++].node();
      if (placed.insert(input.get()).second) path.emplace_back(input, 0);
    } else {
      nodes.push_back(node);
      path.pop_back();
    }
  }
}

// Keeps only the nodes that the outputs need.
void drop_unused(Graph& graph) {
  std::unordered_set<const Node*> used;
  for (const Tensor& output : graph.outputs) used.insert(output.node().get());
  std::vector<std::shared_ptr<Node>> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!used.contains(node->get())) continue;
    for (const Tensor& input : (*node)->inputs) used.insert(input.node().get());
    kept.push_back(std::move(*node));
  }
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

}  // namespace

Graph rewrite(const Graph& graph, const Replacement& replace) {
  const CompilerScope compiler;
  Graph result;
  result.inputs = graph.inputs;
  TensorMap<Tensor> replacement;
  std::unordered_set<const Node*> placed;
  for (const Tensor& input : graph.inputs) {
    replacement.emplace(input, input);
    placed.insert(input.node().get());
  }
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    std::vector<Tensor> inputs;
    bool same = true;
    for (const Tensor& input : node->inputs) {
      const auto found = replacement.find(input);
      inputs.push_back(found == replacement.end() ? input : found->second);
      same &= inputs.back().same_as(input);
    }
    const UseScope scope(node->scope);
    std::vector<Tensor> outputs = replace(*node, inputs);
    if (outputs.empty())
      outputs =
          outputs_of(same ? node : make_node(*node->operation, std::move(inputs), node->attributes, node->region));
    for (size_t i = 0; i < outputs.size(); ++i) {
      replacement.insert_or_assign(Tensor(node, static_cast<int>(i)), outputs[i]);
      place(outputs[i], placed, result.nodes);
    }
  }
  for (const Tensor& output : graph.outputs) {
    const auto found = replacement.find(output);
    result.outputs.push_back(found == replacement.end() ? output : found->second);
  }
  drop_unused(result);
  return result;
}

std::vector<Tensor> inline_graph(const Graph& graph, const std::vector<Tensor>& inputs) {
  if (inputs.size() != graph.inputs.size())
    fail(ErrorKind::kInternal, "a graph of {} inputs is inlined with {}", graph.inputs.size(), inputs.size());
  TensorMap<Tensor> replacement;
  const auto replaced = [&](const std::vector<Tensor>& tensors) {
    std::vector<Tensor> result;
    for (const Tensor& tensor : tensors) {
      const auto found = replacement.find(tensor);
      if (found == replacement.end()) fail(ErrorKind::kInternal, "a graph uses a tensor that nothing in it makes");
      result.push_back(found->second);
    }
    return result;
  };
  for (size_t i = 0; i < inputs.size(); ++i) replacement.emplace(graph.inputs[i], inputs[i]);
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const UseScope scope(node->scope);
    const auto copy = make_node(*node->operation, replaced(node->inputs), node->attributes, node->region);
    for (size_t i = 0; i < copy->types.size(); ++i)
      replacement.emplace(Tensor(node, static_cast<int>(i)), Tensor(copy, static_cast<int>(i)));
  }
  return replaced(graph.outputs);
}

Graph isolate(const Graph& graph) {
  const CompilerScope compiler;
  Graph result;
  TensorMap<Tensor> replacement;
  const auto replaced = [&](const Tensor& tensor) { return replacement.at(tensor); };
  for (const Tensor& input : graph.inputs) {
    result.inputs.push_back(make_input(input.type()));
    replacement.emplace(input, result.inputs.back());
  }
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const UseScope scope(node->scope);
    std::vector<Tensor> inputs;
    for (const Tensor& input : node->inputs) inputs.push_back(replaced(input));
    result.nodes.push_back(make_node(*node->operation, std::move(inputs), node->attributes, node->region));
    for (size_t i = 0; i < node->types.size(); ++i)
      replacement.emplace(Tensor(node, static_cast<int>(i)), Tensor(result.nodes.back(), static_cast<int>(i)));
  }
  for (const Tensor& output : graph.outputs) result.outputs.push_back(replaced(output));
  return result;
}

// ---- structural key

namespace {

struct Mixer {
  uint64_t first = 0x243F6A8885A308D3, second = 0x13198A2E03707344;

  void add(uint64_t value) {
    first = (std::rotl(first, 23) ^ value) * 0x9E3779B97F4A7C15;
    second = std::rotl(second ^ (value * 0xC2B2AE3D27D4EB4F), 31) * 0x165667B19E3779F9;
    first ^= first >> 29;
  }
  void add(std::string_view text) {
    add(text.size());
    uint64_t word = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      word = word << 8 | static_cast<unsigned char>(text[i]);
      if (i % 8 == 7) add(std::exchange(word, 0));
    }
    add(word);
  }
  void add(const Type& type) {
    add(static_cast<uint64_t>(type.dtype) << 32 | type.shape.size());
    for (const int64_t extent : type.shape) add(static_cast<uint64_t>(extent));
  }
  void add(const Attributes& attributes) {
    add(attributes.items().size());
    for (const auto& [name, value] : attributes.items()) {
      add(std::string_view(name));
      add(value.index());
      if (const auto* number = std::get_if<int64_t>(&value)) add(static_cast<uint64_t>(*number));
      else if (const auto* real = std::get_if<double>(&value)) add(std::bit_cast<uint64_t>(*real));
      else if (const auto* text = std::get_if<std::string>(&value)) add(std::string_view(*text));
      else {
        const auto& list = std::get<std::vector<int64_t>>(value);
        add(list.size());
        for (const int64_t item : list) add(static_cast<uint64_t>(item));
      }
    }
  }
};

void mix(Mixer& mixer, const Graph& graph) {
  TensorMap<uint64_t> names;
  const auto name = [&](const Tensor& tensor) {
    const auto found = names.find(tensor);
    if (found == names.end()) fail(ErrorKind::kInternal, "a graph uses a tensor that nothing in it makes");
    return found->second;
  };
  mixer.add(graph.inputs.size());
  for (const Tensor& input : graph.inputs) {
    names.emplace(input, names.size());
    mixer.add(input.type());
  }
  mixer.add(graph.nodes.size());
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    mixer.add(reinterpret_cast<uintptr_t>(node->operation));
    mixer.add(node->inputs.size());
    for (const Tensor& input : node->inputs) mixer.add(name(input));
    mixer.add(node->attributes);
    mixer.add(node->region != nullptr);
    if (node->region) mix(mixer, *node->region);
    for (size_t i = 0; i < node->types.size(); ++i) names.emplace(Tensor(node, static_cast<int>(i)), names.size());
  }
  for (const Tensor& output : graph.outputs) mixer.add(name(output));
}

}  // namespace

GraphKey structural_key(const Graph& graph) {
  Mixer mixer;
  mix(mixer, graph);
  return {mixer.first, mixer.second};
}

void GraphKey::mix(uint64_t value) {
  first = (first ^ value) * 0x9E3779B97F4A7C15;
  second = (second + value) * 0xC2B2AE3D27D4EB4F;
  first ^= first >> 31;
  second ^= second >> 29;
}

}  // namespace transom

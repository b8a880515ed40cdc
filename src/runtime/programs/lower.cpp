// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/lower.h"

#include <algorithm>

#include "graph/ops/records.h"
#include "graph/passes/updates_last.h"

namespace transom {
namespace {

// Outputs that the device makes: each once, none of them an input.
void make_outputs_distinct(LoweredGraph& lowered) {
  Graph& graph = lowered.graph;
  TensorMap<LoweredGraph::Source> sources;
  for (size_t i = 0; i < graph.inputs.size(); ++i) sources.emplace(graph.inputs[i], LoweredGraph::Source{true, i});
  std::vector<Tensor> distinct;
  for (const Tensor& output : graph.outputs) {
    const auto [place, fresh] = sources.emplace(output, LoweredGraph::Source{false, distinct.size()});
    if (fresh) distinct.push_back(output);
    lowered.outputs.push_back(place->second);
    if (place->second.is_input) lowered.donated[place->second.index] = false;  // it is handed out, so it must stay
  }
  graph.outputs = std::move(distinct);
}

// Layers in 8-bit integers that the device does not run whole: their weights are rounded by nodes of their own, which
// are folded where the weights are frozen. Of other composites frozen parts are small, or larger than what they are of.
Graph with_rounded_weights(const Graph& graph, const Supports& supports) {
  return rewrite(graph, [&](const Node& node, const std::vector<Tensor>& inputs) {
    if (!is_op(node, op::quantized_linear) || supports(node)) return std::vector<Tensor>{};
    return node.operation->decompose(inputs, node.attributes);
  });
}

}  // namespace

CompileTarget compile_target(std::vector<std::string> composites) {
  return {.supports =
              [names = std::move(composites)](const Node& node) {
                return std::find(names.begin(), names.end(), node.operation->name) != names.end();
              },
          .runs = nullptr};
}

LoweredGraph lower(const Graph& traced, const CompileTarget& device, const ProgramOptions& options,
                   const std::function<void(std::string_view, const Graph&)>& observe) {
  const CompilerScope compiler;
  LoweredGraph lowered;
  lowered.frozen = options.frozen;
  lowered.frozen.resize(traced.inputs.size());
  FoldedGraph folded = fold_constants(with_rounded_weights(isolate(traced), device.supports), lowered.frozen);
  verify_pass("fold_constants", folded.graph);
  lowered.folded = std::move(folded.values);
  const size_t inputs = folded.graph.inputs.size();
  lowered.donated = options.donated;
  lowered.donated.resize(inputs);
  lowered.frozen.resize(inputs, true);  // what is folded is frozen too
  lowered.graph =
      run_passes(std::move(folded.graph), {.supports = device.supports, .runs = device.runs, .observe = observe});
  make_outputs_distinct(lowered);
  lowered.restorable = options.restorable;
  lowered.restorable.resize(inputs);
  UpdatesLast ordered = updates_last(std::move(lowered.graph), lowered.donated, lowered.restorable);
  lowered.graph = std::move(ordered.graph);
  lowered.first_update = ordered.first_update;
  verify_pass("updates_last", lowered.graph);
  lowered.plan = plan_memory(lowered.graph, lowered.donated, lowered.restorable, lowered.first_update);
  return lowered;
}

}  // namespace transom

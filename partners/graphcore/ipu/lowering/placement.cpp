// SPDX-License-Identifier: Apache-2.0
#include "ipu/lowering/placement.h"

#include <algorithm>
#include <map>

#include "transom/plugin/types.h"

namespace transom::ipu {
namespace {

// The IPU of each layer.
std::vector<uint32_t> stages_of(int64_t layers, const std::vector<int64_t>& layers_per_ipu) {
  int64_t told = 0, open = 0;
  for (const int64_t count : layers_per_ipu) count < 0 ? ++open : told += count;
  const int64_t left = std::max<int64_t>(0, layers - told);
  std::vector<uint32_t> stages;
  int64_t filled = 0;
  for (uint32_t ipu = 0; ipu < layers_per_ipu.size(); ++ipu) {
    int64_t count = layers_per_ipu[ipu];
    if (count < 0) count = left / open + (filled++ < left % open ? 1 : 0);
    stages.insert(stages.end(), static_cast<size_t>(count), ipu);
  }
  // Layers that nobody was told of are the last IPU's.
  stages.resize(static_cast<size_t>(std::max<int64_t>(layers, static_cast<int64_t>(stages.size()))),
                static_cast<uint32_t>(layers_per_ipu.size() - 1));
  return stages;
}

}  // namespace

int64_t layer_of(std::string_view scope) {
  for (size_t at = 0; at < scope.size();) {
    const size_t end = std::min(scope.find('.', at), scope.size());
    const std::string_view part = scope.substr(at, end - at);
    if (!part.empty() && part.size() < 6 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      int64_t number = 0;
      for (const char c : part) number = number * 10 + (c - '0');
      return number;
    }
    at = end + 1;
  }
  return -1;
}

Placement place(const transom_graph& graph, const IpuConfig& config) {
  Placement placement;
  const uint32_t last = static_cast<uint32_t>(config.layers_per_ipu.size()) - 1;
  int64_t layers = 0;
  for (const transom_node& node : plugin::Nodes(graph))
    layers = std::max(layers, layer_of(node.scope ? node.scope : "") + 1);
  const std::vector<uint32_t> stages = stages_of(layers, config.layers_per_ipu);
  std::vector<uint32_t> values(graph.values_count, 0);
  std::vector<bool> known(graph.values_count, false);
  for (const transom_node& node : plugin::Nodes(graph)) {
    const int64_t layer = layer_of(node.scope ? node.scope : "");
    uint32_t ipu = 0;
    if (last > 0 && layer >= 0) ipu = stages[static_cast<size_t>(layer)];
    else if (last > 0) {  // what has no layer follows the most that it reads, which then takes no link
      int64_t most = -1;
      for (size_t i = 0; i < node.inputs_count; ++i) {
        const int32_t input = node.inputs[i];
        if (!known[static_cast<size_t>(input)]) continue;
        const auto bytes = static_cast<int64_t>(backend::type_of(graph, input).bytes());
        const uint32_t there = values[static_cast<size_t>(input)];
        if (bytes > most || (bytes == most && there > ipu)) ipu = there, most = bytes;
      }
    }
    placement.nodes.push_back(ipu);
    for (size_t i = 0; i < node.outputs_count; ++i) {
      values[static_cast<size_t>(node.outputs[i])] = ipu;
      known[static_cast<size_t>(node.outputs[i])] = true;
    }
    for (size_t i = 0; i < node.inputs_count; ++i) {
      const auto input = static_cast<size_t>(node.inputs[i]);
      if (!known[input]) values[input] = ipu, known[input] = true;
    }
  }
  for (size_t i = 0; i < graph.inputs_count; ++i)
    placement.inputs.push_back(values[static_cast<size_t>(graph.inputs[i])]);
  return placement;
}

}  // namespace transom::ipu

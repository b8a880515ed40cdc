// SPDX-License-Identifier: Apache-2.0
#include "ipu/lowering/streaming_memory.h"

#include <map>
#include <string_view>

#include "transom/plugin/types.h"

namespace transom::ipu {
namespace {

constexpr int64_t kFewestElements = 2;            // as PopART's minElementsForOffChip
constexpr std::string_view kScope = "optimizer";  // in which the host makes all nodes of an update

bool updates(const transom_node& node) {
  const std::string_view scope = node.scope ? node.scope : "";
  return scope == kScope || (scope.starts_with(kScope) && scope[kScope.size()] == '.');
}

}  // namespace

StreamedValues streamed_values(const transom_graph& graph) {
  struct Use {
    bool read = false, elsewhere = false, made = false;
  };
  std::map<int32_t, Use> uses;
  for (const transom_node& node : plugin::Nodes(graph)) {
    const bool update = updates(node);
    for (size_t i = 0; i < node.inputs_count; ++i) {
      Use& use = uses[node.inputs[i]];
      use.read = true;
      use.elsewhere = use.elsewhere || !update;
    }
    for (size_t i = 0; i < node.outputs_count; ++i) uses[node.outputs[i]].made = update;
  }
  const auto fits = [&](int32_t value) { return backend::type_of(graph, value).count() >= kFewestElements; };
  StreamedValues result;
  for (size_t i = 0; i < graph.inputs_count; ++i) {
    const Use use = uses[graph.inputs[i]];
    result.inputs.push_back(use.read && !use.elsewhere && fits(graph.inputs[i]));
  }
  for (size_t i = 0; i < graph.outputs_count; ++i)
    result.outputs.push_back(uses[graph.outputs[i]].made && fits(graph.outputs[i]));
  return result;
}

}  // namespace transom::ipu

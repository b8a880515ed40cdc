// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/equal_programs.h"

#include <algorithm>
#include <unordered_map>

namespace transom {
namespace {

// "layers.*.mlp" of "layers.3.mlp".
const std::string* without_numbers(const std::string& scope) {
  std::string general;
  for (size_t begin = 0; begin <= scope.size();) {
    const size_t end = std::min(scope.find('.', begin), scope.size());
    const std::string segment = scope.substr(begin, end - begin);
    const bool number = !segment.empty() && segment.find_first_not_of("0123456789") == std::string::npos;
    general += number ? "*" : segment;
    if (end < scope.size()) general += '.';
    begin = end + 1;
  }
  return intern_scope(general);
}

GraphKey key_of(const ProgramPart& part) {
  GraphKey key = structural_key(part.graph);
  for (const std::shared_ptr<Node>& node : part.graph.nodes)
    key.mix(reinterpret_cast<uintptr_t>(without_numbers(*node->scope)));
  for (size_t i = 0; i < part.graph.inputs.size(); ++i)
    key.mix(part.donated[i] + 2 * part.frozen[i] + 4 * part.restorable[i]);
  key.mix(part.updates_from);
  return key;
}

// The graph that stands for all `members` of the parts: where their scopes differ, without the numbers.
Graph common_graph(const std::vector<const ProgramPart*>& parts, const std::vector<size_t>& members) {
  Graph common = isolate(parts[members[0]]->graph);
  for (size_t n = 0; n < common.nodes.size(); ++n) {
    Node& node = *common.nodes[n];
    if (std::any_of(members.begin(), members.end(),
                    [&](size_t member) { return parts[member]->graph.nodes[n]->scope != node.scope; }))
      node.scope = without_numbers(*node.scope);
  }
  return common;
}

}  // namespace

EqualPrograms compile_programs(const std::shared_ptr<Device>& device, const std::vector<const ProgramPart*>& parts,
                               std::string* description) {
  std::vector<std::vector<size_t>> groups;
  std::unordered_map<GraphKey, size_t, GraphKeyHash> place;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [found, fresh] = place.try_emplace(key_of(*parts[i]), groups.size());
    if (fresh) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  EqualPrograms result;
  result.programs.resize(parts.size());
  result.executables = groups.size();
  for (const std::vector<size_t>& members : groups) {
    const ProgramPart& part = *parts[members[0]];
    const Graph graph = common_graph(parts, members);
    const DeviceProgram program(device, graph, plan_memory(graph, part.donated, part.restorable, part.updates_from),
                                part.frozen, part.restorable, description);
    for (const size_t member : members)
      result.programs[member] = std::make_unique<DeviceProgram>(program, parts[member]->graph);
  }
  return result;
}

}  // namespace transom

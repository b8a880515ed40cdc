// SPDX-License-Identifier: Apache-2.0
// The functions of the interface for graphs and nodes.
#include <algorithm>
#include <map>

#include "configuration.h"
#include "graph.h"
#include "process.h"

namespace synapse_emulator {

Node view_of(const GraphNode& node) {
  Node view;
  view.guid = node.kernel ? node.kernel->name : node.guid;
  view.type = node.type;
  view.params = node.params;
  view.rounding = node.rounding;
  const auto operands = [](const std::vector<std::shared_ptr<Tensor>>& tensors) {
    std::vector<Operand> result;
    for (const auto& tensor : tensors) {
      Operand operand;
      if (tensor) {
        operand.type = tensor->type;
        operand.kind = tensor->kind;
        operand.sizes = tensor->sizes;
        operand.present = true;
      }
      result.push_back(operand);
    }
    return result;
  };
  view.in = operands(node.inputs);
  view.out = operands(node.outputs);
  return view;
}

void check_node(const GraphNode& node) {
  const Node view = view_of(node);
  for (const auto* list : {&view.in, &view.out}) {
    for (size_t i = 0; i < list->size(); ++i) {
      const Operand& operand = (*list)[i];
      if (!operand.present) continue;
      require(operand.kind == DATA_TENSOR || (list == &view.in && i >= node.kernel->reads), view,
              "a shape tensor, which has no data, is given for ", list == &view.in ? "input " : "output ", i);
      require(operand.type != syn_type_na, view, "a tensor has no data type");
      require(operand.sizes.rank > 0, view, "a tensor has no geometry");
      require(node.kernel->engine == Engine::kDma || operand.sizes.rank <= kMostKernelDims, view, "a tensor has ",
              operand.sizes.rank, " dims; kernels take at most ", kMostKernelDims);
    }
  }
  node.kernel->check(view);
}

}  // namespace synapse_emulator

using namespace synapse_emulator;

namespace {

constexpr size_t kLongestGuid = 256;

int create_graph(synGraphHandle* handle, synDeviceType type, bool eager) {
  rule(handle != nullptr, synInvalidArgument, "arguments", "no place for the handle");
  rule(type == configuration().generation.type, synDeviceTypeMismatch, "device-type", "a graph for type ", type,
       ", the card has type ", configuration().generation.type);
  auto graph = std::make_shared<Graph>();
  graph->device = type;
  graph->eager = eager;
  *handle = process().graphs.add<synGraphHandle>(graph);
  return synSuccess;
}

std::vector<std::shared_ptr<Tensor>> operands(const Graph& graph, const synTensor* list, uint32_t count) {
  rule(count == 0 || list != nullptr, synInvalidArgument, "arguments", "a list of operands is missing");
  rule(count <= 64, synInvalidArgument, "arguments", count, " operands");
  std::vector<std::shared_ptr<Tensor>> result;
  for (uint32_t i = 0; i < count; ++i) {
    if (!list[i]) {
      result.push_back(nullptr);
      continue;
    }
    result.push_back(process().tensors.get(list[i]));
    rule(result.back()->graph == &graph, synInvalidArgument, "tensor-graph", "tensor ", result.back()->name,
         " is of another graph");
  }
  return result;
}

void check_layouts(const char** layouts, const std::vector<std::shared_ptr<Tensor>>& tensors) {
  if (!layouts) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!layouts[i] || !*layouts[i] || !tensors[i]) continue;
    const std::string layout = layouts[i];
    rule(static_cast<int>(layout.size()) == tensors[i]->sizes.rank || layout == "x", synInvalidArgument, "layout",
         "layout ", layout, " for tensor ", tensors[i]->name, " of ", tensors[i]->sizes.rank, " dims");
  }
}

int create_node(const synGraphHandle handle, const synTensor* in, const synTensor* out, uint32_t count_in,
                uint32_t count_out, const void* params, unsigned bytes, const char* guid, const char* name,
                synNodeId* id, const char** in_layouts, const char** out_layouts) {
  const std::shared_ptr<Graph> graph = process().graphs.get(handle);
  rule(!graph->compiled, synInvalidArgument, "graph-life", "the graph is compiled already");
  rule(guid != nullptr && std::strlen(guid) < kLongestGuid, synInvalidArgument, "arguments", "no GUID, or too long");
  rule(bytes == 0 || params != nullptr, synInvalidArgument, "arguments", "params are missing");
  rule(bytes <= 4096, synInvalidArgument, "arguments", "params of ", bytes, " bytes");
  GraphNode node;
  node.guid = guid;
  node.name = name ? name : "";
  std::string why;
  node.kernel = find_kernel(guid, node.type, why);
  rule(node.kernel != nullptr, synFail, "guid", why);
  node.inputs = operands(*graph, in, count_in);
  node.outputs = operands(*graph, out, count_out);
  if (params) node.params.assign(static_cast<const char*>(params), static_cast<const char*>(params) + bytes);
  check_layouts(in_layouts, node.inputs);
  check_layouts(out_layouts, node.outputs);
  if (node.kernel->types.empty()) check_node(node);  // kernels of the TPC library are asked when compiling
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const auto& tensor : *list)
      if (tensor) tensor->used = true;
  node.id = graph->next_node++;
  if (id) *id = node.id;
  graph->nodes.push_back(std::move(node));
  return synSuccess;
}

GraphNode& node_of(Graph& graph, synNodeId id) {
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& n) { return n.id == id; });
  rule(found != graph.nodes.end(), synInvalidArgument, "node-id", "no node ", id);
  return *found;
}

}  // namespace

synStatus synGraphCreate(synGraphHandle* graph, const synDeviceType type) {
  return Call("synGraphCreate", "type", type).run([&] { return create_graph(graph, type, false); });
}
synStatus synGraphCreateEager(synGraphHandle* graph, const synDeviceType type) {
  return Call("synGraphCreateEager", "type", type).run([&] { return create_graph(graph, type, true); });
}

synStatus synGraphDestroy(const synGraphHandle handle) {
  return Call("synGraphDestroy", "graph", handle).run([&] {
    const std::shared_ptr<Graph> graph = process().graphs.take(handle);
    for (const synTensor tensor : graph->tensor_handles) process().tensors.forget(tensor);
    for (const synSectionHandle section : graph->section_handles) process().sections.forget(section);
    return synSuccess;
  });
}

synStatus synGraphGetDeviceType(const synGraphHandle graph, synDeviceType* type) {
  return Call("synGraphGetDeviceType", "graph", graph).run([&] {
    rule(type != nullptr, synInvalidArgument, "arguments", "no place for the type");
    *type = process().graphs.get(graph)->device;
    return synSuccess;
  });
}

synStatus synGraphSetAttribute(synGraphHandle handle, const synGraphAttribute* which, const uint64_t* values,
                               const uint32_t count) {
  return Call("synGraphSetAttribute", "graph", handle, "count", count).run([&] {
    const std::shared_ptr<Graph> graph = process().graphs.get(handle);
    rule(which && values, synInvalidArgument, "arguments", "no attributes");
    for (uint32_t i = 0; i < count; ++i) {
      rule(which[i] >= 0 && which[i] <= 4, synInvalidArgument, "graph-attribute", "attribute ", which[i]);
      if (which[i] == 0) graph->inference = values[i] != 0;
    }
    return synSuccess;
  });
}

synStatus synGraphDuplicate(synGraphHandle handle, synGraphHandle* out, synTensorHandleMap* tensors,
                            uint32_t* tensor_count, synNodeHandleMap* nodes, uint32_t* node_count) {
  return Call("synGraphDuplicate", "graph", handle).run([&] {
    const std::shared_ptr<Graph> graph = process().graphs.get(handle);
    rule(tensor_count && node_count, synInvalidArgument, "arguments", "no place for the counts");
    rule(!graph->compiled, synInvalidArgument, "graph-life", "the graph is compiled already");
    if (!tensors && !nodes) {
      *tensor_count = static_cast<uint32_t>(graph->tensors.size());
      *node_count = static_cast<uint32_t>(graph->nodes.size());
      return synSuccess;
    }
    rule(tensors && nodes && out && *tensor_count >= graph->tensors.size() && *node_count >= graph->nodes.size(),
         synInvalidArgument, "arguments", "places for too few tensors or nodes");
    auto copy = std::make_shared<Graph>(*graph);
    std::map<const void*, std::shared_ptr<Section>> sections;
    for (auto& section : copy->sections) {
      const void* old = section.get();
      section = std::make_shared<Section>(*section);
      section->graph = copy.get();
      sections[old] = section;
    }
    for (auto& section : copy->section_handles)
      section = process().sections.add<synSectionHandle>(copy->sections[&section - copy->section_handles.data()]);
    std::map<const void*, std::shared_ptr<Tensor>> renamed;
    for (size_t i = 0; i < copy->tensors.size(); ++i) {
      std::shared_ptr<Tensor>& tensor = copy->tensors[i];
      const void* old = tensor.get();
      tensor = std::make_shared<Tensor>(*tensor);
      tensor->graph = copy.get();
      if (tensor->section) tensor->section = sections[tensor->section.get()];
      renamed[old] = tensor;
      tensors[i].originalHandle = copy->tensor_handles[i];
      tensors[i].newHandle = copy->tensor_handles[i] = process().tensors.add<synTensor>(tensor);
    }
    for (size_t i = 0; i < copy->nodes.size(); ++i) {
      for (auto* list : {&copy->nodes[i].inputs, &copy->nodes[i].outputs})
        for (auto& tensor : *list)
          if (tensor) tensor = renamed[tensor.get()];
      nodes[i] = {copy->nodes[i].id, copy->nodes[i].id};
    }
    *tensor_count = static_cast<uint32_t>(copy->tensors.size());
    *node_count = static_cast<uint32_t>(copy->nodes.size());
    *out = process().graphs.add<synGraphHandle>(copy);
    return synSuccess;
  });
}

synStatus synGraphInferShapes(synGraphHandle graph) {
  return Call("synGraphInferShapes", "graph", graph).run([&]() -> int {
    process().graphs.get(graph);
    throw Failure{synUnsupported, "the emulator infers no shapes: set the geometry of each tensor"};
  });
}

synStatus synNodeCreateWithId(const synGraphHandle graph, const synTensor* in, const synTensor* out,
                              const uint32_t count_in, const uint32_t count_out, const void* params,
                              const unsigned bytes, const char* guid, const char* name, synNodeId* id,
                              const char** in_layouts, const char** out_layouts) {
  return Call("synNodeCreateWithId", "graph", graph, "guid", guid, "name", name, "inputs", count_in, "outputs",
              count_out, "params", bytes)
      .run([&] {
        return create_node(graph, in, out, count_in, count_out, params, bytes, guid, name, id, in_layouts, out_layouts);
      });
}

synStatus synNodeCreate(const synGraphHandle graph, const synTensor* in, const synTensor* out, const uint32_t count_in,
                        const uint32_t count_out, const void* params, const unsigned bytes, const char* guid,
                        const char* name, const char** in_layouts, const char** out_layouts) {
  return Call("synNodeCreate", "graph", graph, "guid", guid, "name", name, "inputs", count_in, "outputs", count_out,
              "params", bytes)
      .run([&] {
        return create_node(graph, in, out, count_in, count_out, params, bytes, guid, name, nullptr, in_layouts,
                           out_layouts);
      });
}

synStatus synNodeSetUserParams(const synGraphHandle handle, const synNodeId id, const void* params,
                               const unsigned bytes) {
  return Call("synNodeSetUserParams", "graph", handle, "node", id, "params", bytes).run([&] {
    const std::shared_ptr<Graph> graph = process().graphs.get(handle);
    GraphNode& node = node_of(*graph, id);
    rule(!graph->compiled, synInvalidArgument, "graph-life", "the graph is compiled already");
    rule(bytes <= 4096 && (bytes == 0 || params), synInvalidArgument, "arguments", "params of ", bytes, " bytes");
    node.params.assign(static_cast<const char*>(params), static_cast<const char*>(params) + bytes);
    return synSuccess;
  });
}

synStatus synNodeDependencySet(const synGraphHandle handle, const synNodeId* before, const synNodeId* after,
                               const uint32_t count_before, const uint32_t count_after) {
  return Call("synNodeDependencySet", "graph", handle, "before", count_before, "after", count_after).run([&] {
    const std::shared_ptr<Graph> graph = process().graphs.get(handle);
    rule(before && after && count_before > 0 && count_after > 0, synInvalidArgument, "arguments", "no nodes");
    for (uint32_t i = 0; i < count_before; ++i) node_of(*graph, before[i]);
    for (uint32_t i = 0; i < count_after; ++i)
      for (uint32_t j = 0; j < count_before; ++j) node_of(*graph, after[i]).after.push_back(before[j]);
    return synSuccess;
  });
}

synStatus synNodeSetDeterministic(const synGraphHandle graph, const synNodeId id, const bool deterministic) {
  return Call("synNodeSetDeterministic", "graph", graph, "node", id, "deterministic", deterministic).run([&] {
    node_of(*process().graphs.get(graph), id);
    return synSuccess;  // everything is
  });
}

synStatus synNodeSetRoundingMode(const synGraphHandle graph, const synNodeId id, const synRoundingMode mode) {
  return Call("synNodeSetRoundingMode", "graph", graph, "node", id, "mode", mode).run([&] {
    rule(mode >= 0 && mode <= 6, synInvalidArgument, "rounding", "mode ", mode);
    if (mode != 0) throw Failure{synUnsupported, "the emulator rounds to nearest even only"};
    node_of(*process().graphs.get(graph), id).rounding = mode;
    return synSuccess;
  });
}

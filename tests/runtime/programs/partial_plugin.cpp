// SPDX-License-Identifier: Apache-2.0
// A device that lacks operations: the cpu's, which refuses what is listed here. NAME: "partial", which tells it when a
// graph is compiled, as devices of older headers do, or "asked", which has the function `supports`.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "transom/device_plugin.hpp"

namespace {

transom_plugin cpu{};

// A composite that the cpu claims, primitives that stand in fusions, and some that stand alone.
bool lacks(const transom_node& node, const transom_value* values) {
  constexpr std::string_view kMissing[] = {"layer_norm", "erf", "tanh", "gather", "reduce_max", "scatter_add"};
  if (std::find(std::begin(kMissing), std::end(kMissing), node.op) != std::end(kMissing)) return true;
  // By type: integers are not cast.
  return std::string_view(node.op) == "cast" && values[node.inputs[0]].dtype == TRANSOM_INT64;
}

const transom_node* missing_node(const transom_graph& graph) {
  const auto* bytes = reinterpret_cast<const char*>(graph.nodes);
  for (size_t n = 0; n < graph.nodes_count; ++n) {
    const auto& node = *reinterpret_cast<const transom_node*>(bytes);
    if (lacks(node, graph.values)) return &node;
    if (node.region)
      if (const transom_node* inner = missing_node(*node.region)) return inner;
    bytes += node.struct_size;
  }
  return nullptr;
}

transom_status compile(transom_device* device, const transom_graph* graph, transom_executable** executable,
                       transom_error* error) {
  const transom_node* node = missing_node(*graph);
  if (!node) return cpu.compile(device, graph, executable, error);
  std::strcpy(error->text, "there is no kernel for ");
  std::strcat(error->text, node->op);
  return TRANSOM_UNSUPPORTED;
}

}  // namespace

extern "C" TRANSOM_PLUGIN_EXPORT transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin,
                                                                    transom_error* error) {
  void* library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  const auto open =
      library ? reinterpret_cast<transom_plugin_open_function>(dlsym(library, "transom_plugin_open")) : nullptr;
  if (!open) {
    std::strcpy(error->text, "the cpu's plugin is not where it was built");
    return TRANSOM_UNAVAILABLE;
  }
  cpu.struct_size = sizeof cpu;
  if (const transom_status status = open(host, &cpu, error); status != TRANSOM_OK) return status;
  return transom::plugin::open(host, plugin, error, [](transom_plugin& mine) {
    const size_t size = mine.struct_size;
    mine = cpu;
    mine.struct_size = size;
    mine.name = NAME;
    mine.priority = 0;
    mine.compile = compile;
    if (std::string_view(NAME) == "asked")
      mine.supports = [](transom_device*, const transom_graph* graph) -> int32_t { return !missing_node(*graph); };
  });
}

// SPDX-License-Identifier: Apache-2.0
// A compiled RecipeGraph.
#pragma once

#include <string>
#include <vector>

#include "hpu/recipe/recipe_graph.h"
#include "hpu/synapse/synapse_library.h"

namespace transom::hpu {

class Recipe {
 public:
  // Builds the graph with the library's handles and compiles it. Throws Failure with the compiler's text and, where one
  // node is to blame, that node.
  Recipe(const SynapseLibrary& library, const RecipeGraph& graph, synDeviceType device, bool eager,
         const std::string& name);
  // Reads what save() wrote for the same graph.
  Recipe(const SynapseLibrary& library, const RecipeGraph& graph, const std::string& file);
  ~Recipe();
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  void save(const std::string& file) const;
  synRecipeHandle handle() const { return handle_; }
  uint64_t workspace_bytes() const { return workspace_; }

  // The graph's persistent tensors in its order, with their ids; a launch fills in the addresses.
  std::vector<synLaunchTensorInfo> launch_infos() const;

 private:
  void finish(const RecipeGraph& graph);

  const SynapseLibrary& library_;
  synRecipeHandle handle_ = nullptr;
  uint64_t workspace_ = 0;
  struct Persistent {
    std::string name;
    uint64_t id;
    std::vector<uint64_t> sizes;
  };
  std::vector<Persistent> persistent_;
};

}  // namespace transom::hpu

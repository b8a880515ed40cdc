// SPDX-License-Identifier: Apache-2.0
// A compiled graph: a flat list of nodes in the order they run, and a place for each tensor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clock.h"
#include "graph.h"

namespace synapse_emulator {

enum class Home : uint8_t { kLaunch, kWorkspace, kConstant };

struct RecipeTensor {
  std::string name;
  synTensorType kind = DATA_TENSOR;
  synDataType type = syn_type_na;
  Sizes sizes;
  Home home = Home::kWorkspace;
  uint64_t offset = 0;   // in the workspace, or in the section
  uint32_t section = 0;  // of launch tensors
  bool is_input = false, external = false;
  std::vector<uint8_t> permutation;  // of memory; empty: as the sizes say
  std::shared_ptr<std::vector<char>> constant;

  uint64_t bytes() const { return static_cast<uint64_t>(sizes.elements()) * size_of(type); }
};

struct RecipeNode {
  std::string guid, name;
  const Kernel* kernel = nullptr;
  Node view;                     // without data
  std::vector<int32_t> in, out;  // tensors; -1: missing
};

struct RecipeSection {
  bool constant = false;
  std::vector<char> data;  // of a constant section
};

struct Recipe {
  std::string name;
  std::vector<RecipeTensor> tensors;  // launch tensors first, in the order of their ids
  uint32_t launch_tensors = 0;
  std::vector<RecipeSection> sections;
  std::vector<RecipeNode> nodes;
  uint64_t workspace = 0;  // bytes
  Cost cost;
};

struct ErrorText {
  int status;
  std::string text;
};

uint64_t id_of(const Recipe& recipe, uint32_t tensor);

// Throws a Violation for a graph that cannot run.
std::shared_ptr<Recipe> compile(Graph& graph, const std::string& name);

// Fills in the engine times of the nodes.
void estimate(Recipe& recipe);

// Runs all nodes; data[i] is the memory of tensors[i].
void run_recipe(const Recipe& recipe, const std::vector<char*>& data);

// Throw Failure.
void write_recipe(const Recipe& recipe, const std::string& path);
std::shared_ptr<Recipe> read_recipe(const std::string& path);

}  // namespace synapse_emulator

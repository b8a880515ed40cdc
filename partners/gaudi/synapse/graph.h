// SPDX-License-Identifier: Apache-2.0
// What a user builds before it is compiled: tensors, sections, nodes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "synapse_interface.h"

namespace synapse_emulator {

struct Graph;

struct Section {
  const Graph* graph = nullptr;
  bool persistent = false, constant = false, read_modify_write = false;
  uint64_t group = 0;
  bool assigned = false;  // a tensor lies in it: its properties are fixed
};

struct Tensor {
  const Graph* graph = nullptr;
  std::string name;
  synTensorType kind = DATA_TENSOR;
  synDataType type = syn_type_na;
  bool has_geometry = false;
  Sizes sizes, least_sizes;  // least: of a dynamic tensor
  std::shared_ptr<Section> section;
  uint64_t offset = 0;                          // in the section, bytes
  std::shared_ptr<std::vector<char>> constant;  // contents given by the host
  bool may_permute = false, external = false, used = false;
  std::vector<uint8_t> permutation;  // order in memory; empty: as the sizes say

  uint64_t bytes() const { return static_cast<uint64_t>(sizes.elements()) * size_of(type); }
};

struct GraphNode {
  uint64_t id = 0;
  std::string guid, name;
  const Kernel* kernel = nullptr;
  synDataType type = syn_type_na;  // of the suffix
  std::vector<std::shared_ptr<Tensor>> inputs, outputs;
  std::vector<char> params;
  int rounding = 0;
  std::vector<uint64_t> after;  // nodes that run before
};

struct Graph {
  synDeviceType device = synDeviceTypeInvalid;
  bool eager = false, compiled = false, inference = false;
  std::vector<std::shared_ptr<Tensor>> tensors;
  std::vector<synTensor> tensor_handles;
  std::vector<std::shared_ptr<Section>> sections;
  std::vector<synSectionHandle> section_handles;
  std::vector<GraphNode> nodes;
  uint64_t next_node = 1;
};

// What a kernel sees of a node before its data exist.
Node view_of(const GraphNode& node);
// Throws a Violation if the operands do not fit the kernel.
void check_node(const GraphNode& node);

}  // namespace synapse_emulator

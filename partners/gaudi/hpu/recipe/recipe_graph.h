// SPDX-License-Identifier: Apache-2.0
// A graph for the graph compiler, as a plain description: it can be compared, hashed and printed before any handle of
// the library exists.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hpu/synapse/synapse_interface.h"

namespace transom::hpu {

struct TensorSpec {
  synDataType dtype;
  std::vector<uint64_t> sizes;  // fastest first, 1 to 5 of them
  std::string name;             // of a persistent tensor: what a launch binds an address to; else empty
  std::string constant;         // bytes of a constant, else empty
  int same_section = -1;        // an output that is written in place of this persistent tensor
};

constexpr int kNoTensor = -1;  // an optional input that is left out

struct NodeSpec {
  std::string guid;
  std::vector<int> inputs, outputs;
  std::string params;                                // the bytes of the params struct
  std::vector<std::string> in_layouts, out_layouts;  // empty: the node does not care
  bool elementwise = false;                          // output element i needs only the inputs' elements i
};

struct RecipeGraph {
  std::vector<TensorSpec> tensors;
  std::vector<NodeSpec> nodes;

  // Equal texts, equal recipes.
  std::string content() const;
};

}  // namespace transom::hpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "poplar/Graph.hpp"
#include "popops/Operation.hpp"

namespace popops {

struct ReduceParams {
  ReduceParams(Operation operation) : op(operation) {}
  Operation op;
};

// Drops `dims`. Sums of half are kept in float. Partial results of each tile, then those of the tiles.
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Type& outType,
                      const std::vector<std::size_t>& dims, ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

}  // namespace popops

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "poplar/Graph.hpp"

namespace popops {

void fill_with(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog, double real,
               int64_t integer, const poplar::DebugContext& debugContext);

template <typename T>
void fill(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog, T fillValue,
          const poplar::DebugContext& debugContext = {}) {
  fill_with(graph, t, prog, static_cast<double>(fillValue), static_cast<int64_t>(fillValue), debugContext);
}

}  // namespace popops

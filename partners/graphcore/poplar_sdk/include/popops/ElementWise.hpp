// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "poplar/Graph.hpp"
#include "popops/Expr.hpp"

namespace popops {

// The tree over the tensors, which have one shape, or one element. One compute set of one generated codelet; the result
// lies as the tensor that is spread over most tiles.
poplar::Tensor map(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                   const poplar::OptionFlags& options = {});
void mapWithOutput(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                   const poplar::Tensor& out, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

}  // namespace popops

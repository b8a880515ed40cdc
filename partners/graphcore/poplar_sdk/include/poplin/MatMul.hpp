// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "poplar/Graph.hpp"

namespace poplin {

// A [G, M, K] times B [G, K, N]. Options: partialsType "float" or "half", availableMemoryProportion (of a tile, for
// what the product holds besides its operands), fullyConnectedPass.
poplar::Tensor matMulGrouped(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                             poplar::program::Sequence& prog, const poplar::Type& outputType,
                             const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
poplar::Tensor matMul(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                      poplar::program::Sequence& prog, const poplar::Type& outputType,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

// Operands where a product of these shapes wants them.
poplar::Tensor createMatMulInputRHS(poplar::Graph& graph, const poplar::Type& dataType,
                                    const std::vector<std::size_t>& aShape, const std::vector<std::size_t>& bShape,
                                    const poplar::DebugContext& debugContext, const poplar::OptionFlags& options = {});

}  // namespace poplin

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "poplar/Graph.hpp"

namespace popops {

class SlicePlan {};

// offset: UNSIGNED_INT, one for each of `dims`.
poplar::Tensor dynamicSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offset,
                            const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                            const poplar::OptionFlags& options = {});
// Writes s over a part of t.
void dynamicUpdate(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s, const poplar::Tensor& offset,
                   const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                   const poplar::OptionFlags& options = {});
// Rows of t [n, row]: offsets UNSIGNED_INT [k, 1], dims {0}, sizes {1}. The result is [k, 1, row].
poplar::Tensor multiSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offsets,
                          const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                          poplar::program::Sequence& prog, const SlicePlan& plan, const poplar::OptionFlags& options,
                          const poplar::DebugContext& debugContext = {});
// Adds scale [] times the rows s [k, 1, row] to those of t, repeated ones in order.
void multiUpdateAdd(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                    const poplar::Tensor& offsets, const poplar::Tensor& scale, const std::vector<std::size_t>& dims,
                    const std::vector<std::size_t>& sizes, poplar::program::Sequence& prog, const SlicePlan& plan,
                    const poplar::OptionFlags& options, const poplar::DebugContext& debugContext = {});

}  // namespace popops

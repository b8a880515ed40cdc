// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "poplar/Graph.hpp"

namespace popops {

poplar::Tensor cast(poplar::Graph& graph, const poplar::Tensor& src, const poplar::Type& dstType,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace popops

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace poprand {

// The noise of tiles from here on is that of `masterSeed`, two numbers of unsigned int, and of the modifier.
void setSeed(poplar::Graph& graph, const poplar::Tensor& masterSeed, uint32_t seedModifier,
             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace poprand

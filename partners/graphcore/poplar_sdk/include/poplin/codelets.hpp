// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "poplar/Graph.hpp"

namespace poplin {
// The codelets of this library; calls of it without them are refused.
void addCodelets(poplar::Graph& graph);
}  // namespace poplin

// SPDX-License-Identifier: Apache-2.0
// How tiles compute with floating numbers, from a step of a program on.
#pragma once

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace poplar {

// Exceptions for operations that are invalid, by zero, or too large; stochastic rounding; NaN where half overflows.
struct FloatingPointBehaviour {
  bool inv = true, div0 = true, oflo = true, esr = true, nanoo = true;
  FloatingPointBehaviour() = default;
  FloatingPointBehaviour(bool inv, bool div0, bool oflo, bool esr, bool nanoo)
      : inv(inv), div0(div0), oflo(oflo), esr(esr), nanoo(nanoo) {}
};

// Exceptions and NaN where half overflows are not emulated: asking for them is refused with graph_error.
void setFloatingPointBehaviour(Graph& graph, program::Sequence& prog, const FloatingPointBehaviour& behaviour,
                               const DebugContext& debugContext = {});
// What becomes half is rounded up or down with the probability of the distance, on all tiles.
void setStochasticRounding(Graph& graph, program::Sequence& prog, bool enable, const DebugContext& debugContext = {});

}  // namespace poplar

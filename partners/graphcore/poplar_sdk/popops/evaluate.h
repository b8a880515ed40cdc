// SPDX-License-Identifier: Apache-2.0
// Computes element-wise trees: what popops would generate a codelet for.
#pragma once

#include <cstddef>
#include <span>

#include "popops/Expr.hpp"

namespace ipu_emulator {

class Rounding;

// Dense elements, or one for all.
struct MapOperand {
  poplar::Type type;
  const std::byte* data;
  bool scalar;
};

// Every operation rounds its result to its type, to half as `rounding` says. `result` has room for that many elements
// of the type of the tree.
void evaluate(const popops::expr::Expr& tree, std::span<const MapOperand> operands, poplar::Type type, size_t elements,
              std::byte* result, Rounding& rounding);

}  // namespace ipu_emulator

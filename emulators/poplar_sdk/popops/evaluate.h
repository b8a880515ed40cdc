// SPDX-License-Identifier: Apache-2.0
// Computes element-wise trees: what popops would generate a codelet for.
#pragma once

#include <cstddef>
#include <span>

#include "popops/Expr.hpp"

namespace ipu_emulator {

// Dense elements, or one for all.
struct MapOperand {
  poplar::Type type;
  const std::byte* data;
  bool scalar;
};

// Every operation rounds its result to its type. `result` has room for that many elements of the type of the tree.
void evaluate(const popops::expr::Expr& tree, std::span<const MapOperand> operands, poplar::Type type, size_t elements,
              std::byte* result);

}  // namespace ipu_emulator

// SPDX-License-Identifier: Apache-2.0
// Which vector loop carries out an element-wise primitive.
#pragma once

#include <optional>
#include <string_view>

#include "cpu/device/types.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {

// What one instruction of a tile program does.
struct Opcode {
  enum Kind { kUnary, kBinary, kSelect, kConvert, kToBool, kMultiplyAdd, kRoundF16, kRoundBF16 } kind;
  int operation = 0;  // kUnary, kBinary: of UnaryOp, BinaryOp
  Lane from = kF32;   // of the operands
  Lane to = kF32;     // kConvert: of the result

  bool operator==(const Opcode&) const = default;
};

std::optional<UnaryOp> unary_op(std::string_view op);
std::optional<BinaryOp> binary_op(std::string_view op);
Lane lane_of(transom_dtype dtype);

// The vector loop that carries it out; null where the operation is not defined for the lane.
TileFunction tile_function(Opcode opcode);

// The lane of the result.
Lane result_lane(Opcode opcode);

// Conversion from what a lane holds; 16-bit floats are rounded, but stay f32 in the lane. None: nothing to do.
std::optional<Opcode> cast_opcode(transom_dtype from, transom_dtype to);

}  // namespace transom::cpu

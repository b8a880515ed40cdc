// SPDX-License-Identifier: Apache-2.0
// Which vector loop carries out an element-wise primitive.
#pragma once

#include <optional>
#include <string_view>

#include "cpu/types.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {

std::optional<UnaryOp> unary_op(std::string_view op);
std::optional<BinaryOp> binary_op(std::string_view op);
Lane lane_of(transom_dtype dtype);

// Conversion from what a lane holds; 16-bit floats are rounded, but stay f32 in the lane. Null: nothing to do.
TileFunction cast_function(transom_dtype from, transom_dtype to);

}  // namespace transom::cpu

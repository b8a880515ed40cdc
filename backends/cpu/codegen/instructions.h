// SPDX-License-Identifier: Apache-2.0
// The instructions of tile programs as LLVM IR, one file for what each of them is.
#pragma once

#include "cpu/codegen/ir.h"
#include "cpu/tiles/tile_instructions.h"

namespace transom::cpu::codegen {

// What a lane holds. Comparisons give kI1 as long as nobody asks for the u8.
Element element_of(Lane lane);

// Whether it is left to the vector table: what needs the C library, or where processors' instructions differ in what
// they do with numbers that the result cannot hold.
bool is_call(Opcode opcode);

// The result of an instruction that is no call. Operands have the element of their lane or, where a truth value is
// asked for, perhaps kI1.
Vector instruction(Opcode opcode, const Vector& a, const Vector& b, const Vector& c);

Vector as_mask(const Vector& x);   // x != 0
Vector as_bytes(const Vector& x);  // of a mask

// Elements as they lie in memory to what the lane holds, and back.
Element stored_element(transom_dtype dtype);
Vector widened(const Vector& stored, transom_dtype dtype);
Vector narrowed(const Vector& lane, transom_dtype dtype);

}  // namespace transom::cpu::codegen

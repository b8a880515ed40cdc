// SPDX-License-Identifier: Apache-2.0
// What kernels of the matrix engine share.
#pragma once

#include "kernel.h"

namespace synapse_emulator {

// Elements as the MME takes them: f32, shortened if the setting says so.
void load_for_mme(const Operand& operand, int64_t begin, int64_t count, float* out);
void require_mme_type(const Node& node, const Operand& operand, const char* what);
// c = a b, row-major, f32 sums in the order of the inner dim.
void matrix_product(const float* a, const float* b, float* c, int64_t rows, int64_t inner, int64_t columns);
void transpose_matrix(const float* in, float* out, int64_t rows, int64_t columns);

}  // namespace synapse_emulator

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "files/blocks/block_matrix.h"

namespace transom {

// Rounding to nearest of a matrix of f32 [rows, depth] that is kept as codes.
struct Rounding {
  int bits = 8;           // 4 or 8
  int64_t group = 0;      // 0: whole rows
  bool symmetric = true;  // else a minimum for each group
  // Symmetric: scales that f16 holds, and of 4 bits the one of some twenty above 0 with the least squared error.
  bool search = false;
};
// Symmetric: the scale is the largest magnitude / 127 (8 bits), or the signed number of largest magnitude / -8 (4 bits,
// as ggml's Q4_0). With minima: (largest - least) / 255 or / 15. A group of zeros has the scale 0; one with an infinity
// or a NaN becomes NaN.
std::shared_ptr<const BlockMatrix> rounded_matrix(const float* numbers, int64_t rows, int64_t depth,
                                                  const Rounding& how);

// The scale of a group without a minimum, as f16 has it: of 8 bits the largest magnitude / 127, of 4 bits the one of
// some twenty with the least squared error.
float symmetric_scale(const float* numbers, int64_t count, int bits);

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// The matrix unit of the chip that a kernel is compiled for, behind macros, one set for all: M_ of the chip's unit, V_
// of plain arithmetic (the same where there is no unit). Those of M:
//   M_WAVE               threads that multiply together
//   M_A, M_B, M_C        words and results of a thread
//   M_A_ROW(l, w), M_A_WORD(l, w), M_B_COLUMN(l, w), M_B_WORD(l, w), M_C_ROW(l, i), M_C_COLUMN(l, i)
//                        see fragment_layout.h; l is the thread in its wave
//   M_MULTIPLY_BF16(c, a, b), M_MULTIPLY_F16, M_MULTIPLY_I8, and M_MULTIPLY_FP8 (e4m3) on chips of multiplies_float8
//                        c += a b: arrays of M_C f32 (i32), M_A and M_B words. All threads of a group come here
//                        together
//   V_MULTIPLY_F32       the same for f32, by fma
// The instructions themselves, MMA_*, and MATRIX_UNIT are of source/prelude.
#pragma once

#include <string>

#include "transom/device_plugin.h"

namespace transom::gpu {

std::string fragment_definitions();

// How numbers of a type are multiplied: "M" or "V", the macro, how many lie in a word, what results are.
struct FragmentKind {
  std::string set, multiply;
  int64_t per_word;
  const char* sum;
};
// f32, f16, bf16 and i8; u8 is brought to i8 by who loads it.
FragmentKind fragment_kind(transom_dtype dtype);
// Whether the unit of a chip ("sm_90", "gfx942") has products of e4m3: NVIDIA's from sm_89 on, MI300, MI350.
bool multiplies_float8(const std::string& architecture);
FragmentKind float8_fragments();

}  // namespace transom::gpu

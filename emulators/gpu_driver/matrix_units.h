// SPDX-License-Identifier: Apache-2.0
// The instructions of matrix units, carried out by the threads of a group: each gives its registers to the others
// through group memory, and sums the results that are its own. Which thread holds which element is written here from
// the vendors' documents, not taken from the caller: one that loads its registers otherwise gets other results.
#pragma once

#include <string>

namespace emulator {

// What chip the emulated device is: sm_90 of CUDA; of HIP gfx942, or what TRANSOM_EMULATED_GPU_CHIP names (gfx90a,
// gfx942, gfx1100).
std::string chip();
int wave_of_chip();

// MATRIX_UNIT, MATRIX_MEMORY and MMA_* of the dialects, as OpenCL.
std::string matrix_instructions();

}  // namespace emulator

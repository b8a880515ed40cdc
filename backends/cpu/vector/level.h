// SPDX-License-Identifier: Apache-2.0
// For the sources that are compiled once for each instruction set. They include nothing with inline functions that
// other files use too (no standard library templates): the linker would keep one copy, perhaps that of the wrong set.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cpu/vector/kernels.h"

// Tells the compiler that the iterations of the next loop are independent.
#define TRANSOM_SIMD _Pragma("omp simd")
#define TRANSOM_PRAGMA(text) _Pragma(#text)
#define TRANSOM_SIMD_REDUCE(operation, name) TRANSOM_PRAGMA(omp simd reduction(operation : name))

// Short loops over registers must vanish, else their arrays live in memory.
#if defined(__clang__)
#define TRANSOM_UNROLL TRANSOM_PRAGMA(unroll)
#else
#define TRANSOM_UNROLL TRANSOM_PRAGMA(GCC unroll 16)
#endif

// TRANSOM_LEVEL is the namespace of everything in these sources: portable, avx2, avx2_vnni, avx512, avx512_vnni,
// avx512_bf16 or amx.
namespace transom::cpu::TRANSOM_LEVEL {

void fill_arithmetic(VectorKernels& kernels);
void fill_functions(VectorKernels& kernels);
void fill_conversions(VectorKernels& kernels);
void fill_random(VectorKernels& kernels);
void fill_rows(VectorKernels& kernels);
void fill_attention(VectorKernels& kernels);
void fill_quantization(VectorKernels& kernels);
void fill_products(VectorKernels& kernels);
void fill_panels(VectorKernels& kernels);
void fill_tile_panels(VectorKernels& kernels);
void fill_winograd(VectorKernels& kernels);
void fill_depthwise(VectorKernels& kernels);

}  // namespace transom::cpu::TRANSOM_LEVEL

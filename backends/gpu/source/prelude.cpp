// SPDX-License-Identifier: Apache-2.0
#include "gpu/source/prelude.h"

namespace transom::gpu {
namespace {

// A product and a sum are rounded apart unless the text says fma: fused or not, values have the same bits.
constexpr std::string_view kOpenCL = R"(
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define KERNEL(n) __kernel __attribute__((reqd_work_group_size(n, 1, 1))) void
#define FUNCTION
#define GLOBAL __global
#define LOCAL __local
#define THREAD ((idx)get_local_id(0))
#define GROUP ((idx)get_group_id(0))
#define GROUPS ((idx)get_num_groups(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define ALIGNED(n) __attribute__((aligned(n)))
#define VECTOR(type, place) (*(GLOBAL type*)(place))
#define UNROLL
#define MATRIX_UNIT 0
#define MATRIX_MEMORY
typedef char i8;
typedef uchar u8;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
)";

constexpr std::string_view kCudaAndHip = R"(
#define KERNEL(n) extern "C" __global__ void __launch_bounds__(n)
#define FUNCTION static __device__ __forceinline__
#define GLOBAL
#define LOCAL __shared__
#define THREAD ((idx)threadIdx.x)
#define GROUP ((idx)blockIdx.x)
#define GROUPS ((idx)gridDim.x)
#define BARRIER __syncthreads()
#define ALIGNED(n) alignas(n)
#define VECTOR(type, place) (*(type*)(place))
#define UNROLL _Pragma("unroll")
#define MATRIX_MEMORY
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#define as_float(x) __uint_as_float(x)
#define as_uint(x) __float_as_uint(x)
#define as_double(x) __longlong_as_double((i64)(x))
#define as_ulong(x) ((u64)__double_as_longlong(x))
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MATRIX_UNIT 1
#define MMA_OF(shape, types, bits, c, a, b) asm volatile( \
  "mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
  : bits((c)[0]), bits((c)[1]), bits((c)[2]), bits((c)[3]) \
  : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]) );
#define MMA_BF16(c, a, b) MMA_OF("m16n8k16", "f32.bf16.bf16.f32", "+f", c, a, b)
#define MMA_F16(c, a, b) MMA_OF("m16n8k16", "f32.f16.f16.f32", "+f", c, a, b)
#define MMA_I8(c, a, b) MMA_OF("m16n8k32", "s32.s8.s8.s32", "+r", c, a, b)
#if __CUDA_ARCH__ >= 890
#define MMA_FP8(c, a, b) MMA_OF("m16n8k32", "f32.e4m3.e4m3.f32", "+f", c, a, b)
#endif
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx942__) || defined(__gfx950__)
#define MATRIX_UNIT 2
typedef short mfma_s __attribute__((ext_vector_type(4)));
typedef _Float16 mfma_h __attribute__((ext_vector_type(4)));
typedef float mfma_f __attribute__((ext_vector_type(4)));
typedef i32 mfma_i __attribute__((ext_vector_type(4)));
FUNCTION u64 mfma_words(const u32* x) { return (u64)x[1] << 32 | x[0]; }
#define MFMA(vector, made, c) { const vector sum_of = made; \
  (c)[0] = sum_of[0]; (c)[1] = sum_of[1]; (c)[2] = sum_of[2]; (c)[3] = sum_of[3]; }
#define MFMA_SUMS(vector, c) (vector){(c)[0], (c)[1], (c)[2], (c)[3]}, 0, 0, 0
#define MMA_BF16(c, a, b) MFMA(mfma_f, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k( \
  __builtin_bit_cast(mfma_s, mfma_words(a)), __builtin_bit_cast(mfma_s, mfma_words(b)), MFMA_SUMS(mfma_f, c)), c)
#define MMA_F16(c, a, b) MFMA(mfma_f, __builtin_amdgcn_mfma_f32_16x16x16f16( \
  __builtin_bit_cast(mfma_h, mfma_words(a)), __builtin_bit_cast(mfma_h, mfma_words(b)), MFMA_SUMS(mfma_f, c)), c)
#if defined(__gfx90a__)
#define MMA_I8(c, a, b) MFMA(mfma_i, __builtin_amdgcn_mfma_i32_16x16x16i8( \
  (i32)(a)[0], (i32)(b)[0], MFMA_SUMS(mfma_i, c)), c) MFMA(mfma_i, __builtin_amdgcn_mfma_i32_16x16x16i8( \
  (i32)(a)[1], (i32)(b)[1], MFMA_SUMS(mfma_i, c)), c)
#else
#define MMA_I8(c, a, b) MFMA(mfma_i, __builtin_amdgcn_mfma_i32_16x16x32_i8( \
  (long)mfma_words(a), (long)mfma_words(b), MFMA_SUMS(mfma_i, c)), c)
#define MMA_FP8(c, a, b) MFMA(mfma_f, __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8( \
  (long)mfma_words(a), (long)mfma_words(b), MFMA_SUMS(mfma_f, c)), c)
#if !defined(__gfx950__)
#define FP8_FNUZ
#endif
#endif
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) || \
    defined(__gfx1150__) || defined(__gfx1151__)
#define MATRIX_UNIT 3
typedef short wmma_s __attribute__((ext_vector_type(16)));
typedef _Float16 wmma_h __attribute__((ext_vector_type(16)));
typedef float wmma_f __attribute__((ext_vector_type(8)));
typedef i32 wmma_i __attribute__((ext_vector_type(8)));
typedef i32 wmma_b __attribute__((ext_vector_type(4)));
typedef u32 wmma_w __attribute__((ext_vector_type(8)));
#define WMMA_8(x) (x)[0], (x)[1], (x)[2], (x)[3], (x)[4], (x)[5], (x)[6], (x)[7]
#define WMMA_4(x) wmma_b{(i32)(x)[0], (i32)(x)[1], (i32)(x)[2], (i32)(x)[3]}
#define WMMA(vector, made, c) { const vector sum_of = made; UNROLL for (int v_i = 0; v_i < 8; ++v_i) (c)[v_i] = sum_of[v_i]; }
#define MMA_BF16(c, a, b) WMMA(wmma_f, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32( \
  __builtin_bit_cast(wmma_s, wmma_w{WMMA_8(a)}), __builtin_bit_cast(wmma_s, wmma_w{WMMA_8(b)}), wmma_f{WMMA_8(c)}), c)
#define MMA_F16(c, a, b) WMMA(wmma_f, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32( \
  __builtin_bit_cast(wmma_h, wmma_w{WMMA_8(a)}), __builtin_bit_cast(wmma_h, wmma_w{WMMA_8(b)}), wmma_f{WMMA_8(c)}), c)
#define MMA_I8(c, a, b) WMMA(wmma_i, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32( \
  true, WMMA_4(a), true, WMMA_4(b), wmma_i{WMMA_8(c)}, false), c)
#else
#define MATRIX_UNIT 0
#endif
)";

}  // namespace

std::string_view prelude(Dialect dialect) {
  return dialect == Dialect::kOpenCL || dialect == Dialect::kOpenCLObjects ? kOpenCL : kCudaAndHip;
}

}  // namespace transom::gpu

// SPDX-License-Identifier: Apache-2.0
// How the numbers of products lie in memory, and how a register of f32 is made of some of them.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/vector/half.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr size_t kWidth = 16;
#elif defined(__AVX2__)
constexpr size_t kWidth = 8;
#else
constexpr size_t kWidth = 4;
#endif
// `Vector` is a register of floats; where it is read from need not be aligned.
typedef float Vector __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(kWidth * sizeof(uint16_t)), aligned(2), may_alias));
typedef uint32_t Words __attribute__((vector_size(kWidth * sizeof(uint32_t))));

struct StoredF32 {
  using Number = float;
  static Vector load(const float* p) { return *reinterpret_cast<const Vector*>(p); }
  static float value(float x) { return x; }
};
struct StoredBF16 {
  using Number = uint16_t;
  static Vector load(const uint16_t* p) {
#if defined(__AVX512F__)
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return reinterpret_cast<Vector>(_mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, bits), 16));
#elif defined(__AVX2__)  // written out: of a conversion of vectors compilers make six instructions
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return reinterpret_cast<Vector>(_mm256_slli_epi32(bits, 16));
#else
    const Halves halves = *reinterpret_cast<const Halves*>(p);
    return reinterpret_cast<Vector>(__builtin_convertvector(halves, Words) << 16);
#endif
  }
  static float value(uint16_t x) { return bf16_to_float(x); }
};
struct StoredF16 {
  using Number = uint16_t;
  static Vector load(const uint16_t* p) {
#if defined(__AVX512F__)
    return reinterpret_cast<Vector>(
        _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#elif defined(__AVX2__)
    return reinterpret_cast<Vector>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
    Vector result;
    for (size_t i = 0; i < kWidth; ++i) result[i] = f16_to_float(p[i]);
    return result;
#endif
  }
  static float value(uint16_t x) { return f16_to_float(x); }
};

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL

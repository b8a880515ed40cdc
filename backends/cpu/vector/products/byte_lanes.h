// SPDX-License-Identifier: Apache-2.0
// Registers of sums for products of bytes (byte_products.cpp), for each instruction set. With VNNI four products of
// bytes are added in 32 bits. Without, the one instruction for bytes (VPMADDUBSW) adds two products in 16 bits and
// saturates: bytes are widened to 16 bits, and VPMADDWD adds pairs of products in 32 bits.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// Numbers of a row of a that follow each other in depth and fill 32 bits.
typedef int32_t Group __attribute__((aligned(1), may_alias));
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
typedef uint8_t Left;
#else
typedef int16_t Left;
#endif
constexpr size_t kGroup = sizeof(Group) / sizeof(Left);

#if defined(__AVX512BW__)
constexpr size_t kLanes32 = 16, kVectors = 4;
typedef __m512i Sums;
typedef __m512 Reals;
inline Sums zero() { return _mm512_setzero_si512(); }
inline Sums load_sums(const void* from) { return _mm512_loadu_si512(from); }
inline void store_sums(void* to, Sums sums) { _mm512_storeu_si512(to, sums); }
inline Sums negative(Sums sums) { return _mm512_sub_epi32(zero(), sums); }
inline Sums all(int32_t group) { return _mm512_set1_epi32(group); }
inline Reals to_reals(Sums sums) { return _mm512_cvtepi32_ps(sums); }
inline Reals load_reals(const float* from) { return _mm512_loadu_ps(from); }
inline void store_reals(float* to, Reals x) { _mm512_storeu_ps(to, x); }
inline Reals all_reals(float x) { return _mm512_set1_ps(x); }
inline Reals product(Reals x, Reals y) { return _mm512_mul_ps(x, y); }
inline Reals multiply_add(Reals x, Reals y, Reals z) { return _mm512_fmadd_ps(x, y, z); }
#if defined(__AVX512VNNI__)
inline Sums load_weights(const int8_t* from) { return _mm512_loadu_si512(from); }
inline Sums add_products(Sums sums, Sums left, Sums weights) { return _mm512_dpbusd_epi32(sums, left, weights); }
#else
inline Sums load_weights(const int8_t* from) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline Sums load_weights(const int16_t* from) { return load_sums(from); }
inline Sums add_products(Sums sums, Sums left, Sums weights) {
  return _mm512_add_epi32(sums, _mm512_madd_epi16(left, weights));
}
#endif
#elif defined(__AVX2__)
constexpr size_t kLanes32 = 8, kVectors = 2;
typedef __m256i Sums;
typedef __m256 Reals;
inline Sums zero() { return _mm256_setzero_si256(); }
inline Sums load_sums(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline void store_sums(void* to, Sums sums) { _mm256_storeu_si256(static_cast<__m256i*>(to), sums); }
inline Sums negative(Sums sums) { return _mm256_sub_epi32(zero(), sums); }
inline Sums all(int32_t group) { return _mm256_set1_epi32(group); }
inline Reals to_reals(Sums sums) { return _mm256_cvtepi32_ps(sums); }
inline Reals load_reals(const float* from) { return _mm256_loadu_ps(from); }
inline void store_reals(float* to, Reals x) { _mm256_storeu_ps(to, x); }
inline Reals all_reals(float x) { return _mm256_set1_ps(x); }
inline Reals product(Reals x, Reals y) { return _mm256_mul_ps(x, y); }
inline Reals multiply_add(Reals x, Reals y, Reals z) { return _mm256_fmadd_ps(x, y, z); }
#if defined(__AVXVNNI__)
inline Sums load_weights(const int8_t* from) { return load_sums(from); }
inline Sums add_products(Sums sums, Sums left, Sums weights) { return _mm256_dpbusd_avx_epi32(sums, left, weights); }
#else
inline Sums load_weights(const int8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Sums load_weights(const int16_t* from) { return load_sums(from); }
inline Sums add_products(Sums sums, Sums left, Sums weights) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(left, weights));
}
#endif
#else
constexpr size_t kLanes32 = 4, kVectors = 1;
typedef int32_t Sums __attribute__((vector_size(16), aligned(4), may_alias));
typedef float Reals __attribute__((vector_size(16), aligned(4), may_alias));
struct Pairs {
  Sums first, second;
};
inline Sums zero() { return Sums{}; }
inline Sums load_sums(const void* from) { return *static_cast<const Sums*>(from); }
inline void store_sums(void* to, Sums sums) { *static_cast<Sums*>(to) = sums; }
inline Sums negative(Sums sums) { return -sums; }
inline Pairs all(int32_t group) { return {Sums{} + static_cast<int16_t>(group), Sums{} + (group >> 16)}; }
inline Reals to_reals(Sums sums) { return __builtin_convertvector(sums, Reals); }
inline Reals load_reals(const float* from) { return *reinterpret_cast<const Reals*>(from); }
inline void store_reals(float* to, Reals x) { *reinterpret_cast<Reals*>(to) = x; }
inline Reals all_reals(float x) { return Reals{} + x; }
inline Reals product(Reals x, Reals y) { return x * y; }
// Rounded once here too.
inline Reals multiply_add(Reals x, Reals y, Reals z) {
  for (size_t i = 0; i < kLanes32; ++i) z[i] = __builtin_fmaf(x[i], y[i], z[i]);
  return z;
}
template <typename Number>
inline Pairs load_weights(const Number* from) {
  return {Sums{from[0], from[2], from[4], from[6]}, Sums{from[1], from[3], from[5], from[7]}};
}
inline Sums add_products(Sums sums, Pairs left, Pairs weights) {
  return sums + left.first * weights.first + left.second * weights.second;
}
#endif

constexpr size_t kWidth = kVectors * kLanes32;

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL

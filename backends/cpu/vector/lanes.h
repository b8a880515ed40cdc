// SPDX-License-Identifier: Apache-2.0
// A register of numbers, for which the functions of math.h are made as for one: where the compiler's own vector code of
// a loop is slow, with a reduction or a few numbers left at its end.
#pragma once

#include "cpu/vector/math.h"
#include "cpu/vector/storage.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

struct Lanes {
  Vector value;
  Lanes(Vector x) : value(x) {}
  explicit Lanes(float x) : value(Vector{} + x) {}
};
struct LaneWords {
  Words value;
  LaneWords(Words x) : value(x) {}
  explicit LaneWords(uint32_t x) : value(Words{} + x) {}
};
inline Lanes operator+(Lanes x, Lanes y) { return x.value + y.value; }
inline Lanes operator-(Lanes x, Lanes y) { return x.value - y.value; }
inline Lanes operator*(Lanes x, Lanes y) { return x.value * y.value; }
inline LaneWords operator+(LaneWords x, LaneWords y) { return x.value + y.value; }
inline LaneWords operator-(LaneWords x, LaneWords y) { return x.value - y.value; }
inline LaneWords operator<<(LaneWords x, int places) { return x.value << places; }
inline Lanes as_float(LaneWords x) { return reinterpret_cast<Vector>(x.value); }
inline LaneWords as_bits(Lanes x) { return reinterpret_cast<Words>(x.value); }
inline Lanes multiply_add(Lanes x, Lanes y, Lanes z) { return x.value * y.value + z.value; }

inline Lanes larger(Lanes x, Lanes y) { return x.value > y.value ? x.value : y.value; }  // y where one is NaN
// x, and 0 where `place` is below the limit.
inline Lanes zero_below(Lanes x, Lanes place, float limit) {
  return place.value < Vector{} + limit ? Vector{} : x.value;
}

inline Lanes load_lanes(const float* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store_lanes(float* to, Lanes x) { *reinterpret_cast<Vector*>(to) = x.value; }
#if defined(__AVX2__) && !defined(__AVX512F__)
inline __m256i first_lanes(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif
// The first n of them; what is behind counts as `otherwise`.
inline Lanes load_lanes(const float* from, size_t n, float otherwise) {
#if defined(__AVX512F__)
  return _mm512_mask_loadu_ps(_mm512_set1_ps(otherwise), static_cast<__mmask16>((1u << n) - 1), from);
#elif defined(__AVX2__)
  const __m256i there = first_lanes(n);
  return _mm256_blendv_ps(_mm256_set1_ps(otherwise), _mm256_maskload_ps(from, there), _mm256_castsi256_ps(there));
#else
  Vector x = Vector{} + otherwise;
  for (size_t i = 0; i < n; ++i) x[i] = from[i];
  return x;
#endif
}
inline void store_lanes(float* to, Lanes x, size_t n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1), x.value);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(to, first_lanes(n), x.value);
#else
  for (size_t i = 0; i < n; ++i) to[i] = x.value[i];
#endif
}

// Of all lanes, halves with halves.
template <typename Combine>
inline float combined(Lanes x, Combine combine) {
#if defined(__AVX512F__)
  x = combine(x, Lanes(_mm512_maskz_shuffle_f32x4(0xFFFF, x.value, x.value, 0x4E)));
  x = combine(x, Lanes(_mm512_maskz_shuffle_f32x4(0xFFFF, x.value, x.value, 0xB1)));
  x = combine(x, Lanes(_mm512_maskz_permute_ps(0xFFFF, x.value, 0x4E)));
  x = combine(x, Lanes(_mm512_maskz_permute_ps(0xFFFF, x.value, 0xB1)));
#elif defined(__AVX2__)
  x = combine(x, Lanes(_mm256_permute2f128_ps(x.value, x.value, 1)));
  x = combine(x, Lanes(_mm256_permute_ps(x.value, 0x4E)));
  x = combine(x, Lanes(_mm256_permute_ps(x.value, 0xB1)));
#else
  x = combine(x, Lanes(Vector{x.value[2], x.value[3], x.value[0], x.value[1]}));
  x = combine(x, Lanes(Vector{x.value[1], x.value[0], x.value[3], x.value[2]}));
#endif
  return x.value[0];
}
inline float sum_of(Lanes x) {
  return combined(x, [](Lanes y, Lanes z) { return y + z; });
}
inline float largest_of(Lanes x) {
  return combined(x, [](Lanes y, Lanes z) { return larger(y, z); });
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL

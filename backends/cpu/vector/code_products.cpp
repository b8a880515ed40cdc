// SPDX-License-Identifier: Apache-2.0
// A lane is an output: the four bytes of a lane are four inputs of its row, which one instruction (VNNI) or two
// multiply with four inputs that all lanes share. Nothing is added across lanes. Codes are unsigned; what they have too
// much (8 or 128 for each input) comes off by the sums of the inputs. Sums of integers are exact in any order, and
// those of blocks are added in order of depth, whatever rows are multiplied together.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/vector/code_products.h"
#include "cpu/vector/half.h"
#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

constexpr size_t kLaneCount = 16;
typedef int32_t Quad __attribute__((aligned(1), may_alias));  // four integers of the inputs

#if defined(__AVX512BW__)
constexpr size_t kParts = 1, kWidth = 16;
typedef __m512i Ints;
typedef __m512 Floats;
inline Ints load_bytes(const uint8_t* at) { return _mm512_loadu_si512(at); }
inline Ints nibble_mask() { return _mm512_set1_epi8(15); }
inline Ints low(Ints v) { return _mm512_and_si512(v, nibble_mask()); }
inline Ints high(Ints v) { return _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble_mask()); }
inline Ints all(int32_t v) { return _mm512_set1_epi32(v); }
inline Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Floats zeros() { return _mm512_setzero_ps(); }
inline Floats all_float(float v) { return _mm512_set1_ps(v); }
inline Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats times(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats load_floats(const float* at) { return _mm512_loadu_ps(at); }
inline void store_floats(float* at, Floats v) { _mm512_storeu_ps(at, v); }
inline Floats load_halves(const uint16_t* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
inline Ints byte_of(Ints v, int j) {
  return _mm512_and_si512(_mm512_srli_epi32(v, static_cast<unsigned>(8 * j)), _mm512_set1_epi32(255));
}
inline Floats look_up(const float* table, Ints index) { return _mm512_i32gather_ps(index, table, 4); }
inline Ints four(const Quad* x) { return _mm512_set1_epi32(*x); }
#if defined(__AVX512VNNI__)
// Written out, since compilers load the four inputs apart.
inline void add_products(Ints& sums, Ints codes, const Quad* x) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(codes), "m"(*x));
}
#else
inline Ints add16(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
inline Ints pairs_of(Ints codes, Ints x) { return _mm512_maddubs_epi16(codes, x); }
inline Ints sum_pairs(Ints pairs) { return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)); }
// Even and odd bytes apart, since pairs of products of bytes need 17 bits.
inline void add_products(Ints& sums, Ints codes, const Quad* quad) {
  const Ints x = four(quad);
  const Ints even = _mm512_and_si512(codes, _mm512_set1_epi16(255)), odd = _mm512_srli_epi16(codes, 8);
  const Ints x_even = _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8), x_odd = _mm512_srai_epi16(x, 8);
  sums = add(sums, add(_mm512_madd_epi16(even, x_even), _mm512_madd_epi16(odd, x_odd)));
}
#endif
#elif defined(__AVX2__)
constexpr size_t kParts = 2, kWidth = 8;
typedef __m256i Ints;
typedef __m256 Floats;
inline Ints load_bytes(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline Ints nibble_mask() { return _mm256_set1_epi8(15); }
inline Ints low(Ints v) { return _mm256_and_si256(v, nibble_mask()); }
inline Ints high(Ints v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble_mask()); }
inline Ints all(int32_t v) { return _mm256_set1_epi32(v); }
inline Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
inline Floats zeros() { return _mm256_setzero_ps(); }
inline Floats all_float(float v) { return _mm256_set1_ps(v); }
inline Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats times(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats load_floats(const float* at) { return _mm256_loadu_ps(at); }
inline void store_floats(float* at, Floats v) { _mm256_storeu_ps(at, v); }
inline Floats load_halves(const uint16_t* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
inline Ints byte_of(Ints v, int j) { return _mm256_and_si256(_mm256_srli_epi32(v, 8 * j), _mm256_set1_epi32(255)); }
inline Floats look_up(const float* table, Ints index) { return _mm256_i32gather_ps(table, index, 4); }
inline Ints four(const Quad* x) { return _mm256_set1_epi32(*x); }
#if defined(__AVXVNNI__)
inline void add_products(Ints& sums, Ints codes, const Quad* x) {
  sums = _mm256_dpbusd_avx_epi32(sums, codes, four(x));
}
#else
inline Ints add16(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
inline Ints pairs_of(Ints codes, Ints x) { return _mm256_maddubs_epi16(codes, x); }
inline Ints sum_pairs(Ints pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
inline void add_products(Ints& sums, Ints codes, const Quad* quad) {
  const Ints x = four(quad);
  const Ints even = _mm256_and_si256(codes, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(codes, 8);
  const Ints x_even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), x_odd = _mm256_srai_epi16(x, 8);
  sums = add(sums, add(_mm256_madd_epi16(even, x_even), _mm256_madd_epi16(odd, x_odd)));
}
#endif
#else
constexpr size_t kParts = 4, kWidth = 4;
struct Ints {
  int32_t lanes[kWidth];
};
struct Floats {
  float lanes[kWidth];
};
template <typename To, typename Function>
inline To each(Function function) {
  To made;
  for (size_t i = 0; i < kWidth; ++i) made.lanes[i] = function(i);
  return made;
}
inline Ints load_bytes(const uint8_t* at) {
  return each<Ints>([&](size_t i) { return reinterpret_cast<const Quad*>(at)[i]; });
}
inline Ints low(Ints v) {
  return each<Ints>([&](size_t i) { return v.lanes[i] & 0x0F0F0F0F; });
}
inline Ints high(Ints v) {
  return each<Ints>([&](size_t i) { return v.lanes[i] >> 4 & 0x0F0F0F0F; });
}
inline Ints all(int32_t v) {
  return each<Ints>([&](size_t) { return v; });
}
inline Ints add(Ints a, Ints b) {
  return each<Ints>([&](size_t i) { return a.lanes[i] + b.lanes[i]; });
}
inline Floats zeros() {
  return each<Floats>([](size_t) { return 0.0f; });
}
inline Floats all_float(float v) {
  return each<Floats>([&](size_t) { return v; });
}
inline Floats to_floats(Ints v) {
  return each<Floats>([&](size_t i) { return static_cast<float>(v.lanes[i]); });
}
inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return each<Floats>([&](size_t i) { return a.lanes[i] * b.lanes[i] + c.lanes[i]; });
}
inline Floats times(Floats a, Floats b) {
  return each<Floats>([&](size_t i) { return a.lanes[i] * b.lanes[i]; });
}
inline Floats load_floats(const float* at) {
  return each<Floats>([&](size_t i) { return at[i]; });
}
inline void store_floats(float* at, Floats v) {
  for (size_t i = 0; i < kWidth; ++i) at[i] = v.lanes[i];
}
inline Floats load_halves(const uint16_t* at) {
  return each<Floats>([&](size_t i) { return f16_to_float(at[i]); });
}
inline Ints byte_of(Ints v, int j) {
  return each<Ints>([&](size_t i) { return v.lanes[i] >> (8 * j) & 255; });
}
inline Floats look_up(const float* table, Ints index) {
  return each<Floats>([&](size_t i) { return table[index.lanes[i]]; });
}
inline void add_products(Ints& sums, Ints codes, const Quad* x) {
  sums = each<Ints>([&](size_t i) {
    int32_t sum = sums.lanes[i];
    for (int j = 0; j < 4; ++j) sum += (codes.lanes[i] >> (8 * j) & 255) * static_cast<int8_t>(*x >> (8 * j));
    return sum;
  });
}
#endif

// The same products where the codes have 128 too much, and what is too much left out: magnitudes with inputs that take
// the signs, whose pairs stay below 2 128 127 < 2^15. Inputs of -128 have no opposite.
#if defined(__AVX2__) && !defined(__AVX512BW__) && !defined(__AVXVNNI__)
constexpr bool kHasSigns = true;
struct SignedCodes {
  Ints values, magnitudes;
  explicit SignedCodes(Ints codes)
      : values(_mm256_xor_si256(codes, _mm256_set1_epi8(-128))), magnitudes(_mm256_abs_epi8(values)) {}
};
inline void add_signed_products(Ints& sums, const SignedCodes& codes, const Quad* x) {
  sums = add(sums, sum_pairs(pairs_of(codes.magnitudes, _mm256_sign_epi8(four(x), codes.values))));
}
#else
constexpr bool kHasSigns = false;
struct SignedCodes {
  explicit SignedCodes(Ints) {}
};
inline void add_signed_products(Ints&, const SignedCodes&, const Quad*) {}
#endif

// Sums of products of nibbles over a block. Without VNNI they are kept in 16 bits, where those of 32 inputs fit in
// pairs: 8 (15 + 15) 128 = 30,720 < 2^15.
#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
typedef Ints NibbleSums;
inline NibbleSums no_nibbles(Ints) { return all(0); }
inline void add_nibbles(NibbleSums& sums, Ints codes, const Quad* x) { sums = add16(sums, pairs_of(codes, four(x))); }
inline Ints sum_of_nibbles(NibbleSums sums, Ints start) { return add(start, sum_pairs(sums)); }
#else
typedef Ints NibbleSums;
inline NibbleSums no_nibbles(Ints start) { return start; }
inline void add_nibbles(NibbleSums& sums, Ints codes, const Quad* x) { add_products(sums, codes, x); }
inline Ints sum_of_nibbles(NibbleSums sums, Ints) { return sums; }
#endif

// 16 scales, or minima, of group g; the part of them that one register holds.
inline Floats load_scales(const void* scales, bool half, size_t g, size_t part) {
  const size_t at = g * kLaneCount + part * kWidth;
  return half ? load_halves(static_cast<const uint16_t*>(scales) + at)
              : load_floats(static_cast<const float*>(scales) + at);
}

// ---- numbers

void unpack(float* numbers, const CodePanel& p) {
  const size_t steps = p.bits == 8 ? 8 : 4;
  const float zero = p.minima || p.values ? 0.0f : p.bits == 8 ? -128.0f : -8.0f;
  for (size_t b = 0; b < p.blocks; ++b)
    for (size_t part = 0; part < kParts; ++part)
      for (size_t half_block = 0; half_block < 2; ++half_block) {
        const size_t g = (b * 32 + half_block * 16) / p.group;
        const Floats scale = load_scales(p.scales, p.half, g, part),
                     least = p.minima ? load_scales(p.minima, p.half, g, part) : times(scale, all_float(zero));
        for (size_t s = 0; s < 4; ++s) {
          const size_t step = p.bits == 8 ? half_block * 4 + s : s;
          Ints codes = load_bytes(p.codes + (b * steps + step) * 64 + part * kWidth * 4);
          if (p.bits == 4) codes = half_block ? high(codes) : low(codes);
          for (int j = 0; j < 4; ++j) {
            const Ints code = byte_of(codes, j);
            const Floats number =
                p.values ? times(look_up(p.values, code), scale) : multiply_add(to_floats(code), scale, least);
            store_floats(
                numbers + (b * 32 + half_block * 16 + s * 4 + static_cast<size_t>(j)) * kLaneCount + part * kWidth,
                number);
          }
        }
      }
}

template <size_t M>
void multiply_rows(float* y, const float* x, size_t x_stride, const float* numbers, size_t depth) {
  for (size_t part = 0; part < kParts; ++part) {
    Floats sums[M];
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) sums[m] = zeros();
    for (size_t k = 0; k < depth; ++k) {
      const Floats column = load_floats(numbers + k * kLaneCount + part * kWidth);
      TRANSOM_UNROLL
      for (size_t m = 0; m < M; ++m) sums[m] = multiply_add(column, all_float(x[m * x_stride + k]), sums[m]);
    }
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) store_floats(y + m * kLaneCount + part * kWidth, sums[m]);
  }
}

void multiply(float* y, const float* x, size_t x_stride, const float* numbers, size_t m, size_t depth) {
  size_t i = 0;
  for (; i + 8 <= m; i += 8) multiply_rows<8>(y + i * kLaneCount, x + i * x_stride, x_stride, numbers, depth);
  for (; i < m; ++i) multiply_rows<1>(y + i * kLaneCount, x + i * x_stride, x_stride, numbers, depth);
}

// ---- integers

template <int kBits, bool kSmallGroups, bool kMinima, bool kSigned, size_t M>
void rounded_rows(float* y, const RoundedInputs& x, const CodePanel& p, size_t row) {
  constexpr size_t kSteps = kBits == 8 ? 8 : 4, kCorrections = kSmallGroups ? 2 : 1;
  const int8_t* integers = x.integers + row * x.blocks * 32;
  const float* x_scales = x.scales + row * x.blocks;
  const Correction* corrections = x.corrections + row * x.blocks * kCorrections;
  const size_t per_group = p.group / 32;
  for (size_t part = 0; part < kParts; ++part) {
    Floats totals[M];
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) totals[m] = zeros();
    size_t g = 0, left = per_group;
    for (size_t b = 0; b < p.blocks; ++b) {
      Ints first[M], second[M];
      TRANSOM_UNROLL
      for (size_t m = 0; m < M; ++m) {
        const Correction* own = corrections + (m * x.blocks + b) * kCorrections;
        first[m] = all(kMinima || kSigned ? 0 : own[0].start);
        second[m] = all(kMinima || kSigned || !kSmallGroups ? 0 : own[kCorrections - 1].start);
      }
      const uint8_t* codes = p.codes + b * kSteps * 64 + part * kWidth * 4;
      // The next panel comes while several rows are multiplied with this one.
      if constexpr (M > 1)
        for (size_t s = 0; s < kSteps; ++s) __builtin_prefetch(codes + (p.blocks * kSteps + s) * 64);
      if constexpr (kBits == 4) {
        NibbleSums sums[M], more[M];
        TRANSOM_UNROLL
        for (size_t m = 0; m < M; ++m) sums[m] = no_nibbles(first[m]), more[m] = no_nibbles(second[m]);
        TRANSOM_UNROLL
        for (size_t s = 0; s < 4; ++s) {
          const Ints both = load_bytes(codes + s * 64), a = low(both), c = high(both);
          TRANSOM_UNROLL
          for (size_t m = 0; m < M; ++m) {
            const Quad* quads = reinterpret_cast<const Quad*>(integers + (m * x.blocks + b) * 32);
            add_nibbles(sums[m], a, quads + s);
            add_nibbles(kSmallGroups ? more[m] : sums[m], c, quads + s + 4);
          }
        }
        TRANSOM_UNROLL
        for (size_t m = 0; m < M; ++m) {
          first[m] = sum_of_nibbles(sums[m], first[m]);
          if constexpr (kSmallGroups) second[m] = sum_of_nibbles(more[m], second[m]);
        }
      } else if constexpr (kSigned) {
        TRANSOM_UNROLL
        for (size_t s = 0; s < 8; ++s) {
          const SignedCodes four_inputs(load_bytes(codes + s * 64));
          TRANSOM_UNROLL
          for (size_t m = 0; m < M; ++m) {
            const Quad* quads = reinterpret_cast<const Quad*>(integers + (m * x.blocks + b) * 32);
            add_signed_products(kSmallGroups && s >= 4 ? second[m] : first[m], four_inputs, quads + s);
          }
        }
      } else {
        TRANSOM_UNROLL
        for (size_t s = 0; s < 4; ++s) {
          const Ints a = load_bytes(codes + s * 64), c = load_bytes(codes + (s + 4) * 64);
          TRANSOM_UNROLL
          for (size_t m = 0; m < M; ++m) {
            const Quad* quads = reinterpret_cast<const Quad*>(integers + (m * x.blocks + b) * 32);
            add_products(first[m], a, quads + s);
            add_products(kSmallGroups ? second[m] : first[m], c, quads + s + 4);
          }
        }
      }
      const size_t group = kSmallGroups ? 2 * b : g;
      const Floats scale = load_scales(p.scales, p.half, group, part);
      const Floats next_scale = kSmallGroups ? load_scales(p.scales, p.half, group + 1, part) : scale;
      const Floats least = kMinima ? load_scales(p.minima, p.half, group, part) : scale;
      const Floats next_least = kMinima && kSmallGroups ? load_scales(p.minima, p.half, group + 1, part) : scale;
      TRANSOM_UNROLL
      for (size_t m = 0; m < M; ++m) {
        const Floats x_scale = all_float(x_scales[m * x.blocks + b]);
        const Correction* own = corrections + (m * x.blocks + b) * kCorrections;
        totals[m] = multiply_add(to_floats(first[m]), times(scale, x_scale), totals[m]);
        if constexpr (kSmallGroups)
          totals[m] = multiply_add(to_floats(second[m]), times(next_scale, x_scale), totals[m]);
        if constexpr (kMinima) totals[m] = multiply_add(least, all_float(own[0].sum), totals[m]);
        if constexpr (kMinima && kSmallGroups)
          totals[m] = multiply_add(next_least, all_float(own[kCorrections - 1].sum), totals[m]);
      }
      if (!kSmallGroups && --left == 0) ++g, left = per_group;
    }
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) store_floats(y + m * kLaneCount + part * kWidth, totals[m]);
  }
}

template <int kBits, bool kSmallGroups, bool kMinima, bool kSigned = false>
void all_rounded_rows(float* y, const RoundedInputs& x, const CodePanel& p, size_t m) {
  size_t i = 0;
  const auto rows = [&]<size_t M>() {
    for (; i + M <= m; i += M) rounded_rows<kBits, kSmallGroups, kMinima, kSigned, M>(y + i * kLaneCount, x, p, i);
  };
  if constexpr (kParts == 1 && !kSmallGroups) rows.template operator()<8>();  // as many as there are registers for
  rows.template operator()<4>();
  rows.template operator()<2>();
  rows.template operator()<1>();
}

void multiply_rounded(float* y, const RoundedInputs& x, const CodePanel& p, size_t m) {
  const bool small = p.group == 16;
  if (p.bits == 4) {
    if (small) (p.minima ? all_rounded_rows<4, true, true> : all_rounded_rows<4, true, false>)(y, x, p, m);
    else (p.minima ? all_rounded_rows<4, false, true> : all_rounded_rows<4, false, false>)(y, x, p, m);
  } else if (kHasSigns && !p.minima && !x.has_least) {
    (small ? all_rounded_rows<8, true, false, kHasSigns> : all_rounded_rows<8, false, false, kHasSigns>)(y, x, p, m);
  } else {
    if (small) (p.minima ? all_rounded_rows<8, true, true> : all_rounded_rows<8, true, false>)(y, x, p, m);
    else (p.minima ? all_rounded_rows<8, false, true> : all_rounded_rows<8, false, false>)(y, x, p, m);
  }
}

// NaN if any number is not finite. The bits of magnitudes are in their order.
float largest_of_bits(uint32_t bits) { return as_float(bits >= 0x7F800000u ? 0x7FC00000u : bits); }

float largest_of(const float* x, size_t n) {
  uint32_t largest = 0;
  TRANSOM_SIMD_REDUCE(max, largest)
  for (size_t i = 0; i < n; ++i) {
    const uint32_t size = as_bits(x[i]) & 0x7FFFFFFFu;
    largest = size > largest ? size : largest;
  }
  return largest_of_bits(largest);
}

void round_some(int8_t* integers, const float* x, size_t n, float scale) {
  for (size_t i = 0; i < n; ++i) {
    float step = __builtin_rintf(x[i] / scale);
    step = step < 127.0f ? step : 127.0f;
    step = step > -128.0f ? step : -128.0f;
    integers[i] = static_cast<int8_t>(step);
  }
}

#if defined(__AVX512BW__)
inline void round_block(int8_t* integers, const float* x, float scale) {
  for (size_t i = 0; i < 2; ++i) {
    const __m512 steps = _mm512_div_ps(_mm512_loadu_ps(x + 16 * i), _mm512_set1_ps(scale));
    const __m128i bytes = _mm512_maskz_cvtsepi32_epi8(0xFFFF, _mm512_maskz_cvtps_epi32(0xFFFF, steps));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(integers + 16 * i), bytes);
  }
}
inline float largest_of_block(const float* x) {
  const __m512i low = _mm512_loadu_si512(x), high = _mm512_loadu_si512(x + 16), sign = _mm512_set1_epi32(0x7FFFFFFF);
  const __m512i both = _mm512_maskz_max_epu32(0xFFFF, _mm512_and_si512(low, sign), _mm512_and_si512(high, sign));
  const __m256i eight = _mm256_max_epu32(_mm512_castsi512_si256(both), _mm512_maskz_extracti32x8_epi32(0xFF, both, 1));
  const __m128i four_left = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epu32(four_left, _mm_shuffle_epi32(four_left, 0x4E));
  const __m128i one = _mm_max_epu32(two, _mm_shuffle_epi32(two, 0xB1));
  return largest_of_bits(static_cast<uint32_t>(_mm_cvtsi128_si32(one)));
}
#elif defined(__AVX2__)
inline void round_block(int8_t* integers, const float* x, float scale) {
  __m256i steps[4];
  for (size_t i = 0; i < 4; ++i)
    steps[i] = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(scale)));
  const __m256i mixed =
      _mm256_packs_epi16(_mm256_packs_epi32(steps[0], steps[1]), _mm256_packs_epi32(steps[2], steps[3]));
  const __m256i bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(integers), bytes);
}
inline float largest_of_block(const float* x) {
  const __m256i sign = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i eight = _mm256_setzero_si256();
  for (size_t i = 0; i < 4; ++i) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 8 * i));
    eight = _mm256_max_epu32(eight, _mm256_and_si256(bits, sign));
  }
  const __m128i four_left = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epu32(four_left, _mm_shuffle_epi32(four_left, 0x4E));
  const __m128i one = _mm_max_epu32(two, _mm_shuffle_epi32(two, 0xB1));
  return largest_of_bits(static_cast<uint32_t>(_mm_cvtsi128_si32(one)));
}
#else
inline void round_block(int8_t* integers, const float* x, float scale) { round_some(integers, x, 32, scale); }
inline float largest_of_block(const float* x) { return largest_of(x, 32); }
#endif

// The sum of 16 integers.
inline int32_t sum_of_half(const int8_t* integers) {
#if defined(__AVX2__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(integers));
  const __m128i sums = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 2) - 16 * 128;
#else
  int32_t sum = 0;
  for (size_t i = 0; i < 16; ++i) sum += integers[i];
  return sum;
#endif
}

void round(int8_t* integers, float* scales, Correction* corrections, const float* x, size_t n, size_t blocks,
           const Rounding& rounding) {
  const float of_row = rounding.by_row ? largest_of(x, n) / 127.5f : 0;
  for (size_t b = 0; b < blocks; ++b) {
    const size_t begin = b * 32, count = n > begin ? (n - begin < 32 ? n - begin : 32) : 0;
    int8_t* block = integers + begin;
    float scale = of_row;
    if (!rounding.by_row)
      scale = (count == 32 ? largest_of_block(x + begin) : largest_of(x + begin, count)) * (1 / 127.0f);
    scales[b] = scale;
    // An infinity or a NaN makes the scale NaN, and with it every product of the block.
    const float divisor = scale > 0 ? scale : 1.0f;
    if (count == 32 && scale == scale) round_block(block, x + begin, divisor);
    else {
      for (size_t i = 0; i < 32; ++i) block[i] = 0;
      if (scale == scale) round_some(block, x + begin, count, divisor);
    }
    const int32_t sums[2] = {sum_of_half(block), sum_of_half(block + 16)};
    const size_t parts = rounding.halves ? 2 : 1;
    for (size_t part = 0; part < parts; ++part) {
      const int32_t sum = rounding.halves ? sums[part] : sums[0] + sums[1];
      if (rounding.surplus) corrections[b * parts + part].start = -rounding.surplus * sum;
      else corrections[b * parts + part].sum = scale * static_cast<float>(sum);
    }
  }
}

}  // namespace

void fill_code_products(CodeProducts& table) {
  table.unpack = unpack;
  table.multiply = multiply;
  table.multiply_rounded = multiply_rounded;
  table.round = round;
}

}  // namespace transom::cpu::TRANSOM_LEVEL

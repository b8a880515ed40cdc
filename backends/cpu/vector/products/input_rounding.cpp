// SPDX-License-Identifier: Apache-2.0
// How a row of inputs becomes the integers that codes are multiplied with, and the sums of these that products correct
// by.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/vector/half.h"
#include "cpu/vector/level.h"
#include "cpu/vector/products/code_lanes.h"
#include "cpu/vector/products/code_products.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

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

// To 16 bits; what is behind the n numbers becomes 0.
void round_wide(int16_t* integers, const float* x, size_t n, float scale) {
  for (size_t i = 0; i < 32; ++i) {
    float step = i < n ? __builtin_rintf(x[i] / scale) : 0.0f;
    step = step < 32767.0f ? step : 32767.0f;
    step = step > -32767.0f ? step : -32767.0f;
    integers[i / 4 * 4 + kWideOrder[i % 4]] = static_cast<int16_t>(step);
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

// The sum of `n` integers, 16 or 32, and what sums of their products with codes begin with (code_lanes.h).
struct InputSum {
  int32_t sum, start;
};

#if defined(__AVX2__)
inline InputSum input_sum(const int8_t* integers, size_t n, [[maybe_unused]] int32_t surplus) {
  const auto pairs = [&](size_t i) {
    return _mm_maddubs_epi16(_mm_set1_epi8(1), _mm_loadu_si128(reinterpret_cast<const __m128i*>(integers + i)));
  };
  __m128i sums = n == 32 ? _mm_add_epi16(pairs(0), pairs(16)) : pairs(0);
  sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0x4E));
  sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0xB1));
  const int32_t sum = _mm_cvtsi128_si32(_mm_madd_epi16(sums, _mm_set1_epi16(1)));
#if TRANSOM_PAIR_SUMS
  return {sum, _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), _mm_slli_epi16(sums, 3)))};
#else
  return {sum, -surplus * sum};
#endif
}
#else
inline InputSum input_sum(const int8_t* integers, size_t n, [[maybe_unused]] int32_t surplus) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += integers[i];
  return {sum, -surplus * sum};
}
#endif

inline InputSum input_sum(const int16_t* integers, size_t n, int32_t surplus) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += integers[i];
  return {sum, -surplus * sum};
}

// A block of `count` numbers; what is behind them becomes 0, and all of it where the scale is NaN.
inline void round_numbers(int8_t* block, const float* x, size_t count, float scale) {
  const float divisor = scale > 0 ? scale : 1.0f;
  if (count == 32 && scale == scale) return round_block(block, x, divisor);
  for (size_t i = 0; i < 32; ++i) block[i] = 0;
  if (scale == scale) round_some(block, x, count, divisor);
}
inline void round_numbers(int16_t* block, const float* x, size_t count, float scale) {
  round_wide(block, x, scale == scale ? count : 0, scale > 0 ? scale : 1.0f);
}

template <typename Integer>
void round_row(Integer* integers, float* scales, Correction* corrections, size_t rows, const float* x, size_t n,
               size_t blocks, const Rounding& rounding) {
  constexpr float kSteps = sizeof(Integer) == 2 ? 32767.0f : 127.0f;
  const float of_row = rounding.by_row ? largest_of(x, n) / 127.5f : 0;
  const size_t parts = rounding.halves ? 2 : 1, inputs = 32 / parts;
  for (size_t b = 0; b < blocks; ++b) {
    const size_t begin = b * 32, count = n > begin ? (n - begin < 32 ? n - begin : 32) : 0;
    Integer* block = integers + begin * rows;
    float scale = of_row;
    if (!rounding.by_row)
      scale = (count == 32 ? largest_of_block(x + begin) : largest_of(x + begin, count)) * (1 / kSteps);
    scales[b * rows] = scale;
    // An infinity or a NaN makes the scale NaN, and with it every product of the block.
    round_numbers(block, x + begin, count, scale);
    for (size_t part = 0; part < parts; ++part) {
      const InputSum found = input_sum(block + part * inputs, inputs, rounding.surplus);
      if (rounding.surplus) corrections[b * rows * parts + part].start = found.start;
      else corrections[b * rows * parts + part].sum = scale * static_cast<float>(found.sum);
    }
  }
}

void round(std::byte* integers, float* scales, Correction* corrections, size_t rows, const float* x, size_t n,
           size_t blocks, const Rounding& rounding) {
  if (rounding.wide) round_row(reinterpret_cast<int16_t*>(integers), scales, corrections, rows, x, n, blocks, rounding);
  else round_row(reinterpret_cast<int8_t*>(integers), scales, corrections, rows, x, n, blocks, rounding);
}

}  // namespace

void fill_input_rounding(CodeProducts& table) { table.round = round; }

}  // namespace transom::cpu::TRANSOM_LEVEL

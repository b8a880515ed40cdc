// SPDX-License-Identifier: Apache-2.0
// Registers of integers and floats for products of codes (code_products.cpp), for each instruction set: loads, and sums
// of products of codes with four integers that all lanes share.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "cpu/vector/half.h"
#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

constexpr size_t kLaneCount = 16;
// Four integers of the inputs, of 8 bits, or of 16 in pairs as RoundedInputs::wide says.
typedef int32_t Quad __attribute__((aligned(1), may_alias));
struct WideQuad {
  Quad pairs[2];
} __attribute__((may_alias));

#if defined(__AVX512BW__)
constexpr size_t kParts = 1, kWidth = 16;
typedef __m512i Ints;
typedef __m512 Floats;
inline Ints load_bytes(const uint8_t* at) { return _mm512_loadu_si512(at); }
inline void store_bytes(uint8_t* at, Ints v) { _mm512_storeu_si512(at, v); }
inline Ints nibble_mask() { return _mm512_set1_epi8(15); }
inline Ints low(Ints v) { return _mm512_and_si512(v, nibble_mask()); }
inline Ints high(Ints v) { return _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble_mask()); }
inline Ints all(int32_t v) { return _mm512_set1_epi32(v); }
inline Ints plus(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
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
inline Ints even_bytes(Ints v) { return _mm512_and_si512(v, _mm512_set1_epi16(255)); }
inline Ints odd_bytes(Ints v) { return _mm512_srli_epi16(v, 8); }
inline Ints byte_table(const uint8_t* bytes) {
  return _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
inline Ints look_up_bytes(Ints table, Ints index) { return _mm512_shuffle_epi8(table, index); }
inline Ints four(const Quad* x) { return _mm512_set1_epi32(*x); }
inline Floats all_of(const float* x) { return all_float(*x); }
#if defined(__AVX512VNNI__)
// Written out, since compilers load the four inputs apart.
inline void add_products(Ints& sums, Ints codes, const Quad* x) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(codes), "m"(*x));
}
inline void add_pair_products(Ints& sums, Ints codes, const Quad* x) {
  __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(codes), "m"(*x));
}
#else
inline void add_pair_products(Ints& sums, Ints codes, const Quad* x) {
  sums = plus(sums, _mm512_madd_epi16(codes, four(x)));
  __asm__("" : "+v"(sums));
}
inline Ints add16(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
inline Ints pairs_of(Ints codes, Ints x) { return _mm512_maddubs_epi16(codes, x); }
inline Ints sum_pairs(Ints pairs, int16_t weight) { return _mm512_madd_epi16(pairs, _mm512_set1_epi16(weight)); }
inline Ints subtract_bytes(Ints a, uint8_t b) { return _mm512_sub_epi8(a, _mm512_set1_epi8(static_cast<char>(b))); }
inline Ints shift_pairs(Ints a, unsigned places) { return _mm512_slli_epi16(a, places); }
inline Ints larger_bytes(Ints a, Ints b) { return _mm512_max_epu8(a, b); }
inline bool any_byte_from(Ints a, uint8_t least) {
  return _mm512_cmpge_epu8_mask(a, _mm512_set1_epi8(static_cast<char>(least))) != 0;
}
#endif
#elif defined(__AVX2__)
constexpr size_t kParts = 2, kWidth = 8;
typedef __m256i Ints;
typedef __m256 Floats;
inline Ints load_bytes(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline void store_bytes(uint8_t* at, Ints v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), v); }
inline Ints nibble_mask() { return _mm256_set1_epi8(15); }
inline Ints low(Ints v) { return _mm256_and_si256(v, nibble_mask()); }
inline Ints high(Ints v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble_mask()); }
inline Ints all(int32_t v) { return _mm256_set1_epi32(v); }
inline Ints plus(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
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
inline Ints even_bytes(Ints v) { return _mm256_and_si256(v, _mm256_set1_epi16(255)); }
inline Ints odd_bytes(Ints v) { return _mm256_srli_epi16(v, 8); }
inline Floats look_up(const float* table, Ints index) { return _mm256_i32gather_ps(table, index, 4); }
inline Ints byte_table(const uint8_t* bytes) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
inline Ints look_up_bytes(Ints table, Ints index) { return _mm256_shuffle_epi8(table, index); }
inline Ints four(const Quad* x) { return _mm256_set1_epi32(*x); }
// Written out, since compilers load the number early, and spread it from a register, which takes a unit of arithmetic.
inline Floats all_of(const float* x) {
  Floats all;
  __asm__("vbroadcastss %1, %0" : "=x"(all) : "m"(*x));
  return all;
}
#if defined(__AVXVNNI__)
inline void add_products(Ints& sums, Ints codes, const Quad* x) {
  sums = _mm256_dpbusd_avx_epi32(sums, codes, four(x));
}
inline void add_pair_products(Ints& sums, Ints codes, const Quad* x) {
  sums = _mm256_dpwssd_avx_epi32(sums, codes, four(x));
}
#else
inline void add_pair_products(Ints& sums, Ints codes, const Quad* x) {
  sums = plus(sums, _mm256_madd_epi16(codes, four(x)));
  __asm__("" : "+x"(sums));
}
inline Ints add16(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
inline Ints pairs_of(Ints codes, Ints x) { return _mm256_maddubs_epi16(codes, x); }
inline Ints sum_pairs(Ints pairs, int16_t weight) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(weight)); }
inline Ints subtract_bytes(Ints a, uint8_t b) { return _mm256_sub_epi8(a, _mm256_set1_epi8(static_cast<char>(b))); }
inline Ints shift_pairs(Ints a, unsigned places) { return _mm256_slli_epi16(a, static_cast<int>(places)); }
inline Ints larger_bytes(Ints a, Ints b) { return _mm256_max_epu8(a, b); }
inline bool any_byte_from(Ints a, uint8_t least) {
  const Ints limit = _mm256_set1_epi8(static_cast<char>(least));
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(a, limit), a)) != 0;
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
inline void store_bytes(uint8_t* at, Ints v) {
  for (size_t i = 0; i < kWidth; ++i) reinterpret_cast<Quad*>(at)[i] = v.lanes[i];
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
inline Ints four(const Quad* x) { return all(*x); }
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
inline Ints even_bytes(Ints v) {
  return each<Ints>([&](size_t i) { return v.lanes[i] & 0x00FF00FF; });
}
inline Ints odd_bytes(Ints v) {
  return each<Ints>([&](size_t i) { return v.lanes[i] >> 8 & 0x00FF00FF; });
}
inline Floats look_up(const float* table, Ints index) {
  return each<Floats>([&](size_t i) { return table[index.lanes[i]]; });
}
inline Floats all_of(const float* x) { return all_float(*x); }
struct ByteTable {
  const uint8_t* bytes;
};
inline ByteTable byte_table(const uint8_t* bytes) { return {bytes}; }
inline Ints look_up_bytes(ByteTable table, Ints index) {
  return each<Ints>([&](size_t i) {
    uint32_t found = 0;
    for (int j = 0; j < 4; ++j) found |= uint32_t{table.bytes[index.lanes[i] >> (8 * j) & 15]} << (8 * j);
    return static_cast<int32_t>(found);
  });
}
inline void add_products(Ints& sums, Ints codes, const Quad* x) {
  sums = each<Ints>([&](size_t i) {
    int32_t sum = sums.lanes[i];
    for (int j = 0; j < 4; ++j) sum += (codes.lanes[i] >> (8 * j) & 255) * static_cast<int8_t>(*x >> (8 * j));
    return sum;
  });
}
inline void add_pair_products(Ints& sums, Ints codes, const Quad* x) {
  sums = each<Ints>([&](size_t i) {
    return sums.lanes[i] + (codes.lanes[i] & 0xFFFF) * static_cast<int16_t>(*x) +
           (codes.lanes[i] >> 16) * static_cast<int16_t>(*x >> 16);
  });
}
#endif

// Sums of products of nibbles, and of bytes, over a block or half of one, with what they begin with: the start of a
// Correction. With VNNI, and in lanes of the compiler's, that is what comes off for the codes' surplus.
//
// Without VNNI sums are kept in 16 bits, two in a lane: of inputs 0 and 1 of each four, and of 2 and 3. A start is two
// such sums of the inputs, times -8. Those of nibbles less 8 fit: 16 inputs times 8 128 = 2^14; that sums overflow on
// the way does not show. Nibbles as they are, beside minima, fit too: 16 times 15 128 = 30,720. Bytes are two nibbles,
// of which the upper one has 8 too much.
#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
#define TRANSOM_PAIR_SUMS 1
// Sums are added to in the order that is written: else compilers make trees of all the products of a block, which live
// in memory for want of registers.
inline void add_codes(Ints& sums, Ints codes, Ints x) {
  sums = add16(sums, pairs_of(codes, x));
#if defined(__AVX512BW__)
  __asm__("" : "+v"(sums));
#else
  __asm__("" : "+x"(sums));
#endif
}
inline void add_codes(Ints& sums, Ints codes, const Quad* x) { add_codes(sums, codes, four(x)); }
inline Ints total_of(Ints sums) { return sum_pairs(sums, 1); }
#else
#define TRANSOM_PAIR_SUMS 0
inline void add_codes(Ints& sums, Ints codes, const Quad* x) { add_products(sums, codes, x); }
inline Ints total_of(Ints sums) { return sums; }
#endif

struct NibbleSums {
  typedef Quad Input;
  typedef Ints Codes;
  static constexpr size_t kRegisters = 1;
  Ints sums;
  static Codes codes(Ints codes) { return codes; }
  void begin(Ints start) { sums = start; }
  void add(Ints codes, const Quad* x) { add_codes(sums, codes, x); }
  Ints total() const { return total_of(sums); }
};

#if TRANSOM_PAIR_SUMS
struct ByteSums {
  typedef Quad Input;
  struct Codes {
    Ints lower, upper;
  };
  static constexpr size_t kRegisters = 2;
  Ints lower, upper;
  static Codes codes(Ints codes) { return {low(codes), high(codes)}; }
  void begin(Ints start) { lower = all(0), upper = start; }
  void add(const Codes& codes, const Quad* quad) {
    const Ints x = four(quad);
    add_codes(lower, codes.lower, x);
    add_codes(upper, codes.upper, x);
  }
  Ints total() const { return plus(sum_pairs(lower, 1), sum_pairs(upper, 16)); }
};

// Bytes of a few bits, kLowest to kLowest + kCount - 1, their number zero in the middle: of `kInputs` inputs, none of
// them -128, sums of 16 bits hold them whole, kInputs / 2 times kCount / 2 times 127 = 32,512.
template <size_t kInputs>
struct NarrowSums : NibbleSums {
  static constexpr uint8_t kCount = 1024 / kInputs, kLowest = 128 - kCount / 2;
  static Codes codes(Ints codes) { return subtract_bytes(codes, kLowest); }
  void begin(Ints start) { sums = shift_pairs(start, kInputs == 16 ? 2 : 1); }
};
#else
typedef NibbleSums ByteSums;
#endif

// Codes of 4 or 8 bits with inputs of 16: whole in 32 bits, 32 products of at most 255 times 32,767.
struct WideSums {
  typedef WideQuad Input;
  struct Codes {
    Ints even, odd;
  };
  static constexpr size_t kRegisters = 1;
  Ints sums;
  static Codes codes(Ints codes) { return {even_bytes(codes), odd_bytes(codes)}; }
  void begin(Ints start) { sums = start; }
  void add(const Codes& codes, const WideQuad* x) {
    add_pair_products(sums, codes.even, x->pairs);
    add_pair_products(sums, codes.odd, x->pairs + 1);
  }
  Ints total() const { return sums; }
};

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL

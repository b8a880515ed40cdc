// SPDX-License-Identifier: Apache-2.0
// A lane is an output: the four bytes of a lane are four inputs of its row, which one instruction (VNNI) or two
// multiply with four inputs that all lanes share. Nothing is added across lanes. Codes are unsigned; what they have too
// much (8 or 128 for each input) comes off by the sums of the inputs. Sums of integers are exact in any order, and
// those of blocks are added in order of depth, whatever rows are multiplied together.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/vector/half.h"
#include "cpu/vector/level.h"
#include "cpu/vector/products/code_lanes.h"
#include "cpu/vector/products/code_products.h"

namespace transom::cpu::TRANSOM_LEVEL {

void fill_input_rounding(CodeProducts& table);  // input_rounding.cpp

namespace {

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

constexpr size_t kAhead = 8192;  // bytes of codes

// A tile of M rows of inputs, the first of them `row`, with P parts of a panel at a time.
template <typename Sums, int kBits, bool kSmallGroups, bool kMinima, bool kTable, size_t M, size_t P>
void rounded_rows(float* y, size_t y_row, const RoundedInputs& x, const CodePanel& p, size_t row) {
  using Input = typename Sums::Input;
  constexpr size_t kSteps = kBits == 8 ? 8 : 4, kCorrections = kSmallGroups ? 2 : 1, kBlockBytes = 8 * sizeof(Input);
  const size_t per_group = p.group / 32;
  for (size_t part = 0; part < kParts; part += P) {
    const std::byte* integers = x.integers + row * x.blocks * kBlockBytes;
    const float* x_scales = x.scales + row * x.blocks;
    const Correction* corrections = x.corrections + row * x.blocks * kCorrections;
    const uint8_t* codes = p.codes + part * kWidth * 4;
    Floats totals[M][P];
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) {
      TRANSOM_UNROLL
      for (size_t i = 0; i < P; ++i) totals[m][i] = zeros();
    }
    size_t g = 0, left = per_group;
    for (size_t b = 0; b < p.blocks; ++b) {
      const auto* quads = reinterpret_cast<const Input*>(integers);
      __asm__("" : "+r"(quads));  // else compilers hold an address for each of them, in memory
      // The next panel comes while the first of several rows are multiplied with this one. One row is done with a line
      // at once: what lies a little ahead, since the processor alone does not fetch enough of it.
      const size_t ahead = M > 1 ? p.blocks * kSteps * 64 : kAhead;
      if (row == 0 && p.following)
        for (size_t s = 0; s < 4; ++s) __builtin_prefetch(p.following + (b * 4 + s) * 64);
      else if (row == 0)
        for (size_t s = 0; s < kSteps; ++s) __builtin_prefetch(codes + ahead + s * 64);
      // Halves of a block with scales of their own come one after the other: so many sums have no registers.
      const size_t group = kSmallGroups ? 2 * b : g;
      TRANSOM_UNROLL
      for (size_t sum = 0; sum < kCorrections; ++sum) {
        Sums sums[M][P];
        TRANSOM_UNROLL
        for (size_t m = 0; m < M; ++m) {
          const Ints start =
              kMinima ? all(0) : four(reinterpret_cast<const Quad*>(&corrections[m * kCorrections + sum].start));
          TRANSOM_UNROLL
          for (size_t i = 0; i < P; ++i) sums[m][i].begin(start);
        }
        TRANSOM_UNROLL
        for (size_t s = 0; s < 4; ++s) {
          TRANSOM_UNROLL
          for (size_t one = 0; one < 2 / kCorrections; ++one) {
            const size_t half = kSmallGroups ? sum : one;
            typename Sums::Codes four_inputs[P];
            TRANSOM_UNROLL
            for (size_t i = 0; i < P; ++i) {
              const Ints loaded = load_bytes(codes + (kBits == 8 ? s + 4 * half : s) * 64 + i * kWidth * 4);
              const Ints taken = kBits == 8 ? loaded : half ? high(loaded) : low(loaded);
              if constexpr (kTable) four_inputs[i] = Sums::codes(look_up_bytes(byte_table(p.steps), taken));
              else four_inputs[i] = Sums::codes(taken);
            }
            TRANSOM_UNROLL
            for (size_t m = 0; m < M; ++m) {
              TRANSOM_UNROLL
              for (size_t i = 0; i < P; ++i) sums[m][i].add(four_inputs[i], quads + m * 8 + s + 4 * half);
            }
          }
        }
        TRANSOM_UNROLL
        for (size_t i = 0; i < P; ++i) {
          const Floats scale = load_scales(p.scales, p.half, group + sum, part + i);
          TRANSOM_UNROLL
          for (size_t m = 0; m < M; ++m)
            totals[m][i] =
                multiply_add(to_floats(sums[m][i].total()), times(scale, all_of(x_scales + m)), totals[m][i]);
        }
      }
      TRANSOM_UNROLL
      for (size_t sum = 0; kMinima && sum < kCorrections; ++sum) {
        TRANSOM_UNROLL
        for (size_t i = 0; i < P; ++i) {
          const Floats least = load_scales(p.minima, p.half, group + sum, part + i);
          TRANSOM_UNROLL
          for (size_t m = 0; m < M; ++m)
            totals[m][i] = multiply_add(least, all_of(&corrections[m * kCorrections + sum].sum), totals[m][i]);
        }
      }
      integers += M * kBlockBytes, x_scales += M, corrections += M * kCorrections, codes += kSteps * 64;
      if (!kSmallGroups && --left == 0) ++g, left = per_group;
    }
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) {
      TRANSOM_UNROLL
      for (size_t i = 0; i < P; ++i) store_floats(y + m * y_row + (part + i) * kWidth, totals[m][i]);
    }
  }
}

constexpr size_t kMostRows = kParts == 1 ? 8 : 4;  // as there are registers for

size_t rows_of_tile(size_t left) {
  size_t rows = kMostRows;
  while (rows > left) rows /= 2;
  return rows;
}

template <typename Sums, int kBits, bool kSmallGroups, bool kMinima, bool kTable = false>
void all_rounded_rows(float* y, size_t y_row, const RoundedInputs& x, const CodePanel& p, size_t m) {
  size_t i = 0;
  const auto rows = [&]<size_t M>() {
    // Both halves of a line of codes together, where sums have registers (totals may be in memory): one is computed
    // with while the next line comes, and both take four inputs that are loaded once.
    constexpr size_t kTogether = kParts == 2 && M * Sums::kRegisters <= 4 ? 2 : 1;
    for (; i + M <= m; i += M)
      rounded_rows<Sums, kBits, kSmallGroups, kMinima, kTable, M, kTogether>(y + i * y_row, y_row, x, p, i);
  };
  if constexpr (kMostRows == 8) rows.template operator()<8>();
  rows.template operator()<4>();
  rows.template operator()<2>();
  rows.template operator()<1>();
}

#if TRANSOM_PAIR_SUMS
// Whether all codes are from `lowest` to lowest + count - 1.
bool are_within(const CodePanel& p, uint8_t lowest, uint8_t count) {
  for (size_t b = 0; b < p.blocks; ++b) {
    Ints largest = all(0);
    for (size_t i = 0; i < 512; i += kWidth * 4)
      largest = larger_bytes(largest, subtract_bytes(load_bytes(p.codes + b * 512 + i), lowest));
    if (any_byte_from(largest, count)) return false;
  }
  return true;
}

// Bytes of few bits, as codes of five and six bits are, take half the work. Looking for them pays for a few rows.
template <bool kSmallGroups>
bool multiply_narrow(float* y, size_t y_row, const RoundedInputs& x, const CodePanel& p, size_t m) {
  typedef NarrowSums<kSmallGroups ? 16 : 32> Sums;
  if (m < 4 || x.by_row || !are_within(p, Sums::kLowest, Sums::kCount)) return false;
  all_rounded_rows<Sums, 8, kSmallGroups, false>(y, y_row, x, p, m);
  return true;
}
#else
template <bool kSmallGroups>
bool multiply_narrow(float*, size_t, const RoundedInputs&, const CodePanel&, size_t) {
  return false;
}
#endif

// With the sums that codes of 4 and of 8 bits take.
template <typename Nibbles, typename Bytes, bool kSmallGroups>
void multiply_groups(float* y, size_t y_row, const RoundedInputs& x, const CodePanel& p, size_t m) {
  const auto products = [&]<typename Sums, int kBits>() {
    if (p.minima) all_rounded_rows<Sums, kBits, kSmallGroups, true>(y, y_row, x, p, m);
    else all_rounded_rows<Sums, kBits, kSmallGroups, false>(y, y_row, x, p, m);
  };
  const bool spread = p.following != nullptr;
  if (p.bits == 8 || (spread && p.steps)) products.template operator()<Bytes, 8>();
  else if (p.steps) all_rounded_rows<Bytes, 4, kSmallGroups, false, true>(y, y_row, x, p, m);
  else if (spread) products.template operator()<Nibbles, 8>();
  else products.template operator()<Nibbles, 4>();
}

template <bool kSmallGroups>
void multiply_of_group(float* y, size_t y_row, const RoundedInputs& x, const CodePanel& p, size_t m) {
  if (x.wide) return multiply_groups<WideSums, WideSums, kSmallGroups>(y, y_row, x, p, m);
  const bool bytes = p.bits == 8 || (p.following && p.steps);
  if (bytes && !p.minima && multiply_narrow<kSmallGroups>(y, y_row, x, p, m)) return;
  multiply_groups<NibbleSums, ByteSums, kSmallGroups>(y, y_row, x, p, m);
}

void multiply_rounded(float* y, size_t y_row, const RoundedInputs& x, const CodePanel& p, size_t m) {
  (p.group == 16 ? multiply_of_group<true> : multiply_of_group<false>)(y, y_row, x, p, m);
}

CodePanel spread(uint8_t* bytes, const CodePanel& p) {
  for (size_t b = 0; b < p.blocks; ++b)
    for (size_t s = 0; s < 4; ++s)
      for (size_t i = 0; i < 64; i += kWidth * 4) {
        const Ints both = load_bytes(p.codes + (b * 4 + s) * 64 + i);
        Ints lower = low(both), upper = high(both);
        if (p.steps) {
          lower = look_up_bytes(byte_table(p.steps), lower);
          upper = look_up_bytes(byte_table(p.steps), upper);
        }
        store_bytes(bytes + (b * 8 + s) * 64 + i, lower);
        store_bytes(bytes + (b * 8 + 4 + s) * 64 + i, upper);
      }
  CodePanel made = p;
  made.codes = bytes, made.following = p.codes + p.blocks * 256;
  return made;
}

}  // namespace

void fill_code_products(CodeProducts& table) {
  table.unpack = unpack;
  table.multiply = multiply;
  table.multiply_rounded = multiply_rounded;
  table.spread = spread;
  table.rows_of_tile = rows_of_tile;
  fill_input_rounding(table);
}

}  // namespace transom::cpu::TRANSOM_LEVEL

// SPDX-License-Identifier: Apache-2.0
// The products of panels.cpp in bf16 by the processor's tiles (AMX): sixteen rows of 32 numbers with 32 numbers of
// sixteen columns, summed in f32. A panel is sixteen columns, and there are an even number of them; depth is filled up
// to 32 numbers in the panels, and what stands there in the rows of the left operand must be finite.
#include "cpu/vector/products/word_transpose.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

constexpr size_t kColumns = 16, kDepth = 32, kWords = kDepth / 2;  // of a tile
constexpr size_t kTogether = 2 * kColumns;                         // the tiles hold 2 by 2 blocks of sums

constexpr size_t filled_up(size_t n, size_t whole) { return (n + whole - 1) / whole * whole; }

// ---- packing: panel after panel, [words, 16] of two numbers each

void pack_tiles(uint32_t* panels, const void* b, size_t row, size_t depth, size_t columns) {
  auto* from = static_cast<const uint16_t*>(b);
  for (size_t begin = 0; begin < filled_up(columns, kTogether); begin += kColumns) {
    const size_t n = begin >= columns ? 0 : columns - begin < kColumns ? columns - begin : kColumns;
    const auto there = static_cast<__mmask16>((1u << n) - 1);
    for (size_t k = 0; k < filled_up(depth, kDepth); k += 2, panels += kColumns) {
      const uint16_t* source = from + k * row + begin;
      const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(k < depth ? there : 0, source));
      const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(k + 1 < depth ? there : 0, source + row));
      _mm512_storeu_si512(panels, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

void pack_transposed_tiles(uint32_t* panels, const void* b, size_t row, size_t depth, size_t columns) {
  const size_t words = filled_up(depth, kDepth) / 2, whole = depth / 2;
  auto* from = static_cast<const uint16_t*>(b);
  for (size_t begin = 0; begin < filled_up(columns, kTogether); begin += kColumns, panels += words * kColumns) {
    const size_t n = begin >= columns ? 0 : columns - begin < kColumns ? columns - begin : kColumns;
    const uint16_t* source = from + begin * row;
    for (size_t k = 0; k < whole; k += kWords)
      transpose_words(panels + k * kColumns, reinterpret_cast<const char*>(source + 2 * k), row * sizeof(uint16_t), n,
                      whole - k < kWords ? whole - k : kWords);
    for (size_t k = whole; k < words; ++k)
      for (size_t i = 0; i < kColumns; ++i)
        panels[k * kColumns + i] = i < n && k == whole && depth % 2 != 0 ? source[i * row + depth - 1] : 0;
  }
}

// ---- products

// As the instruction LDTILECFG reads it.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

// Sums are the tiles 0 and 1 of the first rows, 2 and 3 of the second; 4 and 5 hold rows of a, 6 and 7 columns of b.
// `second`: 0: there are only the first.
void shape_tiles(size_t first, size_t second) {
  TileShapes shapes;
  const size_t rows[8] = {first, first, second, second, first, second, 16, 16};
  for (int tile = 0; tile < 8; ++tile) {
    shapes.rows[tile] = static_cast<uint8_t>(rows[tile]);
    shapes.bytes[tile] = rows[tile] > 0 ? 64 : 0;
  }
  _tile_loadconfig(&shapes);
}

// Up to 32 rows of a with two panels.
template <bool two>
void tile_block(float* c, size_t c_row, const uint16_t* a, size_t a_row, const uint32_t* panels, size_t words) {
  const uint32_t* second = panels + words * kColumns;
  const size_t a_bytes = a_row * sizeof(uint16_t), c_bytes = c_row * sizeof(float);
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (two) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (size_t k = 0; k < words; k += kWords) {
    _tile_loadd(4, a + 2 * k, a_bytes);
    _tile_loadd(6, panels + k * kColumns, 64);
    _tile_loadd(7, second + k * kColumns, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (two) {
      _tile_loadd(5, a + 16 * a_row + 2 * k, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + kColumns, c_bytes);
  if constexpr (two) {
    _tile_stored(2, c + 16 * c_row, c_bytes);
    _tile_stored(3, c + 16 * c_row + kColumns, c_bytes);
  }
}

template <bool two>
void tile_rows(float* c, size_t c_row, const uint16_t* a, size_t a_row, const uint32_t* panels, size_t columns,
               size_t words) {
  for (size_t j = 0; j < columns; j += kTogether, panels += 2 * words * kColumns)
    tile_block<two>(c + j, c_row, a, a_row, panels, words);
}

void multiply_tiles(float* c, size_t c_row, const void* a, size_t a_row, const uint32_t* panels, size_t m,
                    size_t columns, size_t depth) {
  const size_t words = filled_up(depth, kDepth) / 2, whole = m / 32 * 32, rest = m - whole;
  auto* left = static_cast<const uint16_t*>(a);
  if (whole > 0) shape_tiles(16, 16);
  for (size_t i = 0; i < whole; i += 32)
    tile_rows<true>(c + i * c_row, c_row, left + i * a_row, a_row, panels, columns, words);
  if (rest > 0) {
    c += whole * c_row, left += whole * a_row;
    shape_tiles(rest < 16 ? rest : 16, rest > 16 ? rest - 16 : 0);
    if (rest > 16) tile_rows<true>(c, c_row, left, a_row, panels, columns, words);
    else tile_rows<false>(c, c_row, left, a_row, panels, columns, words);
  }
  _tile_release();
}

}  // namespace

// Beside the panels of the level below, whose rounding it takes.
void fill_tile_panels(VectorKernels& kernels) {
  kernels.tiles_bf16 = {kTogether, pack_tiles, pack_transposed_tiles, multiply_tiles, kernels.panels_bf16.round};
}

}  // namespace transom::cpu::TRANSOM_LEVEL

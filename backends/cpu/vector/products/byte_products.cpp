// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/products/byte_products.h"

#include "cpu/vector/products/byte_lanes.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

constexpr size_t kRows = 6;
constexpr size_t kDepth = 2048;  // of rows that are widened at once: they share the first cache with the weights

// How whole sums leave the registers: `row` of the rows, `column` of the columns.
struct Integers {
  static void store(int32_t* to, Sums sums, size_t, size_t) { store_sums(to, sums); }
};

inline Reals as_reals(Sums sums) {
#if defined(__AVX2__)
  asm("" : "+v"(sums));  // else g++ 12 keeps sums in memory during the loop
#endif
  return to_reals(sums);
}

struct Floats {
  static void store(float* to, Sums sums, size_t, size_t) { store_reals(to, as_reals(sums)); }
};

// As dequantize_row has them.
struct Scaled {
  const float *row_scales, *scales, *bias;

  void store(float* to, Sums sums, size_t row, size_t column) const {
    const Reals value = as_reals(sums), scale = product(all_reals(row_scales[row]), load_reals(scales + column));
    store_reals(to, bias ? multiply_add(value, scale, load_reals(bias + column)) : product(value, scale));
  }
};

template <typename Weight>
inline void prefetch(const Weight* panel) {
#if defined(__AVX2__)
  constexpr size_t kBytes = kWidth * kGroup * sizeof(Weight);
  TRANSOM_UNROLL
  for (size_t i = 0; i < (kBytes + 63) / 64; ++i)
    _mm_prefetch(reinterpret_cast<const char*>(panel) + 16 * kBytes + i * 64, _MM_HINT_T0);
#else
  (void)panel;
#endif
}

// Which part of the depth a block adds up. Sums of a part that is not the last lie in c as integers.
struct Part {
  size_t groups;
  bool first, last;
};

// M rows of a panel: `a` may lie at any address, it is read in words of four bytes.
template <size_t M, typename Result, typename Weight, typename End>
void block(Result* c, size_t c_row, const Left* a, size_t a_row, const Weight* panel, const int32_t* surplus, Part part,
           size_t row, size_t column, const End& end) {
  Sums sums[M][kVectors];
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v)
      sums[m][v] = !part.first ? load_sums(c + m * c_row + v * kLanes32)
                   : surplus   ? negative(load_sums(surplus + v * kLanes32))
                               : zero();
  }
  for (size_t k = 0; k < part.groups; ++k) {
    const Weight* from = panel + k * kWidth * kGroup;
    prefetch(from);
    decltype(load_weights(from)) weights[kVectors];
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      weights[v] = load_weights(from + v * kLanes32 * kGroup);
#if defined(__AVX2__)
      if (M > 1) asm("" : "+v"(weights[v]));  // else g++ 12 reads them again for each of two or three rows
#endif
    }
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) {
      const auto left = all(reinterpret_cast<const Group*>(a + m * a_row)[k]);
      TRANSOM_UNROLL
      for (size_t v = 0; v < kVectors; ++v) sums[m][v] = add_products(sums[m][v], left, weights[v]);
    }
  }
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      Result* to = c + m * c_row + v * kLanes32;
      if (part.last) end.store(to, sums[m][v], row + m, column + v * kLanes32);
      else store_sums(to, sums[m][v]);
    }
  }
}

template <typename Result, typename Weight, typename End>
void block_of(size_t rows, Result* c, size_t c_row, const Left* a, size_t a_row, const Weight* panel,
              const int32_t* surplus, Part part, size_t row, size_t column, const End& end) {
  switch (rows) {
    case 6:
      return block<6>(c, c_row, a, a_row, panel, surplus, part, row, column, end);
    case 5:
      return block<5>(c, c_row, a, a_row, panel, surplus, part, row, column, end);
    case 4:
      return block<4>(c, c_row, a, a_row, panel, surplus, part, row, column, end);
    case 3:
      return block<3>(c, c_row, a, a_row, panel, surplus, part, row, column, end);
    case 2:
      return block<2>(c, c_row, a, a_row, panel, surplus, part, row, column, end);
    default:
      return block<1>(c, c_row, a, a_row, panel, surplus, part, row, column, end);
  }
}

// Equal blocks: one of fewer than five rows waits for the second cache, whence it reads its weights.
inline size_t rows_together(size_t rows) {
  const size_t blocks = (rows + kRows - 1) / kRows;
  return (rows + blocks - 1) / blocks;
}

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
template <typename Result, typename End>
void multiply_all(Result* c, size_t c_row, const ByteOperands& o, const End& end) {
  const Part whole{(o.depth + kGroup - 1) / kGroup, true, true};
  for (size_t panel = 0; panel < o.panel_count; ++panel)
    for (size_t row = 0, together = 0; row < o.rows; row += together) {
      together = rows_together(o.rows - row);
      block_of(together, c + row * c_row + panel * kWidth, c_row, o.a + row * o.a_row, o.a_row,
               o.panels + panel * o.panel_step, o.surplus ? o.surplus + panel * kWidth : nullptr, whole, row,
               panel * kWidth, end);
    }
}
#else
// A block's rows are widened once for all panels.
template <typename Result, typename End>
void multiply_all(Result* c, size_t c_row, const ByteOperands& o, const End& end) {
  Left wide[kRows * kDepth];
  for (size_t row = 0, together = 0; row < o.rows; row += together) {
    together = rows_together(o.rows - row);
    for (size_t begin = 0; begin == 0 || begin < o.depth; begin += kDepth) {
      const size_t rest = o.depth - begin, groups = ((rest < kDepth ? rest : kDepth) + kGroup - 1) / kGroup;
      const size_t wide_row = groups * kGroup;
      for (size_t m = 0; m < together; ++m) {
        const uint8_t* from = o.a + (row + m) * o.a_row + begin;
        TRANSOM_SIMD
        for (size_t k = 0; k < wide_row; ++k) wide[m * wide_row + k] = from[k];
      }
      const Part part{groups, begin == 0, begin + kDepth >= o.depth};
      for (size_t panel = 0; panel < o.panel_count; ++panel)
        block_of(together, c + row * c_row + panel * kWidth, c_row, wide, wide_row,
                 o.panels + panel * o.panel_step + begin * kWidth, o.surplus ? o.surplus + panel * kWidth : nullptr,
                 part, row, panel * kWidth, end);
    }
  }
}

void multiply_words(int32_t* c, size_t c_row, const int16_t* a, size_t a_row, const int16_t* panels, size_t panel_step,
                    size_t rows, size_t depth, size_t panel_count) {
  const Part whole{depth / kGroup, true, true};
  for (size_t panel = 0; panel < panel_count; ++panel)
    for (size_t row = 0, together = 0; row < rows; row += together) {
      together = rows_together(rows - row);
      block_of(together, c + row * c_row + panel * kWidth, c_row, a + row * a_row, a_row, panels + panel * panel_step,
               nullptr, whole, row, panel * kWidth, Integers{});
    }
}
#endif

void multiply(int32_t* c, size_t c_row, const ByteOperands& operands) { multiply_all(c, c_row, operands, Integers{}); }

void multiply_to_floats(float* c, size_t c_row, const ByteOperands& operands) {
  multiply_all(c, c_row, operands, Floats{});
}

void multiply_scaled(float* c, size_t c_row, const ByteOperands& operands, const float* row_scales, const float* scales,
                     const float* bias) {
  multiply_all(c, c_row, operands, Scaled{row_scales, scales, bias});
}

}  // namespace

void fill_byte_products(ByteProducts& table) {
  table.width = kWidth, table.group = kGroup;
  table.multiply = multiply, table.multiply_to_floats = multiply_to_floats, table.multiply_scaled = multiply_scaled;
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
  table.multiply_words = nullptr;  // products of bytes are faster than what words save
#else
  table.multiply_words = multiply_words;
#endif
}

}  // namespace transom::cpu::TRANSOM_LEVEL

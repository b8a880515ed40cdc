// SPDX-License-Identifier: Apache-2.0
// Products of a few rows of bf16 with packed weights, for processors with products of bf16: a step of decoding reads
// each weight once, from end to end, which the library's products of so few rows do at two thirds of the memory's rate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// The weights of `width` columns that lie side by side, for all depth: pairs of numbers that follow each other in
// depth, [pairs, width, 2]. oneDNN calls this layout BA16a64b2a.
struct PairRows {
  size_t width, most_rows;
  // c [rows, width] = a [rows, 2 pairs] panel + bias for up to most_rows rows, with `c_row` and `a_row` numbers from
  // row to row; bias f32, or null. c in f32, or each sum rounded to bf16.
  void (*multiply)(float* c, size_t c_row, const uint16_t* a, size_t a_row, const uint16_t* panel, const float* bias,
                   size_t rows, size_t pairs);
  void (*multiply_to_bf16)(uint16_t* c, size_t c_row, const uint16_t* a, size_t a_row, const uint16_t* panel,
                           const float* bias, size_t rows, size_t pairs);
};

// Null where this processor has none. Any thread.
const PairRows* pair_rows();

namespace avx512_bf16 {
void fill_pair_rows(PairRows& table);
}

}  // namespace transom::cpu

// SPDX-License-Identifier: Apache-2.0
// Sums over all rows of a matrix, one for each column, in f32. The rows are cut into pieces at places that depend on
// the shape only; a piece is added up in the order of its rows, kRowsTogether of them by themselves, and then the
// pieces in order. So the bits depend neither on the threads nor on who walks the rows.
#pragma once

#include <algorithm>

#include "cpu/device/types.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {

constexpr int64_t kRowsTogether = 32;  // a sum of thousands of rows one by one would lose bits to its own size

struct RowPieces {
  int64_t rows = 0, each = kRowsTogether;

  int64_t count() const { return (rows + each - 1) / each; }
  int64_t begin(int64_t piece) const { return piece * each; }
  int64_t end(int64_t piece) const { return std::min(begin(piece) + each, rows); }
};

// The pieces of a sum over so many rows; each but the last is a multiple of kRowsTogether.
RowPieces pieces_of_column_sums(int64_t rows, int64_t width);

// sums[i] += x[r, i] for the rows one after the other; x: of the type, `stride` elements from row to row.
using AddRows = void (*)(float* sums, const void* x, size_t stride, size_t rows, size_t n);
AddRows add_rows_function(transom_dtype dtype);

// Adds rows [begin, end) of one piece, the rows before them being added already, to `sums`. The sum of the rows that
// are together grows in `part`; add(target, first, last) adds the rows [first, last) to it.
template <typename Add>
void add_to_piece(const RowPieces& pieces, int64_t begin, int64_t end, float* sums, float* part, int64_t width,
                  Add&& add) {
  for (int64_t row = begin; row < end;) {
    const int64_t together = row / kRowsTogether * kRowsTogether;
    const int64_t behind = std::min(together + kRowsTogether, pieces.rows), last = std::min(behind, end);
    float* target = together % pieces.each == 0 ? sums : part;
    if (row == together) std::fill_n(target, width, 0.0f);
    add(target, row, last);
    if (target == part && last == behind)
      vector_kernels().add_rows_f32(sums, part, static_cast<size_t>(width), 1, static_cast<size_t>(width));
    row = last;
  }
}

// y[i], of the type, is the sum over the pieces of partial[piece * stride + i]; the first piece's memory is used up.
void add_pieces(float* partial, int64_t pieces, int64_t stride, int64_t width, transom_dtype dtype, std::byte* y);

}  // namespace transom::cpu

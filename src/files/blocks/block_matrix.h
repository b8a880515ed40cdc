// SPDX-License-Identifier: Apache-2.0
// A matrix of a compressed checkpoint, whichever the format: rows of 4- or 8-bit codes with scales for groups of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "files/checkpoint/tensor_view.h"

namespace transom {

// Number (n, k), with g = k / group and in f32, each operation rounded:
//   scale[n, g] (code - 8, or code - 128 for 8 bits)
//   scale[n, g] code + minimum[n, g]    where there are minima
//   scale[n, g] values[code]            where there are values
struct BlockLayout {
  int64_t rows = 0, depth = 0;
  int bits = 4;  // 4 or 8
  int64_t group = 32;
  bool has_minima = false;
  DType scale_type = DType::kFloat32;  // f16 where f16 holds the scales, and minima, exactly
  std::vector<float> values;           // 16 or 256, or none
  std::vector<int64_t> order;          // column k belongs to input order[k]; empty: to input k
  bool inputs_by_token = false;        // the checkpoint asks for 8-bit inputs with a scale for each token

  int64_t groups() const { return (depth + group - 1) / group; }
};

// Rows may be read by several threads at once.
class BlockMatrix {
 public:
  explicit BlockMatrix(BlockLayout layout) : layout_(std::move(layout)) {}
  virtual ~BlockMatrix();
  const BlockLayout& layout() const { return layout_; }
  // codes [depth], scales [groups], and minima [groups] where there are minima.
  virtual void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const = 0;

  // The same as a packed weight has it, where that is how it is stored: scales and minima in f16 (layout().scale_type),
  // codes of 8 bits, or of 4 bits with each block of 32 codes as 16 bytes: byte j holds code j in its low half and code
  // 16 + j in its high one. False, and nothing is written, for other formats.
  virtual bool read_stored(int64_t row, uint8_t* codes, uint16_t* scales, uint16_t* minima) const;

  // Whether rows are read in little more time than their bytes take to be copied.
  virtual bool has_quick_rows() const { return false; }

  // Lets go of the pages of the file that the matrix is read from; a later read_row() reads them again.
  virtual void release() const {}

  // The numbers of a row, in the order of the inputs: [depth].
  void dequantise_row(int64_t row, float* numbers) const;

 private:
  BlockLayout layout_;
};

// All rows, f32 [rows, depth], or of `shape` with as many numbers.
TensorView dequantised_view(const BlockMatrix& matrix, std::vector<int64_t> shape = {});

// The rows of another matrix, in this order.
std::shared_ptr<const BlockMatrix> rows_of(std::shared_ptr<const BlockMatrix> matrix, std::vector<int64_t> rows);

}  // namespace transom

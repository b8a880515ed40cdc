// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/block_matrix.h"

#include "base/threads/threads.h"

namespace transom {
namespace {

class SelectedRows : public BlockMatrix {
 public:
  SelectedRows(BlockLayout layout, std::shared_ptr<const BlockMatrix> matrix, std::vector<int64_t> rows)
      : BlockMatrix(std::move(layout)), matrix_(std::move(matrix)), rows_(std::move(rows)) {}
  void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const override {
    matrix_->read_row(rows_[static_cast<size_t>(row)], codes, scales, minima);
  }
  bool read_stored(int64_t row, uint8_t* codes, uint16_t* scales, uint16_t* minima) const override {
    return matrix_->read_stored(rows_[static_cast<size_t>(row)], codes, scales, minima);
  }
  bool has_quick_rows() const override { return matrix_->has_quick_rows(); }
  void release() const override { matrix_->release(); }

 private:
  std::shared_ptr<const BlockMatrix> matrix_;
  std::vector<int64_t> rows_;
};

}  // namespace

BlockMatrix::~BlockMatrix() = default;

bool BlockMatrix::read_stored(int64_t, uint8_t*, uint16_t*, uint16_t*) const { return false; }

void BlockMatrix::dequantise_row(int64_t row, float* numbers) const {
  const BlockLayout& l = layout_;
  const auto depth = static_cast<size_t>(l.depth), groups = static_cast<size_t>(l.groups());
  std::vector<uint8_t> codes(depth);
  std::vector<float> scales(groups), minima(l.has_minima ? groups : 0);
  read_row(row, codes.data(), scales.data(), minima.data());
  const int zero = l.bits == 4 ? 8 : 128;
  for (size_t k = 0; k < depth; ++k) {
    const size_t g = k / static_cast<size_t>(l.group);
    float number;
    if (!l.values.empty()) {
      number = scales[g] * l.values[codes[k]];
    } else if (l.has_minima) {
      const volatile float scaled = scales[g] * static_cast<float>(codes[k]);  // rounded by itself, not fused
      number = scaled + minima[g];
    } else {
      number = scales[g] * static_cast<float>(static_cast<int>(codes[k]) - zero);
    }
    numbers[l.order.empty() ? k : static_cast<size_t>(l.order[k])] = number;
  }
}

TensorView dequantised_view(const BlockMatrix& matrix, std::vector<int64_t> shape) {
  const BlockLayout& l = matrix.layout();
  const auto depth = static_cast<size_t>(l.depth), count = static_cast<size_t>(l.rows) * depth;
  const std::shared_ptr<float[]> numbers(new float[count]);
  parallel_for(static_cast<size_t>(l.rows),
               [&](size_t row) { matrix.dequantise_row(static_cast<int64_t>(row), numbers.get() + row * depth); });
  if (shape.empty()) shape = {l.rows, l.depth};
  return {DType::kFloat32, std::move(shape), std::as_bytes(std::span(numbers.get(), count)), numbers};
}

std::shared_ptr<const BlockMatrix> rows_of(std::shared_ptr<const BlockMatrix> matrix, std::vector<int64_t> rows) {
  BlockLayout layout = matrix->layout();
  layout.rows = static_cast<int64_t>(rows.size());
  return std::make_shared<SelectedRows>(std::move(layout), std::move(matrix), std::move(rows));
}

}  // namespace transom

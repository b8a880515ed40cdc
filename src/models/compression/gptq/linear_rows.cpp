// SPDX-License-Identifier: Apache-2.0
#include "models/compression/gptq/linear_rows.h"

#include "transom/ops.h"

namespace transom {
namespace {

// [rows, depth] from the layout of the parameter, and back.
Tensor turned(const Parameter& weight, const Tensor& value) {
  return weight.use == Parameter::Use::kTransposedLinear ? permute(value, {1, 0}) : value;
}

}  // namespace

bool is_linear_matrix(const Parameter& weight) {
  return weight.use != Parameter::Use::kOther && weight.value.rank() == 2;
}

std::pair<int64_t, int64_t> extents_by_output(const Parameter& weight) {
  const int64_t first = weight.value.dim(0), second = weight.value.dim(1);
  return weight.use == Parameter::Use::kTransposedLinear ? std::pair(second, first) : std::pair(first, second);
}

LinearRows rows_by_output(const Parameter& weight) {
  const Tensor matrix = turned(weight, weight.value);
  return {matrix.dim(0), matrix.dim(1), cast(matrix, DType::kFloat32).to_vector<float>()};
}

void set_rows_by_output(Parameter& weight, const LinearRows& rows) {
  const Tensor matrix = cast(Tensor::from(rows.numbers, {rows.rows, rows.depth}), weight.value.dtype());
  Tensor value = turned(weight, matrix);
  eval({value});
  weight.value = value;
}

}  // namespace transom

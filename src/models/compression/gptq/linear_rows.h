// SPDX-License-Identifier: Apache-2.0
// The weights of linear layers by outputs, whichever way round their parameters hold them: codes and masks lie so.
#pragma once

#include <utility>
#include <vector>

#include "transom/model.h"

namespace transom {

struct LinearRows {
  int64_t rows = 0, depth = 0;  // outputs, inputs
  std::vector<float> numbers;   // [rows, depth]
};

bool is_linear_matrix(const Parameter& weight);
// Its outputs and inputs.
std::pair<int64_t, int64_t> extents_by_output(const Parameter& weight);
// Of a linear layer's matrix.
LinearRows rows_by_output(const Parameter& weight);
// The value becomes these numbers, in the type that it has.
void set_rows_by_output(Parameter& weight, const LinearRows& rows);

}  // namespace transom

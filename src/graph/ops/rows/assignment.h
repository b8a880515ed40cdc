// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

// The assignment of columns to rows that costs least in sum (Jonker and Volgenant, 1987): cost f32 [B, R, C], `counted`
// bool [B, C]; -> i64 [B, C], the row of each column, each row at most once. -1: the column is not counted, or there
// are more counted columns than rows and the others cost less. A cost that is no finite number counts as the largest
// f32. No gradient goes through it.
Tensor linear_sum_assignment(const Tensor& cost, const Tensor& counted);

}  // namespace transom

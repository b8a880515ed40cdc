// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/tensor.h"

namespace transom {

// Bicubic resampling of one axis as a matrix [to, from]: four taps around each place, those beyond the ends at the
// ends. With align_corners the first and the last place stay where they are.
Tensor bicubic_matrix(int64_t from, int64_t to, bool align_corners);

}  // namespace transom

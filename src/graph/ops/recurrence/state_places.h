// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/tensor.h"

namespace transom {

// Where the states of texts lie between passes: token n goes on from row from[n] of a pool, of zeros where that is
// negative, and leaves its state in row to[n], nowhere where that is negative. What an earlier token of the pass has
// left there is read. i64 [N] both.
struct StatePlaces {
  Tensor pool = {};  // [R, ...]
  Tensor from = {}, to = {};
};

}  // namespace transom

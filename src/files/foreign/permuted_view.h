// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "files/checkpoint/tensor_view.h"

namespace transom {

// The same values with output axis i the input's axis `axes`[i], in memory of their own; the pages of a mapped file
// that held them are let go. `axes` has each axis of a tensor of at least one once.
TensorView permuted_view(const TensorView& view, const std::vector<int64_t>& axes);

}  // namespace transom

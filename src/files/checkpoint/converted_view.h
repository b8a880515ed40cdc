// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "files/checkpoint/tensor_view.h"

namespace transom {

// The values in another type, rounded to nearest even, in memory of their own; the pages of a mapped file that held
// them are let go. Between f32, bf16 and f16 alone; nothing for other types.
std::optional<TensorView> converted_view(const TensorView& view, DType dtype);

}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// The text of single element-wise primitives, of values in compute types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/source/kernel_text.h"

namespace transom::gpu {

bool is_elementwise(std::string_view op);

// The expression of the primitive, rounded to `to`; operands are names. `float64`: whether the device has doubles.
std::string elementwise(KernelText& text, std::string_view op, const std::vector<transom_dtype>& from, transom_dtype to,
                        const std::vector<std::string>& operands);

// The operand as another element type, as `cast` gives it.
std::string converted(KernelText& text, transom_dtype from, transom_dtype to, const std::string& operand);

}  // namespace transom::gpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

namespace transom {

// The values of f8_e4m3fn by their 256 codes (Micikevicius et al., "FP8 formats for deep learning", 2022): no
// infinities, NaN for all ones.
const std::array<float, 256>& float8_values();

}  // namespace transom

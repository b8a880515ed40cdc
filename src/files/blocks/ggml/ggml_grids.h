// SPDX-License-Identifier: Apache-2.0
// The points of ggml's types whose blocks name points of a lattice in place of numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

enum class GgmlGrid { kIq2Xxs, kIq2Xs, kIq2S, kIq3Xxs, kIq3S, kIq1 };

// Codes of all points, one point after the other: 8 numbers of 3 levels each, or 4 numbers of 8 levels (IQ3).
const std::vector<uint8_t>& ggml_grid(GgmlGrid grid);

}  // namespace transom

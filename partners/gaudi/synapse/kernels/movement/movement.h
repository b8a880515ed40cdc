// SPDX-License-Identifier: Apache-2.0
// What kernels that move elements share.
#pragma once

#include "kernels/kernel.h"

namespace synapse_emulator {

// out[i0, i1, ...] = in[base + i0 * stride[0] + i1 * stride[1] + ...], in elements.
void copy_strided(const Operand& out, const Operand& in, const std::array<int64_t, kMostDims>& stride, int64_t base);
// Of a dense tensor, in elements.
std::array<int64_t, kMostDims> strides_of(const Sizes& sizes);
// `axis`, checked.
int axis_of(const Node& node, int64_t axis, int rank);

}  // namespace synapse_emulator

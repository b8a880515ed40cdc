// SPDX-License-Identifier: Apache-2.0
// How codes of a weight lie: panels of 16 rows, of each panel blocks of 32 columns, and scales by groups of columns.
#pragma once

#include "cpu/products/quantized/quantized_matmul.h"
#include "cpu/vector/products/code_products.h"

namespace transom::cpu {

// Of quantized_matmul and its gradient. Inputs: rows [M, K] or [M, N], codes, scales, least values where there are
// some, and the table of values where codes are places in it.
struct CodeLayout {
  static constexpr int64_t kLanes = 16, kInputs = 32;  // rows of a panel, columns of a block

  int64_t m, n, k, group, blocks, groups, panels;
  int bits;
  bool minima, values, half_scales;
  transom_dtype dtype;  // of the rows

  explicit CodeLayout(const Node& node) {
    const Type& in = node.input(0);
    dtype = in.dtype;
    bits = static_cast<int>(node.integer("bits"));
    n = node.integer("rows"), k = node.integer("depth"), group = node.integer("group");
    m = product(in.shape, 0, in.rank() - 1);
    minima = node.integer("minima") != 0, values = node.integer("values") != 0;
    half_scales = node.input(2).dtype == TRANSOM_FLOAT16;
    blocks = (k + kInputs - 1) / kInputs, groups = (k + group - 1) / group, panels = (n + kLanes - 1) / kLanes;
  }

  // `count` blocks of a panel from `block` on, with scales by groups of `columns`.
  CodePanel panel(const Arguments& arguments, int64_t index, int64_t block, int64_t count, int64_t columns) const {
    const int64_t block_bytes = bits == 8 ? 512 : 256, number_bytes = half_scales ? 2 : 4;
    const int64_t scale = (index * groups + block * kInputs / group) * kLanes * number_bytes;
    size_t next = 3;
    const std::byte* least = minima ? arguments.inputs[next++] + scale : nullptr;
    const float* table = values ? arguments.input<float>(next++) : nullptr;
    return {.codes = arguments.input<uint8_t>(1) + (index * blocks + block) * block_bytes,
            .scales = arguments.inputs[2] + scale,
            .minima = least,
            .values = table,
            .bits = bits,
            .half = half_scales,
            .blocks = static_cast<size_t>(count),
            .group = static_cast<size_t>(columns)};
  }
};

}  // namespace transom::cpu

// SPDX-License-Identifier: Apache-2.0
// How a product is spread over tiles, and what that costs: the model of PopLibs' convolution planner, whose products
// are 1x1 convolutions (its PerformanceEstimation.hpp and ExchangeEstimator.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "poplar/Target.hpp"

namespace ipu_emulator {

struct MatMulShape {
  size_t groups, rows, inner, columns;
};

// Of each of `tiles` tiles.
struct MatMulPlan {
  unsigned tiles = 1;
  uint64_t cycles = 0;     // of compute, partial sums added up included
  uint64_t received = 0;   // bytes: operands and partial sums
  uint64_t temporary = 0;  // bytes beside operands and result
  unsigned serial = 1;     // parts that are computed one after the other, for want of memory
};

// `proportion`: of a tile's memory, for temporaries.
MatMulPlan plan_mat_mul(const poplar::Target& target, unsigned tiles, const MatMulShape& shape, size_t element_size,
                        bool half_partials, double proportion);

// Products of `blocks` blocks of inner_block x column_block with the rows of a dense matrix; the results lie in
// `strips` columns of blocks.
struct BlockProductsShape {
  size_t rows, inner_block, column_block, blocks, strips;
};
// Blocks are spread evenly over tiles, those of a strip side by side.
MatMulPlan plan_block_products(const poplar::Target& target, unsigned tiles, const BlockProductsShape& shape,
                               size_t element_size, bool half_partials, double proportion);

// c = a b of row-major matrices; sums in the order of `inner`.
void multiply(const float* a, const float* b, float* c, size_t rows, size_t inner, size_t columns);

}  // namespace ipu_emulator

// SPDX-License-Identifier: Apache-2.0
#include "poplin/mat_mul_plan.h"

#include <algorithm>
#include <vector>

namespace ipu_emulator {
namespace {

uint64_t divided_up(uint64_t x, uint64_t y) { return (x + y - 1) / y; }

// The matrix unit: 16 inputs by 16 outputs of half in 4 cycles a row, 8 by 16 of float in 8. A worker takes a sixth of
// the rows; weights are loaded at 16 bytes a cycle.
uint64_t compute_cycles(uint64_t rows, uint64_t inner, uint64_t columns, size_t element_size) {
  const uint64_t inputs = element_size == 2 ? 16 : 8, row_cycles = element_size == 2 ? 4 : 8;
  const uint64_t blocks = divided_up(inner, inputs) * divided_up(columns, 16);
  const uint64_t of_worker = divided_up(rows, 6);
  // 37 to 41 cycles of a worker around its rows, the first three of which are in them; all six take turns.
  const uint64_t worker = 40 + (of_worker > 3 ? of_worker - 3 : 0) * row_cycles;
  const uint64_t weights = inputs * 16 * element_size / 16;
  return blocks * (6 * worker + weights) + 200;
}

// In how many parts so many blocks may be cut, each number of blocks a part once.
std::vector<uint64_t> splits_of(uint64_t blocks, uint64_t most) {
  std::vector<uint64_t> splits;
  uint64_t before = 0;
  for (uint64_t parts = 1; parts <= std::min(blocks, most); ++parts)
    if (const uint64_t each = divided_up(blocks, parts); each != before) splits.push_back(parts), before = each;
  return splits;
}

}  // namespace

MatMulPlan plan_mat_mul(const poplar::Target& target, unsigned tiles, const MatMulShape& shape, size_t element_size,
                        bool half_partials, double proportion) {
  MatMulPlan best;
  uint64_t best_cost = UINT64_MAX;
  const uint64_t limit = static_cast<uint64_t>(target.getBytesPerTile() * std::clamp(proportion, 0.0, 1.0));
  const uint64_t partial_size = half_partials ? 2 : 4;
  const uint64_t by_groups = std::min<uint64_t>(shape.groups, tiles);
  const uint64_t group_rounds = divided_up(shape.groups, by_groups);
  const uint64_t left = tiles / by_groups;
  const uint64_t inputs = element_size == 2 ? 16 : 8;
  for (const uint64_t by_inner : splits_of(divided_up(shape.inner, inputs), left))
    for (const uint64_t by_columns : splits_of(divided_up(shape.columns, 16), left / by_inner)) {
      const uint64_t by_rows = std::min<uint64_t>(left / by_inner / by_columns, shape.rows);
      if (by_rows == 0) continue;
      // Whole blocks of the unit.
      const uint64_t rows = divided_up(shape.rows, by_rows),
                     inner = divided_up(divided_up(shape.inner, inputs), by_inner) * inputs,
                     columns = divided_up(divided_up(shape.columns, 16), by_columns) * 16;
      uint64_t compute = compute_cycles(rows, inner, columns, element_size);
      // Operands come whole once. Where the columns are cut evenly over the two tiles of an exchange bus, both take the
      // same rows in half the time.
      const uint64_t row_bytes = rows * inner * element_size, column_bytes = inner * columns * element_size;
      uint64_t received = row_bytes / (by_columns % 2 == 0 ? 2 : 1) + column_bytes;
      const uint64_t temporary = row_bytes + column_bytes + rows * columns * partial_size;
      unsigned serial = 1;
      while (temporary / serial > limit && serial < 64) serial *= 2;
      if (by_inner > 1) {  // each tile adds up a part of the partial sums
        const uint64_t partials = rows * columns;
        received += partials * partial_size;
        compute += 60 + partials / 2;
      }
      compute += (serial - 1) * 400;
      const uint64_t cost = group_rounds * (compute + received / target.getExchangeBytesPerCycle());
      if (temporary / serial > limit || cost >= best_cost) continue;
      best_cost = cost;
      best = {static_cast<unsigned>(by_groups * by_rows * by_inner * by_columns), group_rounds * compute,
              group_rounds * received, temporary / serial, serial};
    }
  if (best_cost == UINT64_MAX) {  // nothing fits the proportion: the split that needs least
    best.tiles = tiles;
    const uint64_t elements = shape.groups * (shape.rows * shape.inner + shape.inner * shape.columns);
    best.received = divided_up(elements, tiles) * element_size * 4;
    best.temporary = limit;
    best.cycles = divided_up(shape.groups * shape.rows * shape.inner * shape.columns, uint64_t{tiles} * 16) + 4000;
    best.serial = 64;
  }
  return best;
}

MatMulPlan plan_block_products(const poplar::Target& target, unsigned tiles, const BlockProductsShape& shape,
                               size_t element_size, bool half_partials, double proportion) {
  MatMulPlan best;
  if (shape.blocks == 0 || shape.rows == 0) return best;
  uint64_t best_cost = UINT64_MAX;
  const uint64_t limit = static_cast<uint64_t>(target.getBytesPerTile() * std::clamp(proportion, 0.0, 1.0));
  const uint64_t partial_size = half_partials ? 2 : 4;
  for (const uint64_t by_rows : splits_of(shape.rows, tiles)) {
    const uint64_t rows = divided_up(shape.rows, by_rows), left = tiles / by_rows;
    const uint64_t each = divided_up(shape.blocks, std::min<uint64_t>(left, shape.blocks));
    // Strips that a tile's blocks are of, and the most tiles that have some of one strip.
    const uint64_t strips = std::min(each, divided_up(each * shape.strips, shape.blocks)),
                   sharing = divided_up(divided_up(shape.blocks, shape.strips), each);
    const uint64_t row_bytes = each * rows * shape.inner_block * element_size,
                   block_bytes = each * shape.inner_block * shape.column_block * element_size,
                   partials = strips * rows * shape.column_block;
    uint64_t compute = each * (compute_cycles(rows, shape.inner_block, shape.column_block, element_size) - 200) + 200;
    uint64_t received = row_bytes + block_bytes;
    const uint64_t temporary = row_bytes + block_bytes + partials * partial_size;
    unsigned serial = 1;
    while (temporary / serial > limit && serial < 64) serial *= 2;
    if (sharing > 1) {
      received += partials * partial_size;
      compute += 60 + partials / 2;
    }
    compute += (serial - 1) * 400;
    const uint64_t cost = compute + received / target.getExchangeBytesPerCycle();
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = {static_cast<unsigned>(by_rows * divided_up(shape.blocks, each)), compute, received,
            std::min(temporary / serial, limit), serial};
  }
  return best;
}

}  // namespace ipu_emulator

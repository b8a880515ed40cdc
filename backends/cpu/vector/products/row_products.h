// SPDX-License-Identifier: Apache-2.0
// Products and attention in which a row comes out the same whatever other rows there are: each sum is taken in the
// order of depth (or of keys), one number after the other, however many rows or columns are computed together. The
// sources are compiled once for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// How numbers are stored; sums are f32.
enum RowStorage { kStoredF32, kStoredBF16, kStoredF16, kRowStorages };

struct RowProducts {
  const char* name;
  size_t lanes;  // columns of a register
  size_t width;  // of a panel: some registers

  // c [m, columns] = a [m, depth] b, or c += with `add`: the sums then go on from c, to the bit as if depth had not
  // been cut. b lies in panels of `width` columns, each [depth, width], `panel_step` numbers apart. `columns` are whole
  // panels, or one narrow panel [depth, columns] of less, in whole registers. `bias` is added at the end; null: none.
  void (*multiply[kRowStorages])(float* c, size_t c_row, const float* a, size_t a_row, const void* b, size_t panel_step,
                                 const float* bias, size_t m, size_t columns, size_t depth, bool add);

  // Heads [g, r, .] lie `q_head`, `scores_head`, `y_head`, `weights_head` numbers apart, those of keys and values
  // `step`. All heads of some keys are taken before the next keys, in the order in which they lie in memory, and
  // meanwhile those at `next` are fetched into the cache, keys or values of the same steps that are read later, or
  // null.
  struct Heads {
    size_t count, rows;  // G, R
    size_t step;         // of keys or values
    const void* next;
  };
  // scores [g, r, key] = sum over depth of q[g, r, .] k[key, g, .] for `keys` keys, each `key_step` numbers apart. q
  // f32, rows of a head `depth` apart.
  void (*scores[kRowStorages])(float* scores, size_t scores_head, size_t scores_row, const float* q, size_t q_head,
                               Heads heads, const void* k, size_t key_step, size_t keys, size_t depth);
  // y [g, r, width] += sum over keys of weights[g, r, key] v[key, g, .], one key after the other.
  void (*mix[kRowStorages])(float* y, size_t y_head, size_t y_row, const float* weights, size_t weights_head,
                            size_t weights_row, Heads heads, const void* v, size_t value_step, size_t keys,
                            size_t width);
};

const RowProducts& row_products();

namespace portable {
void fill_row_products(RowProducts& table);
}
namespace avx2 {
void fill_row_products(RowProducts& table);
}
namespace avx512 {
void fill_row_products(RowProducts& table);
}

}  // namespace transom::cpu

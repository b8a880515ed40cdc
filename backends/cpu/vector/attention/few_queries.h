// SPDX-License-Identifier: Apache-2.0
// Attention of a few queries to many keys, as decoding has it: bound by the reading of keys and values, which lie in
// rows of any floating type. The sources are compiled once for each instruction set; few_queries() is the table for the
// best one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// n rows of keys or values of one head, `stride` elements from row to row.
struct StoredRows {
  const void* first;
  enum Type { kF32, kBF16, kF16 } type;
  size_t stride, n, width;
};

struct FewQueries {
  // scores[i, s] = q[i] k[s] for the rows of q [count, width]; scores have `row` numbers from row to row.
  void (*scores)(float* scores, size_t row, const float* q, size_t count, const StoredRows& keys);
  // y[i] = sum over s of weights[i, s] v[s], in order of s; y [count, width]. Rows that count many are read once for
  // all of them, and each of y has the bits that it has alone.
  void (*mix)(float* y, const float* weights, size_t row, size_t count, const StoredRows& values);
};

const FewQueries& few_queries();

namespace portable {
void fill_few_queries(FewQueries& table);
}
namespace avx2 {
void fill_few_queries(FewQueries& table);
}
namespace avx512 {
void fill_few_queries(FewQueries& table);
}

}  // namespace transom::cpu

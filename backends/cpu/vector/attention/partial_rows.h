// SPDX-License-Identifier: Apache-2.0
// Rows of attention to some of the keys, whose softmax is joined with that of the others. The sources are compiled once
// for each instruction set; partial_rows() is the table for the best one.
#pragma once

#include <cstddef>

namespace transom::cpu {

struct PartialRows {
  // Scores x = cap tanh(x scale / cap) + bias, without the cap where it is 0, become the weights of their softmax;
  // gives the largest score and the sum of e^(score - largest). bias may be null.
  void (*statistics)(float* x, const float* bias, float scale, float cap, size_t n, float* largest, float* sum);
  // The same with a softmax of which these are given.
  void (*weights)(float* x, const float* bias, float scale, float cap, size_t n, float largest, float sum);
};

const PartialRows& partial_rows();

namespace portable {
void fill_partial_rows(PartialRows& table);
}
namespace avx2 {
void fill_partial_rows(PartialRows& table);
}
namespace avx512 {
void fill_partial_rows(PartialRows& table);
}

}  // namespace transom::cpu

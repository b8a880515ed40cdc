// SPDX-License-Identifier: Apache-2.0
// Element-by-element kernels over operands with numpy broadcasting (dims of size 1, or missing slow dims).
#pragma once

#include <algorithm>
#include <array>

#include "kernel.h"
#include "numbers.h"
#include "threads.h"

namespace synapse_emulator {

// The input broadcasts to the output: checked when compiling.
void require_broadcast(const Node& node, const Operand& input, const Operand& output, const char* what);

// A loop nest over the output's elements with the strides of N operands in each dim; neighbouring dims are joined.
template <size_t N>
struct Nest {
  int rank = 0;
  std::array<int64_t, kMostDims> size{};
  std::array<std::array<int64_t, N>, kMostDims> stride{};

  Nest(const Sizes& output, const std::array<const Sizes*, N>& operands) {
    std::array<int64_t, N> step;
    step.fill(1);
    for (int dim = 0; dim < output.rank; ++dim) {
      std::array<int64_t, N> now;
      for (size_t i = 0; i < N; ++i) {
        const int64_t extent = (*operands[i])[dim];
        now[i] = extent == 1 && output[dim] != 1 ? 0 : step[i];
        step[i] *= extent;
      }
      if (output[dim] == 1 && rank > 0) continue;
      bool joins = rank > 0;
      for (size_t i = 0; joins && i < N; ++i)
        joins = now[i] == stride[static_cast<size_t>(rank - 1)][i] * size[static_cast<size_t>(rank - 1)];
      if (joins) {
        size[static_cast<size_t>(rank - 1)] *= output[dim];
      } else {
        size[static_cast<size_t>(rank)] = output[dim];
        stride[static_cast<size_t>(rank)] = now;
        ++rank;
      }
    }
    if (rank == 0) {
      rank = 1;
      size[0] = 1;
    }
  }
  int64_t rows() const {
    int64_t count = 1;
    for (int dim = 1; dim < rank; ++dim) count *= size[static_cast<size_t>(dim)];
    return count;
  }
  // Where row `row` begins in operand i.
  std::array<int64_t, N> begin(int64_t row) const {
    std::array<int64_t, N> place{};
    for (int dim = 1; dim < rank; ++dim) {
      const int64_t index = row % size[static_cast<size_t>(dim)];
      row /= size[static_cast<size_t>(dim)];
      for (size_t i = 0; i < N; ++i) place[i] += index * stride[static_cast<size_t>(dim)][i];
    }
    return place;
  }
};

// out = f(in...): f(const Value* const* in, Value* out, count), values loaded as In and stored from Out.
template <typename In, typename Out, size_t N, typename F>
void map_elements(const Operand& output, const std::array<const Operand*, N>& inputs, const F& f) {
  constexpr int64_t kBlock = 512;
  std::array<const Sizes*, N + 1> sizes;
  for (size_t i = 0; i < N; ++i) sizes[i] = &inputs[i]->sizes;
  sizes[N] = &output.sizes;
  const Nest<N + 1> nest(output.sizes, sizes);
  const int64_t width = nest.size[0], blocks = (width + kBlock - 1) / kBlock;
  parallel_for(nest.rows() * blocks, std::max<int64_t>(1, 16384 / std::min(width, kBlock)),
               [&](int64_t from, int64_t to) {
                 In loaded[N][kBlock];
                 Out result[kBlock];
                 for (int64_t piece = from; piece < to; ++piece) {
                   const auto place = nest.begin(piece / blocks);
                   const int64_t column = piece % blocks * kBlock, count = std::min(kBlock, width - column);
                   std::array<const In*, N> in;
                   for (size_t i = 0; i < N; ++i) {
                     const int64_t step = nest.stride[0][i];
                     if (step == 0) {
                       load<In>(inputs[i]->type, inputs[i]->data, place[i], 1, 1, loaded[i]);
                       std::fill(loaded[i] + 1, loaded[i] + count, loaded[i][0]);
                     } else {
                       load<In>(inputs[i]->type, inputs[i]->data, place[i] + column * step, step, count, loaded[i]);
                     }
                     in[i] = loaded[i];
                   }
                   f(in, result, count);
                   store<Out>(output.type, output.data, place[N] + column, 1, count, result);
                 }
               });
}

}  // namespace synapse_emulator

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/device/memory.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/kernel.h"

namespace transom::cpu {

// Where the states of the tokens are, in a pool of `rows` rows of `width` numbers.
struct PagedRows {
  int64_t tokens, rows, width;
  size_t first;  // of the inputs `from` and `to`

  void expect_inside(const Arguments& arguments) const {
    const auto* from = arguments.input<int64_t>(first);
    for (int64_t n = 0; n < tokens; ++n)
      if (from[n] >= rows)
        fail(TRANSOM_INVALID_ARGUMENT, "expected a state in one of {} rows, found row {}", rows, from[n]);
  }
  void copy_pool(const Arguments& arguments, size_t input) const {
    const std::byte* x = arguments.inputs[input];
    std::byte* y = arguments.outputs[0];
    if (x == y) return;
    parallel_ranges(rows * width * static_cast<int64_t>(sizeof(float)), 1 << 18, [&](int64_t begin, int64_t end) {
      std::memcpy(y + begin, x + begin, static_cast<size_t>(end - begin));
    });
  }
  // The numbers [begin, end) of the state that token n goes on from, where it is to leave them; in `nowhere` if that is
  // nowhere.
  float* state(const Arguments& arguments, int64_t n, int64_t begin, int64_t end, float* nowhere) const {
    const int64_t from = arguments.input<int64_t>(first)[n], to = arguments.input<int64_t>(first + 1)[n];
    auto* pool = arguments.output<float>(0);
    float* state = to >= 0 && to < rows ? pool + to * width + begin : nowhere;
    if (from < 0) std::fill_n(state, end - begin, 0.0f);
    else if (from != to) std::copy_n(pool + from * width + begin, end - begin, state);
    return state;
  }
};

}  // namespace transom::cpu

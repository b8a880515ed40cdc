// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/step_shape.h"

#include <algorithm>
#include <bit>

namespace transom {

int64_t rounded_tokens(int64_t tokens) {
  if (tokens <= 16) return std::max<int64_t>(tokens, 1);
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens - 1))) / 4;
  return (tokens + step - 1) / step * step;
}

int64_t floor_tokens(int64_t tokens) {
  if (tokens <= 16) return std::max<int64_t>(tokens, 1);
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens))) / 2;
  return tokens / step * step;
}

int64_t rounded_scored(int64_t scored, int64_t tokens) {
  const int64_t all = rounded_tokens(tokens);
  if (scored >= tokens) return all;
  if (scored <= 16)
    return std::min(all, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(scored, 1)))));
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(scored - 1))) / 2;
  return std::min(all, (scored + step - 1) / step * step);
}

int64_t rounded_blocks(int64_t blocks) {
  int64_t rounded = 16;
  while (rounded < blocks) rounded *= 4;
  return rounded;
}

}  // namespace transom

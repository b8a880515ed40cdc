// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>

#include "transom/ops.h"

namespace transom {

inline Axes all_axes(const Tensor& x) {
  Axes axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return axes;
}

}  // namespace transom

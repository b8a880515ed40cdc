// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/products/windows.h"

#include <algorithm>

#include "base/error.h"

namespace transom::onnx {

int64_t Windows::extent(size_t i, int64_t x) const {
  const int64_t room = x + low[i] + high[i] - covered(i);
  if (room < 0) return 0;
  if (!ceil_mode) return room / strides[i] + 1;
  int64_t count = (room + strides[i] - 1) / strides[i] + 1;
  // A window that begins in the padding behind the input is left out.
  if ((count - 1) * strides[i] >= x + low[i]) --count;
  return count;
}

Windows Windows::of(const Call& call, const Shape& x, std::vector<int64_t> window, bool ceil_mode) {
  const size_t spatial = x.size() < 2 ? 0 : x.size() - 2;
  Windows w;
  w.ceil_mode = ceil_mode;
  w.window = std::move(window);
  w.strides = call.integers("strides", std::vector<int64_t>(spatial, 1));
  w.dilations = call.integers("dilations", std::vector<int64_t>(spatial, 1));
  const std::vector<int64_t> pads = call.integers("pads", std::vector<int64_t>(2 * spatial, 0));
  call.require(spatial > 0 && w.window.size() == spatial && w.strides.size() == spatial &&
                   w.dilations.size() == spatial && pads.size() == 2 * spatial,
               "kernel_shape, strides, dilations and pads must have a number for each spatial axis");
  const int64_t far = int64_t{1} << 30;
  for (const auto* numbers : {&w.window, &w.strides, &w.dilations})
    for (const int64_t number : *numbers) call.require(number >= 1 && number < far, "a window is impossible");
  for (const int64_t number : pads) call.require(number >= 0 && number < far, "negative pads are not supported");
  w.low.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(spatial));
  w.high.assign(pads.begin() + static_cast<ptrdiff_t>(spatial), pads.end());
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (automatic == "VALID") {
    std::fill(w.low.begin(), w.low.end(), 0);
    std::fill(w.high.begin(), w.high.end(), 0);
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t output = (x[i + 2] + w.strides[i] - 1) / w.strides[i];
      const int64_t needed = std::max<int64_t>((output - 1) * w.strides[i] + w.covered(i) - x[i + 2], 0);
      w.low[i] = automatic == "SAME_UPPER" ? needed / 2 : needed - needed / 2;
      w.high[i] = needed - w.low[i];
    }
  } else {
    call.require(automatic == "NOTSET" || automatic.empty(), "auto_pad is unknown");
  }
  return w;
}

}  // namespace transom::onnx

// SPDX-License-Identifier: Apache-2.0
// Average and maximum pooling of [W, H, C, N]; the sizes of the output say how windows at the end count.
#include <algorithm>

#include "elementwise.h"

namespace synapse_emulator {
namespace {

void check_window(const Node& node, const PoolingParams& p) {
  const Operand &x = node.input(0), &y = node.output(0);
  require_type(node, x, node.type, "x");
  require_type(node, y, node.type, "y");
  require(x.sizes.rank == 4 && y.sizes.rank == 4, node, "operands have four dims");
  require(x.sizes[2] == y.sizes[2] && x.sizes[3] == y.sizes[3], node, "y ", text_of(y.sizes), " for x ",
          text_of(x.sizes));
  require(p.kernel_w > 0 && p.kernel_h > 0 && p.stride_w > 0 && p.stride_h > 0 && p.dilation_w > 0 && p.dilation_h > 0,
          node, "windows, strides and dilations are positive");
  const auto fits = [&](int64_t in, int64_t out, int64_t padding, int64_t kernel, int64_t stride, int64_t dilation) {
    const int64_t free = in + padding - dilation * (kernel - 1) - 1;
    return free >= 0 && (out == free / stride + 1 || out == (free + stride - 1) / stride + 1);
  };
  require(fits(x.sizes[0], y.sizes[0], p.pad_w_begin + p.pad_w_end, p.kernel_w, p.stride_w, p.dilation_w) &&
              fits(x.sizes[1], y.sizes[1], p.pad_h_begin + p.pad_h_end, p.kernel_h, p.stride_h, p.dilation_h),
          node, "y ", text_of(y.sizes), " does not fit x ", text_of(x.sizes));
}

// f(values inside, cells of the window that padding does not exceed)
template <typename F>
void for_windows(const Node& node, const PoolingParams& p, const F& f) {
  const Operand &x = node.input(0), &y = node.output(0);
  const int64_t width = x.sizes[0], height = x.sizes[1], plane = width * height;
  std::vector<float> image(static_cast<size_t>(plane)), inside;
  for (int64_t image_index = 0; image_index < x.sizes[2] * x.sizes[3]; ++image_index) {
    load<float>(x.type, x.data, image_index * plane, 1, plane, image.data());
    for (int64_t oy = 0; oy < y.sizes[1]; ++oy) {
      for (int64_t ox = 0; ox < y.sizes[0]; ++ox) {
        inside.clear();
        int64_t cells = 0;
        for (int64_t r = 0; r < p.kernel_h; ++r) {
          for (int64_t s = 0; s < p.kernel_w; ++s) {
            const int64_t iy = oy * p.stride_h - p.pad_h_begin + r * p.dilation_h;
            const int64_t ix = ox * p.stride_w - p.pad_w_begin + s * p.dilation_w;
            cells += iy < height + p.pad_h_end && ix < width + p.pad_w_end;
            if (iy >= 0 && iy < height && ix >= 0 && ix < width)
              inside.push_back(image[static_cast<size_t>(iy * width + ix)]);
          }
        }
        const float value = f(inside, cells);
        store<float>(y.type, y.data, (image_index * y.sizes[1] + oy) * y.sizes[0] + ox, 1, 1, &value);
      }
    }
  }
}

void check_average(const Node& node) {
  require_counts(node, 1, 1, 1, 1);
  check_window(node, params_of<AveragePoolingParams>(node).window);
}
void run_average(const Node& node) {
  const auto params = params_of<AveragePoolingParams>(node);
  for_windows(node, params.window, [&](const std::vector<float>& inside, int64_t cells) {
    float sum = 0;
    for (const float value : inside) sum += value;
    return sum / static_cast<float>(params.include_padding ? cells : static_cast<int64_t>(inside.size()));
  });
}
void check_maximum(const Node& node) {
  require_counts(node, 1, 1, 1, 1);
  check_window(node, params_of<PoolingParams>(node));
}
void run_maximum(const Node& node) {
  for_windows(node, params_of<PoolingParams>(node), [](const std::vector<float>& inside, int64_t) {
    float largest = -INFINITY;
    for (const float value : inside) largest = std::isnan(value) || value > largest ? value : largest;
    return largest;
  });
}

}  // namespace

void add_pooling(KernelTable& table) {
  table.add({"avg_pool_2d_fwd", Engine::kTpc, kFloats, check_average, run_average, nullptr, false});
  table.add({"maxpool_2d_fwd", Engine::kTpc, kFloats, check_maximum, run_maximum, nullptr, false});
}

}  // namespace synapse_emulator

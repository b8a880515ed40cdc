// SPDX-License-Identifier: Apache-2.0
// Convolutions of many channels and their gradients, as products over matrix units, against float64 loops: strides,
// padding, dilations, groups, a depth of several parts.
#include "gpu_device.h"

namespace transom::backend_test {
namespace {

struct Case {
  transom_dtype dtype;
  int64_t batch, channels, outputs, groups, height, width, tap_rows, tap_columns, stride, low, dilation;
  int64_t out(int64_t extent, int64_t taps) const { return (extent + 2 * low - dilation * (taps - 1) - 1) / stride + 1; }
};

class GpuConvolutionTiles : public OnEachMatrixUnit {};

// Calls add(x index, w index, y index) for every product.
template <typename Add>
void for_each_product(const Case& c, Add&& add) {
  const int64_t rows = c.out(c.height, c.tap_rows), columns = c.out(c.width, c.tap_columns),
                each = c.channels / c.groups;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.outputs; ++o)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          for (int64_t ch = 0; ch < each; ++ch)
            for (int64_t a = 0; a < c.tap_rows; ++a)
              for (int64_t b = 0; b < c.tap_columns; ++b) {
                const int64_t y = i * c.stride - c.low + a * c.dilation, x = j * c.stride - c.low + b * c.dilation;
                if (y < 0 || y >= c.height || x < 0 || x >= c.width) continue;
                const int64_t channel = o / (c.outputs / c.groups) * each + ch;
                add(static_cast<size_t>(((n * c.channels + channel) * c.height + y) * c.width + x),
                    static_cast<size_t>(((o * each + ch) * c.tap_rows + a) * c.tap_columns + b),
                    static_cast<size_t>(((n * c.outputs + o) * rows + i) * columns + j));
              }
}

TEST_P(GpuConvolutionTiles, AndGradientsOfAnyGeometry) {
  for (const Case& c : {Case{TRANSOM_FLOAT32, 2, 9, 10, 1, 9, 7, 3, 3, 1, 1, 1},
                        Case{TRANSOM_FLOAT32, 1, 16, 24, 2, 8, 9, 3, 2, 2, 2, 2},
                        Case{TRANSOM_BFLOAT16, 2, 8, 70, 1, 7, 8, 3, 3, 2, 1, 1},
                        Case{TRANSOM_FLOAT16, 1, 16, 16, 1, 66, 66, 1, 1, 1, 0, 1}}) {
    const int64_t rows = c.out(c.height, c.tap_rows), columns = c.out(c.width, c.tap_columns);
    const Shape in{c.batch, c.channels, c.height, c.width}, out{c.batch, c.outputs, rows, columns},
        window{c.outputs, c.channels / c.groups, c.tap_rows, c.tap_columns};
    const Tensor x = numbers(c.dtype, in, -1, 1), w = numbers(c.dtype, window, -1, 1, 2),
                 dy = numbers(c.dtype, out, -1, 1, 3);
    std::vector<double> y(dy.values.size()), dx(x.values.size()), dw(w.values.size());
    for_each_product(c, [&](size_t of_x, size_t of_w, size_t of_y) {
      y[of_y] += x.values[of_x] * w.values[of_w];
      dx[of_x] += dy.values[of_y] * w.values[of_w];
      dw[of_w] += x.values[of_x] * dy.values[of_y];
    });
    const std::vector<Attribute> attributes{{"strides", Shape{c.stride, c.stride}},
                                            {"low", Shape{c.low, c.low}},
                                            {"high", Shape{c.low, c.low}},
                                            {"dilations", Shape{c.dilation, c.dilation}},
                                            {"groups", c.groups}};
    const double bound = tolerance(c.dtype) * 4;
    EXPECT_LT(difference(run("convolution", {x, w}, {{c.dtype, out}}, attributes)[0], y), bound);
    EXPECT_NE(description_.find("64x64"), std::string::npos) << description_;
    EXPECT_LT(difference(run("convolution_input_gradient", {dy, w}, {{c.dtype, in}}, attributes)[0], dx), bound);
    EXPECT_LT(difference(run("convolution_weight_gradient", {x, dy}, {{c.dtype, window}}, attributes)[0], dw), bound);
    if (c.height == 66) EXPECT_NE(description_.find("sum of parts"), std::string::npos) << description_;
  }
}

INSTANTIATE_TEST_SUITE_P(Units, GpuConvolutionTiles, testing::ValuesIn(kMatrixUnitDevices));

}  // namespace
}  // namespace transom::backend_test

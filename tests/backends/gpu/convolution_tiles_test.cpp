// SPDX-License-Identifier: Apache-2.0
// Convolutions of many channels and their gradients, as products over matrix units, against float64 loops: strides,
// padding, dilations, groups, a depth of several parts; and by the vendors' libraries.
#include "gpu_device.h"
#include "support/folders.h"

namespace transom::backend_test {
namespace {

struct ImageCase {
  transom_dtype dtype;
  int64_t batch, channels, outputs, groups, height, width, tap_rows, tap_columns, stride, low, dilation;
  int64_t out(int64_t extent, int64_t taps) const {
    return (extent + 2 * low - dilation * (taps - 1) - 1) / stride + 1;
  }
};

class GpuConvolutionTiles : public OnEachMatrixUnit {};

// The same by the look-alikes of cuDNN and MIOpen.
class GpuConvolutionLibrary : public OnEachMatrixUnit {
 protected:
  void SetUp() override {
    const std::string folder = test::build_folder() + "/emulators/";
    ::setenv("TRANSOM_CUDNN_LIBRARY", (folder + "libcuda.so.1").c_str(), 1);
    ::setenv("TRANSOM_MIOPEN_LIBRARY", (folder + "libamdhip64.so").c_str(), 1);
    OnEachMatrixUnit::SetUp();
  }
  void TearDown() override {
    ::unsetenv("TRANSOM_CUDNN_LIBRARY"), ::unsetenv("TRANSOM_MIOPEN_LIBRARY");
    OnEachMatrixUnit::TearDown();
  }
};

// Calls add(x index, w index, y index) for every product.
template <typename Add>
void for_each_term(const ImageCase& c, Add&& add) {
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

std::vector<Attribute> attributes_of_images(const ImageCase& c) {
  return {{"strides", Shape{c.stride, c.stride}},
          {"low", Shape{c.low, c.low}},
          {"high", Shape{c.low, c.low}},
          {"dilations", Shape{c.dilation, c.dilation}},
          {"groups", c.groups}};
}

// Calls check(operation, inputs, output type, expected) for a convolution and its gradients.
template <typename Check>
void for_each_kind(const ImageCase& c, Check&& check) {
  const int64_t rows = c.out(c.height, c.tap_rows), columns = c.out(c.width, c.tap_columns);
  const Shape in{c.batch, c.channels, c.height, c.width}, out{c.batch, c.outputs, rows, columns},
      window{c.outputs, c.channels / c.groups, c.tap_rows, c.tap_columns};
  const Tensor x = numbers(c.dtype, in, -1, 1), w = numbers(c.dtype, window, -1, 1, 2),
               dy = numbers(c.dtype, out, -1, 1, 3);
  std::vector<double> y(dy.values.size()), dx(x.values.size()), dw(w.values.size());
  for_each_term(c, [&](size_t of_x, size_t of_w, size_t of_y) {
    y[of_y] += x.values[of_x] * w.values[of_w];
    dx[of_x] += dy.values[of_y] * w.values[of_w];
    dw[of_w] += x.values[of_x] * dy.values[of_y];
  });
  check("convolution", {x, w}, out, y);
  check("convolution_input_gradient", {dy, w}, in, dx);
  check("convolution_weight_gradient", {x, dy}, window, dw);
}

const ImageCase kImageCases[] = {{TRANSOM_FLOAT32, 2, 9, 10, 1, 9, 7, 3, 3, 1, 1, 1},
                                 {TRANSOM_FLOAT32, 1, 16, 24, 2, 8, 9, 3, 2, 2, 2, 2},
                                 {TRANSOM_BFLOAT16, 2, 8, 70, 1, 7, 8, 3, 3, 2, 1, 1},
                                 {TRANSOM_FLOAT16, 1, 16, 16, 1, 66, 66, 1, 1, 1, 0, 1}};

TEST_P(GpuConvolutionTiles, AndGradientsOfAnyGeometry) {
  for (const ImageCase& c : kImageCases)
    for_each_kind(c, [&](const char* op, const std::vector<Tensor>& inputs, const Shape& shape,
                         const std::vector<double>& expected) {
      const Tensor found = run(op, inputs, {{c.dtype, shape}}, attributes_of_images(c))[0];
      EXPECT_LT(difference(found, expected), tolerance(c.dtype) * 4) << op;
      EXPECT_NE(description_.find("64x64"), std::string::npos) << description_;
    });
  EXPECT_NE(description_.find("sum of parts"), std::string::npos) << description_;
}

TEST_P(GpuConvolutionLibrary, ComputesThemWithTheSameBitsAtEveryRun) {
  for (const ImageCase& c : kImageCases)
    for_each_kind(c, [&](const char* op, const std::vector<Tensor>& inputs, const Shape& shape,
                         const std::vector<double>& expected) {
      const Tensor found = run(op, inputs, {{c.dtype, shape}}, attributes_of_images(c))[0];
      EXPECT_LT(difference(found, expected), tolerance(c.dtype) * 4) << op;
      EXPECT_NE(description_.find(std::string(GetParam().plugin) == "cuda" ? "cudnn" : "miopen"), std::string::npos)
          << description_;
      EXPECT_EQ(run(op, inputs, {{c.dtype, shape}}, attributes_of_images(c))[0].values, found.values) << op;
    });
}

// One end padded more than the other, which these libraries do not: as many results as they would make, or not.
TEST_P(GpuConvolutionLibrary, TakesOneSidedPaddingOnlyWhereItIsNotRead) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {1, 8, 6, 6}, -1, 1), w = numbers(TRANSOM_FLOAT32, {8, 8, 3, 3}, -1, 1, 2);
  for (const bool read : {false, true}) {
    const int64_t out = read ? 5 : 2, stride = read ? 1 : 3;
    const std::vector<Attribute> attributes{{"strides", Shape{stride, stride}},
                                            {"low", Shape{0, 0}},
                                            {"high", Shape{1, 1}},
                                            {"dilations", Shape{1, 1}},
                                            {"groups", 1}};
    run("convolution", {x, w}, {{TRANSOM_FLOAT32, {1, 8, out, out}}}, attributes);
    EXPECT_EQ(description_.find("64x64") == std::string::npos, !read) << description_;
  }
}

INSTANTIATE_TEST_SUITE_P(Units, GpuConvolutionTiles, testing::ValuesIn(kMatrixUnitDevices), NameOfMatrixUnit());
INSTANTIATE_TEST_SUITE_P(Libraries, GpuConvolutionLibrary,
                         testing::Values(MatrixUnitDevice{"cuda", ""}, MatrixUnitDevice{"rocm", "gfx942"}),
                         NameOfMatrixUnit());

}  // namespace
}  // namespace transom::backend_test

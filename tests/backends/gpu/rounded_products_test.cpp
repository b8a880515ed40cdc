// SPDX-License-Identifier: Apache-2.0
// Products of packed weights with inputs rounded to bytes, and convolutions of bytes, on the emulated devices of every
// kind of matrix unit, against float64.
#include <cmath>
#include <limits>

#include "gpu_device.h"
#include "packed_weight.h"

namespace transom::backend_test {
namespace {

class GpuRoundedProducts : public OnEachMatrixUnit {};

// A row of x as packed_matrix.h says. Steps are found in f32: where f32 and f64 differ, x lies between two steps.
void round_inputs(std::vector<double>& x, int64_t depth, const std::string& activations) {
  const bool by_row = activations == "int8_token";
  const int64_t size = by_row ? depth : 32;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(depth))
    for (int64_t first = 0; first < depth; first += size) {
      std::vector<float> left, made;
      for (int64_t k = first; k < std::min(first + size, depth); ++k)
        left.push_back(static_cast<float>(x[row + static_cast<size_t>(k)])), made.push_back(0);
      for (int piece = 0; piece < (activations == "int16" ? 2 : 1); ++piece) {
        float most = 0;
        for (const float v : left) most = std::max(most, std::fabs(v));
        const float scale = most / (by_row ? 127.5f : 127.0f);
        for (size_t i = 0; i < left.size(); ++i) {
          const float step = std::fmin(std::fmax(std::nearbyint(scale == 0 ? 0 : left[i] / scale), -128.0f), 127.0f);
          made[i] += scale * step, left[i] -= scale * step;
        }
      }
      for (size_t i = 0; i < made.size(); ++i) x[row + static_cast<size_t>(first) + i] = static_cast<double>(made[i]);
    }
}

// Of two that are as near the one whose last bit is 0.
double nearest_float8(float x) {
  size_t best = 0;
  for (size_t code = 0; code < 127; ++code) {
    const float one = std::fabs(float8_values()[code] - std::fabs(x)),
                other = std::fabs(float8_values()[best] - std::fabs(x));
    if (one < other || (one == other && code % 2 == 0)) best = code;
  }
  return static_cast<double>(std::copysign(float8_values()[best], x));
}

TEST_P(GpuRoundedProducts, OfPackedWeights) {
  for (const std::string activations : {"int8", "int16", "int8_token"})
    for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16})
      for (const int64_t bits : {4, 8})
        for (const int kind : {0, 1, 2, 3})
          for (const int64_t rows : {5, 70}) {
            if (dtype == TRANSOM_BFLOAT16 && rows > 5) continue;
            const bool minima = kind == 1 || kind == 3;
            const PackedWeight w(bits, 70, 136, kind == 1 ? 16 : kind == 3 ? 64 : 32, minima, kind == 2);
            Tensor x = numbers(dtype, {rows, w.depth});
            for (int64_t k = 0; k < w.depth; ++k) x.values[static_cast<size_t>(w.depth + k)] = 0;
            const Tensor bias = numbers(dtype, {w.rows}, -1, 1, 3);
            std::vector<double> rounded = x.values, expected;
            round_inputs(rounded, w.depth, activations);
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t n = 0; n < w.rows; ++n) {
                expected.push_back(bias.values[static_cast<size_t>(n)]);
                for (int64_t k = 0; k < w.depth; ++k)
                  expected.back() += rounded[static_cast<size_t>(i * w.depth + k)] * w.at(n, k);
              }
            std::vector<Tensor> inputs = w.parts(x);
            inputs.push_back(bias);
            const Tensor found =
                run("quantized_matmul", inputs, {{dtype, {rows, w.rows}}}, w.attributes(true, activations))[0];
            // Codes of a byte with minima make sums of thousands that nearly cancel.
            const double bound = minima && bits == 8 ? 2e-4 : 5e-5;
            EXPECT_LT(difference(found, expected), dtype == TRANSOM_FLOAT32 ? bound : tolerance(dtype))
                << activations << ", " << bits << " bits, kind " << kind << ", type " << dtype << ", rows " << rows;
            EXPECT_NE(description_.find(kind == 2 ? "round" : "product of bytes"), std::string::npos) << description_;
          }
}

// Where the chip has units for them; elsewhere it is no operation of the device.
TEST_P(GpuRoundedProducts, OfFloat8) {
  const std::string plugin = GetParam().plugin, chip = GetParam().chip;
  const bool has_units = plugin == "cuda" || chip == "gfx942";
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16})
    for (const int64_t rows : {1, 5, 70}) {
      PackedWeight w(8, 70, 139, 64, false, false);
      w.make_float8();
      Tensor x = numbers(dtype, {rows, w.depth}, -3, 3);
      for (int64_t k = 0; k < w.depth && rows > 1; ++k) x.values[static_cast<size_t>(w.depth + k)] = 0;
      const Tensor bias = numbers(dtype, {w.rows}, -1, 1, 3);
      std::vector<Tensor> inputs = w.parts(x);
      inputs.push_back(bias);
      Graph graph;
      std::vector<int> values;
      for (const Tensor& input : inputs) values.push_back(graph.input(input));
      graph.output(graph.node("quantized_matmul", values, dtype, {rows, w.rows}, w.attributes(true, "float8")));
      const transom_node& node = graph.view()->nodes[0];
      std::vector<transom_value> types;
      for (size_t i = 0; i < node.inputs_count; ++i) types.push_back(graph.view()->values[node.inputs[i]]);
      ASSERT_EQ(plugin_->table.claims(plugin_->device, node.op, types.data(), types.size(), node.attributes,
                                      node.attributes_count),
                has_units);
      if (!has_units) return;
      std::vector<double> expected;
      for (int64_t i = 0; i < rows; ++i) {
        const auto of_row = [&](int64_t k) {
          return static_cast<float>(x.values[static_cast<size_t>(i * w.depth + k)]);
        };
        float most = 0;
        for (int64_t k = 0; k < w.depth; ++k) most = std::max(most, std::fabs(of_row(k)));
        const float scale = most / 448;
        for (int64_t n = 0; n < w.rows; ++n) {
          expected.push_back(bias.values[static_cast<size_t>(n)]);
          for (int64_t k = 0; k < w.depth && scale > 0; ++k)
            expected.back() += nearest_float8(of_row(k) / scale) * static_cast<double>(scale) * w.at(n, k);
        }
      }
      const Tensor found = run("quantized_matmul", inputs, {{dtype, {rows, w.rows}}}, w.attributes(true, "float8"))[0];
      EXPECT_LT(difference(found, expected), dtype == TRANSOM_FLOAT32 ? 5e-5 : tolerance(dtype)) << rows;
      EXPECT_NE(description_.find("product of float8"), std::string::npos) << description_;
      const Tensor last = {dtype, {1, w.depth}, {x.values.end() - w.depth, x.values.end()}};
      inputs[0] = last;
      const Tensor alone = run("quantized_matmul", inputs, {{dtype, {1, w.rows}}}, w.attributes(true, "float8"))[0];
      EXPECT_EQ(alone.values, std::vector<double>(found.values.end() - w.rows, found.values.end())) << rows;
    }
}

TEST_P(GpuRoundedProducts, ARowHasTheBitsThatItHasAlone) {
  const PackedWeight w(4, 96, 160, 32, true, false);
  const Tensor x = numbers(TRANSOM_FLOAT32, {67, w.depth});
  const auto product = [&](const Tensor& of) {
    return run("quantized_matmul", w.parts(of), {{TRANSOM_FLOAT32, {of.shape[0], w.rows}}},
               w.attributes(false, "int8"))[0]
        .values;
  };
  const std::vector<double> all = product(x);
  EXPECT_EQ(product(x), all);
  EXPECT_EQ(product({TRANSOM_FLOAT32, {1, w.depth}, {x.values.end() - w.depth, x.values.end()}}),
            std::vector<double>(all.end() - w.rows, all.end()));
}

TEST_P(GpuRoundedProducts, WhatIsNotFiniteStaysInItsRow) {
  const PackedWeight w(8, 20, 64, 32, false, false);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const std::string activations : {"int8", "int8_token"}) {
      Tensor x = numbers(TRANSOM_FLOAT32, {3, w.depth});
      x.values[static_cast<size_t>(w.depth + 7)] = bad;
      const Tensor found =
          run("quantized_matmul", w.parts(x), {{TRANSOM_FLOAT32, {3, w.rows}}}, w.attributes(false, activations))[0];
      for (int64_t i = 0; i < 3 * w.rows; ++i)
        EXPECT_EQ(std::isnan(found.values[static_cast<size_t>(i)]), i / w.rows == 1) << bad << " " << activations;
    }
}

struct ByteImages {
  int64_t batch, channels, outputs, groups, height, width, taps, stride, low, high, dilation;
};

TEST_P(GpuRoundedProducts, ConvolutionsOfBytesAreExact) {
  for (const ByteImages& c : {ByteImages{2, 16, 24, 1, 9, 7, 3, 1, 1, 1, 1},
                              {1, 3, 40, 1, 13, 12, 5, 2, 2, 1, 1},
                              {1, 32, 32, 4, 8, 8, 3, 1, 2, 2, 2},
                              {2, 12, 12, 12, 9, 9, 3, 1, 1, 1, 1},
                              {1, 70, 66, 1, 6, 5, 1, 1, 0, 0, 1},
                              {1, 4, 4, 2, 5, 5, 3, 2, 3, 0, 1}})
    for (const auto& [dtype, zero] : {std::pair<transom_dtype, int64_t>{TRANSOM_UINT8, 0},
                                      {TRANSOM_UINT8, 131},
                                      {TRANSOM_UINT8, 255},
                                      {TRANSOM_INT8, 0},
                                      {TRANSOM_INT8, -7}}) {
      const int64_t each = c.channels / c.groups;
      const auto out = [&](int64_t extent) {
        return (extent + c.low + c.high - c.dilation * (c.taps - 1) - 1) / c.stride + 1;
      };
      const int64_t rows = out(c.height), columns = out(c.width);
      Tensor x{dtype, {c.batch, c.channels, c.height, c.width}, {}},
          w{TRANSOM_INT8, {c.outputs, each, c.taps, c.taps}, {}};
      for (int64_t i = 0; i < c.batch * c.channels * c.height * c.width; ++i)
        x.values.push_back(static_cast<double>(i * 89 % 256 - (dtype == TRANSOM_INT8 ? 128 : 0)));
      for (int64_t i = 0; i < c.outputs * each * c.taps * c.taps; ++i)
        w.values.push_back(static_cast<double>(i * 57 % 256 - 128));
      std::vector<double> expected;
      for (int64_t n = 0; n < c.batch; ++n)
        for (int64_t o = 0; o < c.outputs; ++o)
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j) {
              double sum = 0;
              for (int64_t k = 0; k < each; ++k)
                for (int64_t a = 0; a < c.taps; ++a)
                  for (int64_t b = 0; b < c.taps; ++b) {
                    const int64_t y = i * c.stride - c.low + a * c.dilation, z = j * c.stride - c.low + b * c.dilation;
                    if (y < 0 || y >= c.height || z < 0 || z >= c.width) continue;
                    const int64_t channel = n * c.channels + o / (c.outputs / c.groups) * each + k;
                    sum += (x.values[static_cast<size_t>((channel * c.height + y) * c.width + z)] -
                            static_cast<double>(zero)) *
                           w.values[static_cast<size_t>(((o * each + k) * c.taps + a) * c.taps + b)];
                  }
              expected.push_back(static_cast<double>(static_cast<float>(sum)));
            }
      const Shape twice_stride{c.stride, c.stride};
      EXPECT_EQ(run("integer_convolution", {x, w}, {{TRANSOM_FLOAT32, {c.batch, c.outputs, rows, columns}}},
                    {{"strides", twice_stride},
                     {"low", Shape{c.low, c.low}},
                     {"high", Shape{c.high, c.high}},
                     {"dilations", Shape{c.dilation, c.dilation}},
                     {"groups", c.groups},
                     {"zero_point", zero}})[0]
                    .values,
                expected)
          << c.channels << " to " << c.outputs << " channels, type " << dtype << ", zero point " << zero;
    }
}

INSTANTIATE_TEST_SUITE_P(Units, GpuRoundedProducts, testing::ValuesIn(kMatrixUnitDevices), NameOfMatrixUnit());

}  // namespace
}  // namespace transom::backend_test

// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of bytes: the sums of the same integers in float64, to the last bit, at every level of the
// processor, for weights that are kept and others, and for two who read one weight with other zero points.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/harness.h"
#include "support/test_names.h"

namespace transom::backend_test {
namespace {

struct Window {
  int64_t batch, channels, results, groups;
  Shape in, window, strides, low, high, dilations;

  Shape out() const {
    Shape shape;
    for (size_t i = 0; i < in.size(); ++i)
      shape.push_back((in[i] + low[i] + high[i] - (window[i] - 1) * dilations[i] - 1) / strides[i] + 1);
    return shape;
  }
  Shape x(bool last) const { return image(batch, channels, in, last); }
  Shape y(bool last) const { return image(batch, results, out(), last); }
  Shape w() const { return image(results, channels / groups, window, false); }
  std::vector<Attribute> attributes(int64_t zero_point) const {
    return {{"strides", strides},     {"low", low},       {"high", high},
            {"dilations", dilations}, {"groups", groups}, {"zero_point", zero_point}};
  }

 private:
  static Shape image(int64_t first, int64_t channels, const Shape& places, bool last) {
    Shape shape{first};
    if (!last) shape.push_back(channels);
    shape.insert(shape.end(), places.begin(), places.end());
    if (last) shape.push_back(channels);
    return shape;
  }
};

const Window kWindows[] = {
    {1, 64, 64, 1, {14, 14}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {2, 20, 1100, 1, {9, 7}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},  // one place, more columns than a task has
    {1, 68, 70, 1, {23, 17}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {2, 64, 128, 1, {15, 13}, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},  // a shortcut with a stride
    {2, 64, 64, 1, {28, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},   // bands of rows
    {3, 33, 70, 1, {7, 13}, {3, 3}, {1, 1}, {1, 0}, {0, 1}, {1, 1}},    // tiles that end beyond the image
    {1, 32, 48, 1, {17, 19}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {1, 3, 64, 1, {35, 31}, {7, 7}, {2, 2}, {3, 3}, {3, 2}, {1, 1}},      // the first layer of a ResNet
    {1, 3, 40, 1, {32, 32}, {16, 16}, {16, 16}, {0, 0}, {0, 0}, {1, 1}},  // patches
    {3, 20, 37, 1, {14, 9}, {3, 3}, {2, 1}, {0, 1}, {1, 1}, {1, 2}},      // odd sizes and a dilation
    {2, 32, 32, 32, {10, 11}, {7, 7}, {1, 1}, {3, 3}, {3, 3}, {1, 1}},    // depthwise
    {2, 64, 64, 4, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},       // groups
    {2, 12, 18, 3, {9, 9}, {3, 2}, {1, 2}, {1, 0}, {1, 1}, {2, 1}},
    {2, 16, 24, 1, {50}, {5}, {2}, {2}, {2}, {1}},
    {1, 4, 6, 1, {5, 6, 4}, {2, 3, 2}, {1, 1, 2}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}},
    {1, 8, 8, 1, {2, 40}, {3, 3}, {1, 1}, {4, 1}, {4, 1}, {1, 1}},  // rows of padding alone
    {0, 2, 3, 1, {5}, {3}, {1}, {1}, {1}, {1}},
};

int64_t volume(const Shape& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

// In float64, which holds every sum; then in f32, as the operation says.
std::vector<double> sums_of(const Window& c, const Tensor& x, const Tensor& w, double zero, bool last) {
  const int64_t in = volume(c.in), out = volume(c.out()), window = volume(c.window), each = c.channels / c.groups;
  std::vector<double> y(static_cast<size_t>(c.batch * c.results * out));
  const Shape out_extents = c.out();
  const auto place_of = [&](int64_t p, int64_t tap) {
    int64_t place = 0, step = 1;
    for (size_t axis = c.in.size(); axis-- > 0;) {
      const int64_t at =
          p % out_extents[axis] * c.strides[axis] + tap % c.window[axis] * c.dilations[axis] - c.low[axis];
      p /= out_extents[axis], tap /= c.window[axis];
      if (at < 0 || at >= c.in[axis]) return int64_t{-1};
      place += at * step, step *= c.in[axis];
    }
    return place;
  };
  const auto at = [last](int64_t n, int64_t channel, int64_t place, int64_t channels, int64_t places) {
    return static_cast<size_t>(last ? (n * places + place) * channels + channel
                                    : (n * channels + channel) * places + place);
  };
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.results; ++o)
      for (int64_t p = 0; p < out; ++p) {
        double sum = 0;
        for (int64_t tap = 0; tap < window; ++tap) {
          const int64_t place = place_of(p, tap);
          for (int64_t k = 0; place >= 0 && k < each; ++k)
            sum += (x.values[at(n, o / (c.results / c.groups) * each + k, place, c.channels, in)] - zero) *
                   w.values[static_cast<size_t>((o * each + k) * window + tap)];
        }
        y[at(n, o, p, c.results, out)] = static_cast<double>(static_cast<float>(sum));
      }
  return y;
}

Tensor bytes(transom_dtype dtype, Shape shape, uint64_t seed) {
  const bool is_unsigned = dtype == TRANSOM_UINT8;
  return numbers(dtype, std::move(shape), is_unsigned ? 0 : -128, is_unsigned ? 255 : 127, seed);
}

TEST(IntegerProducts, ConvolutionsAreExact) {
  for (const Window& c : kWindows)
    for (const bool last : {false, true})
      for (const auto& [dtype, zero] : std::initializer_list<std::pair<transom_dtype, int64_t>>{
               {TRANSOM_UINT8, 0}, {TRANSOM_UINT8, 131}, {TRANSOM_INT8, 0}, {TRANSOM_INT8, -7}}) {
        const Tensor x = bytes(dtype, c.x(last), 1), w = bytes(TRANSOM_INT8, c.w(), 2);
        const std::vector<double> expected = sums_of(c, x, w, static_cast<double>(zero), last);
        const char* op = last ? "channels_last_integer_convolution" : "integer_convolution";
        const auto where = [&, &dtype = dtype, &zero = zero] {
          return ::testing::Message() << op << " case " << &c - kWindows << " type " << dtype << " zero point " << zero;
        };
        EXPECT_EQ(evaluate(op, {x, w}, TRANSOM_FLOAT32, c.y(last), c.attributes(zero)).values, expected) << where();
        Graph graph;
        graph.output(
            graph.node(op, {graph.input(x), graph.input(w, true)}, TRANSOM_FLOAT32, c.y(last), c.attributes(zero)));
        Program program(Plugin::cpu(), graph);
        for (int run = 0; run < 2; ++run) EXPECT_EQ(program.run({x, w})[0].values, expected) << "frozen, " << where();
      }
}

// Large sums: all codes at their ends, so that pairs of products would saturate in 16 bits and sums pass 2^24.
TEST(IntegerProducts, TheLargestSumsDoNotSaturate) {
  for (const double sign : {-128.0, 127.0}) {
    for (const auto& [channels, extent] : {std::pair<int64_t, int64_t>{512, 5}, {1024, 12}}) {
      const Window c{1, channels, 32, 1, {extent, extent}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
      const auto size = static_cast<size_t>(volume(c.x(true)));
      const Tensor x = tensor(TRANSOM_UINT8, c.x(true), std::vector<double>(size, 255)),
                   w = tensor(TRANSOM_INT8, c.w(), std::vector<double>(static_cast<size_t>(volume(c.w())), sign));
      EXPECT_EQ(
          evaluate("channels_last_integer_convolution", {x, w}, TRANSOM_FLOAT32, c.y(true), c.attributes(0)).values,
          sums_of(c, x, w, 0, true));
    }
    const int64_t depth = int64_t{1} << 16;
    const Tensor row = tensor(TRANSOM_UINT8, {3, depth}, std::vector<double>(static_cast<size_t>(3 * depth), 255)),
                 wide = tensor(TRANSOM_INT8, {2, depth}, std::vector<double>(static_cast<size_t>(2 * depth), sign));
    const double sum = static_cast<double>(static_cast<float>(255 * sign * static_cast<double>(depth)));
    EXPECT_EQ(evaluate("integer_linear", {row, wide}, TRANSOM_FLOAT32, {3, 2}, {{"zero_point", 0}}).values,
              std::vector<double>(6, sum));
  }
}

std::vector<double> products_of(const Tensor& x, const Tensor& w, double zero) {
  const int64_t m = x.shape[0], k = x.shape[1], n = w.shape[0];
  std::vector<double> y;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += (x.values[static_cast<size_t>(i * k + l)] - zero) * w.values[static_cast<size_t>(j * k + l)];
      y.push_back(static_cast<double>(static_cast<float>(sum)));
    }
  return y;
}

TEST(IntegerProducts, LinearLayersAreExact) {
  for (const auto& [m, n, k] : std::initializer_list<std::array<int64_t, 3>>{{1, 16, 32},
                                                                             {1, 48, 19},
                                                                             {7, 100, 64},
                                                                             {16, 65, 128},
                                                                             {33, 17, 65},
                                                                             {197, 192, 192},
                                                                             {300, 70, 33},
                                                                             {17, 1600, 68},
                                                                             {131, 800, 260}})
    for (const auto& [dtype, zero] : std::initializer_list<std::pair<transom_dtype, int64_t>>{
             {TRANSOM_UINT8, 0}, {TRANSOM_UINT8, 131}, {TRANSOM_INT8, 0}, {TRANSOM_INT8, -7}}) {
      const Tensor x = bytes(dtype, {m, k}, 1), w = bytes(TRANSOM_INT8, {n, k}, 2);
      for (const bool frozen : {false, true}) {
        Graph graph;
        graph.output(graph.node("integer_linear", {graph.input(x), graph.input(w, frozen)}, TRANSOM_FLOAT32, {m, n},
                                {{"zero_point", zero}}));
        Program program(Plugin::cpu(), graph);
        EXPECT_EQ(program.run({x, w})[0].values, products_of(x, w, static_cast<double>(zero)))
            << m << " " << n << " " << k << " type " << dtype << " zero point " << zero;
      }
    }
}

TEST(IntegerProducts, AFusionBehindALinearLayerReadsAllOfTheSums) {
  for (const auto& [m, n, k] :
       std::initializer_list<std::array<int64_t, 3>>{{3, 70, 32}, {50, 96, 64}, {50, 1600, 32}, {131, 768, 64}}) {
    const Tensor x = bytes(TRANSOM_UINT8, {m, k}, 1), w = bytes(TRANSOM_INT8, {n, k}, 2);
    Graph inner;
    const int sums = inner.input(TRANSOM_FLOAT32, {m, n});
    inner.output(inner.node(
        "neg", {inner.node("neg", {inner.node("neg", {sums}, TRANSOM_FLOAT32, {m, n})}, TRANSOM_FLOAT32, {m, n})},
        TRANSOM_FLOAT32, {m, n}));
    Graph graph;
    const int y = graph.node("integer_linear", {graph.input(x), graph.input(w, true)}, TRANSOM_FLOAT32, {m, n},
                             {{"zero_point", 7}});
    graph.output(graph.fusion({y}, inner)[0]);
    Program program(Plugin::cpu(), graph);
    std::vector<double> expected = products_of(x, w, 7);
    for (double& value : expected) value = -value;
    for (int run = 0; run < 2; ++run) EXPECT_EQ(program.run({x, w})[0].values, expected) << m << " " << n << " " << k;
  }
}

// Two nodes with one frozen weight: what is packed with the weight depends on the zero point and on the sign of x.
TEST(IntegerProducts, TwoReadersOfOneWeightHaveTheirOwnCopies) {
  const Tensor unsigned_x = bytes(TRANSOM_UINT8, {5, 64}, 1), signed_x = bytes(TRANSOM_INT8, {5, 64}, 3),
               w = bytes(TRANSOM_INT8, {32, 64}, 2);
  Graph graph;
  const int a = graph.input(unsigned_x), b = graph.input(signed_x), weight = graph.input(w, true);
  const auto product = [&](int x, int zero) {
    graph.output(graph.node("integer_linear", {x, weight}, TRANSOM_FLOAT32, {5, 32}, {{"zero_point", zero}}));
  };
  product(a, 0), product(a, 10), product(b, 0), product(b, -3);
  Program program(Plugin::cpu(), graph);
  for (int run = 0; run < 2; ++run) {
    const std::vector<Tensor> y = program.run({unsigned_x, signed_x, w});
    EXPECT_EQ(y[0].values, products_of(unsigned_x, w, 0));
    EXPECT_EQ(y[1].values, products_of(unsigned_x, w, 10));
    EXPECT_EQ(y[2].values, products_of(signed_x, w, 0));
    EXPECT_EQ(y[3].values, products_of(signed_x, w, -3));
  }
  for (const int64_t extent : {1, 3}) {
    const Window c{
        1, 64, 64, 1, {9, 9}, {extent, extent}, {1, 1}, {extent / 2, extent / 2}, {extent / 2, extent / 2}, {1, 1}};
    const Tensor image = bytes(TRANSOM_UINT8, c.x(true), 1), signed_image = bytes(TRANSOM_INT8, c.x(true), 4),
                 filters = bytes(TRANSOM_INT8, c.w(), 2);
    Graph convolutions;
    const int first = convolutions.input(image), second = convolutions.input(signed_image),
              shared = convolutions.input(filters, true);
    for (const auto& [x, zero] : {std::pair{first, 0}, {first, 9}, {second, 0}, {second, -9}})
      convolutions.output(convolutions.node("channels_last_integer_convolution", {x, shared}, TRANSOM_FLOAT32,
                                            c.y(true), c.attributes(zero)));
    Program both(Plugin::cpu(), convolutions);
    for (int run = 0; run < 2; ++run) {
      const std::vector<Tensor> y = both.run({image, signed_image, filters});
      EXPECT_EQ(y[0].values, sums_of(c, image, filters, 0, true));
      EXPECT_EQ(y[1].values, sums_of(c, image, filters, 9, true));
      EXPECT_EQ(y[2].values, sums_of(c, signed_image, filters, 0, true));
      EXPECT_EQ(y[3].values, sums_of(c, signed_image, filters, -9, true));
    }
  }
}

// What reads the sums chunk by chunk (scales, a bias, the next layer's bytes) has the values of one after the other.
class FusionsBehindIntegers : public testing::TestWithParam<Window> {};
INSTANTIATE_TEST_SUITE_P(Windows, FusionsBehindIntegers,
                         testing::Values(Window{2, 64, 96, 1, {15, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                                         Window{2, 64, 96, 1, {15, 14}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
                                         Window{1, 20, 1100, 1, {9, 11}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
                                         // in several pieces, of all places and of every second one
                                         Window{1, 16, 256, 1, {21, 20}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
                                         Window{2, 68, 320, 1, {29, 27}, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}}),
                         [](const auto& info) {
                           const Window& w = info.param;
                           return test::words(w.channels, "to", w.results, "window", w.window[0], "stride",
                                              w.strides[0]);
                         });
TEST_P(FusionsBehindIntegers, ReadAllOfTheSums) {
  const Window c = GetParam();
  const Tensor x = bytes(TRANSOM_UINT8, c.x(true), 1), w = bytes(TRANSOM_INT8, c.w(), 2),
               scales = numbers(TRANSOM_FLOAT32, {c.results}, 1e-4, 2e-3, 5);
  const Shape full = c.y(true), row{1, 1, 1, c.results}, one(4, 1);
  Graph inner;
  const int sums = inner.input(TRANSOM_FLOAT32, full), scale = inner.input(scales);
  const auto spread = [&](int value, const Shape& shape) {
    const int shaped = inner.node("reshape", {value}, TRANSOM_FLOAT32, shape, {{"shape", shape}});
    return inner.node("broadcast", {shaped}, TRANSOM_FLOAT32, full);
  };
  const auto number = [&](double value) {
    return spread(inner.node("constant", {}, TRANSOM_FLOAT32, {}, {{"value", value}, {"dtype", TRANSOM_FLOAT32}}), one);
  };
  const int scaled_sums = inner.node("mul", {sums, spread(scale, row)}, TRANSOM_FLOAT32, full);
  const int whole = inner.node("round", {scaled_sums}, TRANSOM_FLOAT32, full);
  const int least = inner.node("max", {whole, number(0.0)}, TRANSOM_FLOAT32, full);
  const int most = inner.node("min", {least, number(255.0)}, TRANSOM_FLOAT32, full);
  inner.output(inner.node("cast", {most}, TRANSOM_UINT8, full, {{"dtype", TRANSOM_UINT8}}));
  Graph graph;
  const int y = graph.node("channels_last_integer_convolution", {graph.input(x), graph.input(w, true)}, TRANSOM_FLOAT32,
                           c.y(true), c.attributes(0));
  graph.output(graph.fusion({y, graph.input(scales)}, inner)[0]);
  Program program(Plugin::cpu(), graph);
  const std::vector<double> exact = sums_of(c, x, w, 0, true);
  std::vector<double> expected;
  for (size_t i = 0; i < exact.size(); ++i) {
    const float scaled = static_cast<float>(exact[i]) * static_cast<float>(scales.values[i % scales.values.size()]);
    expected.push_back(std::clamp(static_cast<double>(std::nearbyintf(scaled)), 0.0, 255.0));
  }
  ASSERT_EQ(program.error, "");
  for (int run = 0; run < 3; ++run) EXPECT_EQ(program.run({x, w, scales})[0].values, expected) << "run " << run;
}

}  // namespace
}  // namespace transom::backend_test

// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling with the channels last: the bits of those with the channels first. A fusion that reads a
// convolution chunk by chunk: the bits of both one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

Shape last(Shape shape) {
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return shape;
}

Tensor last(const Tensor& x) {
  const auto n = static_cast<size_t>(x.shape[0]), channels = static_cast<size_t>(x.shape[1]);
  const size_t places = x.values.size() / std::max<size_t>(n * channels, 1);
  Tensor result{x.dtype, last(x.shape), x.values};
  for (size_t i = 0; i < n; ++i)
    for (size_t c = 0; c < channels; ++c)
      for (size_t p = 0; p < places; ++p)
        result.values[(i * places + p) * channels + c] = x.values[(i * channels + c) * places + p];
  return result;
}

struct Case {
  int64_t batch, channels, results, groups;
  Shape in, window, strides, low, high, dilations;

  Shape out() const {
    Shape shape;
    for (size_t i = 0; i < in.size(); ++i)
      shape.push_back((in[i] + low[i] + high[i] - (window[i] - 1) * dilations[i] - 1) / strides[i] + 1);
    return shape;
  }
  static Shape joined(int64_t a, int64_t b, const Shape& rest) {
    Shape shape{a, b};
    shape.insert(shape.end(), rest.begin(), rest.end());
    return shape;
  }
  Shape x() const { return joined(batch, channels, in); }
  Shape w() const { return joined(results, channels / groups, window); }
  Shape y() const { return joined(batch, results, out()); }
  std::vector<Attribute> attributes() const {
    return {{"strides", strides}, {"low", low}, {"high", high}, {"dilations", dilations}, {"groups", groups}};
  }
};

const Case kCases[] = {
    {1, 64, 256, 1, {56, 56}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},  // bands of places
    {1, 64, 64, 1, {56, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},   // bands of rows
    {1, 64, 96, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},     // parts of the channels
    {1, 3, 64, 1, {75, 61}, {7, 7}, {2, 2}, {3, 3}, {3, 2}, {1, 1}},
    {3, 20, 37, 1, {14, 9}, {3, 3}, {2, 1}, {0, 1}, {1, 1}, {1, 2}},
    {2, 96, 96, 96, {30, 31}, {7, 7}, {1, 1}, {3, 3}, {3, 3}, {1, 1}},  // depthwise
    {2, 48, 48, 48, {14, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},  // depthwise: whole tiles, and one that overlaps
    {1, 20, 20, 20, {5, 4}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}},    // padding at both sides of a tile
    {2, 16, 16, 16, {3, 2}, {3, 5}, {1, 1}, {3, 1}, {3, 3}, {1, 1}},    // results that see padding alone, single ones
    {1, 33, 33, 33, {9, 10}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},   // dilation
    {1, 24, 24, 24, {40}, {9}, {1}, {4}, {4}, {1}},                     // one axis, a window of any length
    {2, 17, 17, 17, {5, 6}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},    // one place
    {1, 32, 32, 32, {17, 16}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},  // strides
    {2, 64, 64, 4, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},     // groups
    {2, 16, 24, 1, {50}, {5}, {2}, {2}, {2}, {1}},
    {1, 4, 6, 1, {5, 6, 4}, {2, 3, 2}, {1, 1, 2}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}},
    {1, 8, 8, 1, {2, 40}, {3, 3}, {1, 1}, {4, 1}, {4, 1}, {1, 1}},     // rows of padding alone
    {1, 48, 32, 1, {13, 11}, {3, 3}, {1, 1}, {0, 2}, {1, 0}, {1, 1}},  // tiles of 2x2, some over the edge
    {3, 32, 64, 1, {9, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},   // bands of tiles from image to image
    {1, 32, 32, 1, {2, 40}, {3, 3}, {1, 1}, {4, 1}, {4, 1}, {1, 1}},   // tiles of padding alone
    {0, 2, 3, 1, {5}, {3}, {1}, {1}, {1}, {1}},
};

TEST(ChannelsLast, ConvolutionsHaveTheBitsOfChannelsFirst) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    for (const Case& c : kCases) {
      const auto number = &c - kCases;
      const Tensor x = numbers(dtype, c.x(), -1, 1, 1), w = numbers(dtype, c.w(), -1, 1, 2),
                   dy = numbers(dtype, c.y(), -1, 1, 3);
      std::vector<Attribute> attributes = c.attributes();
      const Tensor y = evaluate("convolution", {x, w}, dtype, c.y(), attributes);
      EXPECT_EQ(evaluate("channels_last_convolution", {last(x), w}, dtype, last(c.y()), attributes).values,
                last(y).values)
          << dtype << " case " << number;
      Graph frozen;
      frozen.output(frozen.node("channels_last_convolution", {frozen.input(last(x)), frozen.input(w, true)}, dtype,
                                last(c.y()), attributes));
      Program program(Plugin::cpu(), frozen);
      for (int run = 0; run < 2; ++run)
        EXPECT_EQ(program.run({last(x), w})[0].values, last(y).values) << dtype << " frozen, case " << number;
      attributes.emplace_back("shape", c.w());
      const Tensor dw = evaluate("convolution_weight_gradient", {x, dy}, dtype, c.w(), attributes);
      EXPECT_EQ(
          evaluate("channels_last_convolution_weight_gradient", {last(x), last(dy)}, dtype, c.w(), attributes).values,
          dw.values)
          << dtype << " case " << number;
      attributes.back() = {"shape", c.x()};
      const Tensor dx = evaluate("convolution_input_gradient", {dy, w}, dtype, c.x(), attributes);
      attributes.back() = {"shape", last(c.x())};
      EXPECT_EQ(
          evaluate("channels_last_convolution_input_gradient", {last(dy), w}, dtype, last(c.x()), attributes).values,
          last(dx).values)
          << dtype << " case " << number;
    }
  }
}

// relu(y scale + residual), scale [C]: what stands behind a convolution.
Graph epilogue(const Case& c, bool channels_last, transom_dtype dtype) {
  const Shape full = channels_last ? last(c.y()) : c.y();
  Shape row(full.size(), 1);
  row[channels_last ? full.size() - 1 : 1] = c.results;
  Graph region;
  const int y = region.input(dtype, full), scale = region.input(dtype, {c.results}), x = region.input(dtype, full);
  const int rows =
      region.node("broadcast", {region.node("reshape", {scale}, dtype, row, {{"shape", row}})}, dtype, full);
  const int zero = region.node("constant", {}, dtype, {}, {{"value", 0.0}, {"dtype", dtype}});
  const int zeros = region.node(
      "broadcast", {region.node("reshape", {zero}, dtype, Shape(full.size(), 1), {{"shape", Shape(full.size(), 1)}})},
      dtype, full);
  const int sum = region.node("add", {region.node("mul", {y, rows}, dtype, full), x}, dtype, full);
  region.output(region.node("max", {sum, zeros}, dtype, full));
  return region;
}

TEST(ChannelsLast, AFusionReadsAConvolutionChunkByChunk) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16}) {
    for (const bool channels_last : {true, false}) {
      for (const Case& c : kCases) {
        if (c.batch == 0) continue;
        const std::string op = channels_last ? "channels_last_convolution" : "convolution";
        const auto place = [&](const Tensor& tensor) { return channels_last ? last(tensor) : tensor; };
        const Tensor x = place(numbers(dtype, c.x(), -1, 1, 1)), w = numbers(dtype, c.w(), -1, 1, 2),
                     scale = numbers(dtype, {c.results}, -1, 1, 3), other = place(numbers(dtype, c.y(), -1, 1, 4));
        const Graph region = epilogue(c, channels_last, dtype);
        // The first keeps the convolution's result for itself, the second gives it out as well, so it is not joined.
        std::vector<Tensor> results[2];
        for (const bool apart : {false, true}) {
          Graph graph;
          const int in = graph.input(x), weight = graph.input(w), vector = graph.input(scale),
                    residual = graph.input(other);
          const int y = graph.node(op.c_str(), {in, weight}, dtype, other.shape, c.attributes());
          graph.output(graph.fusion({y, vector, residual}, region)[0]);
          if (apart) graph.output(y);
          Program program(Plugin::cpu(), graph);
          results[apart] = program.run({x, w, scale, other});
          EXPECT_EQ(program.error, "");
        }
        EXPECT_EQ(results[0][0].values, results[1][0].values) << dtype << " case " << &c - kCases;
      }
    }
  }
}

// y tanh(y) of 16 bits: the fusion looks its results up, also as the first that asks for them.
TEST(ChannelsLast, AFusionWithATableReadsAConvolution) {
  for (const transom_dtype dtype : {TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    const Case& c = kCases[0];
    const Tensor x = last(numbers(dtype, c.x(), -1, 1, 1)), w = numbers(dtype, c.w(), -1, 1, 2);
    const Shape full = last(c.y());
    Graph region;
    const int a = region.input(dtype, full);
    region.output(region.node("mul", {region.node("tanh", {a}, dtype, full), a}, dtype, full));
    std::vector<Tensor> results[2];
    for (const bool apart : {false, true}) {
      Graph graph;
      const int y =
          graph.node("channels_last_convolution", {graph.input(x), graph.input(w)}, dtype, full, c.attributes());
      graph.output(graph.fusion({y}, region)[0]);
      if (apart) graph.output(y);
      Program program(Plugin::cpu(), graph);
      results[apart] = program.run({x, w});
      EXPECT_EQ(program.error, "");
      EXPECT_NE(program.describe().find("table of all results"), std::string::npos) << program.describe();
    }
    EXPECT_EQ(results[0][0].values, results[1][0].values) << dtype;
    EXPECT_GT(std::ranges::count_if(results[0][0].values, [](double value) { return value > 0.5; }), 100);
  }
}

// The result of the fusion takes the place of what the convolution reads: they must not run side by side.
TEST(ChannelsLast, AResultMayTakeThePlaceOfTheConvolutionsInput) {
  const Case c{1, 64, 64, 1, {56, 56}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const Tensor x = last(numbers(TRANSOM_FLOAT32, c.x(), -1, 1, 1)), w = numbers(TRANSOM_FLOAT32, c.w(), -1, 1, 2),
               scale = numbers(TRANSOM_FLOAT32, {c.results}, -1, 1, 3), other = last(numbers(TRANSOM_FLOAT32, c.y()));
  const Graph region = epilogue(c, true, TRANSOM_FLOAT32);
  Graph graph;
  const int in = graph.input(x), weight = graph.input(w), vector = graph.input(scale), residual = graph.input(other);
  const int y = graph.node("channels_last_convolution", {in, weight}, TRANSOM_FLOAT32, other.shape, c.attributes());
  graph.output(graph.fusion({y, vector, residual}, region)[0]);
  Program program(Plugin::cpu(), graph);
  const std::vector<Tensor> inputs{x, w, scale, other};
  EXPECT_EQ(program.run_donated(inputs, {0})[0].values, program.run(inputs)[0].values);
  EXPECT_EQ(program.error, "");
}

struct Windows {
  Shape x, window, strides, low, high;
};

// Separately along each axis, from the last one, as the operation is defined.
Tensor pooled(const Windows& p, const Tensor& x, bool maximum) {
  std::vector<double> values = x.values;
  Shape shape = x.shape;
  for (size_t i = p.window.size(); i-- > 0;) {
    const size_t axis = i + 2;
    int64_t inner = 1, outer = 1;
    for (size_t k = 0; k < axis; ++k) outer *= shape[k];
    for (size_t k = axis + 1; k < shape.size(); ++k) inner *= shape[k];
    const int64_t in = shape[axis], out = (in + p.low[i] + p.high[i] - p.window[i]) / p.strides[i] + 1;
    std::vector<double> next;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t at = 0; at < out; ++at)
        for (int64_t k = 0; k < inner; ++k) {
          float result = 0;
          for (int64_t tap = 0; tap < p.window[i]; ++tap) {
            const int64_t place = at * p.strides[i] + tap - p.low[i];
            const bool inside = place >= 0 && place < in;
            const auto value = inside ? static_cast<float>(values[static_cast<size_t>((o * in + place) * inner + k)])
                                      : (maximum ? -INFINITY : 0.0f);
            if (tap == 0) result = value;
            else if (!maximum) result += value;
            else if (value > result || std::isnan(value)) result = value;
          }
          next.push_back(result);
        }
    values = std::move(next);
    shape[axis] = out;
  }
  return {x.dtype, shape, values};
}

TEST(ChannelsLast, Pooling) {
  const Windows cases[] = {
      {{2, 3, 7, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, {{1, 70, 112, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 0}},
      {{2, 5, 4, 9}, {2, 3}, {1, 2}, {0, 2}, {1, 2}}, {{3, 2, 20}, {4}, {3}, {3}, {0}},
      {{1, 2, 1, 1}, {3, 4}, {1, 2}, {2, 3}, {2, 3}}, {{1, 2, 5, 6, 4}, {2, 3, 2}, {1, 2, 2}, {1, 0, 1}, {0, 1, 0}}};
  for (const Windows& p : cases) {
    for (const bool maximum : {true, false}) {
      Tensor x = numbers(TRANSOM_FLOAT32, p.x);
      for (const double odd : {-1.0, 0.0}) {
        if (odd < 0 && maximum) x.values[x.values.size() / 2] = -INFINITY, x.values[0] = NAN;
        const Tensor expected = pooled(p, x, maximum);
        std::vector<Attribute> attributes = {
            {"window", p.window}, {"strides", p.strides}, {"low", p.low}, {"high", p.high}};
        const char* op = maximum ? "max_pool" : "sum_pool";
        const Tensor first = evaluate(op, {x}, TRANSOM_FLOAT32, expected.shape, attributes);
        attributes.emplace_back("channels_last", 1);
        const Tensor behind = evaluate(op, {last(x)}, TRANSOM_FLOAT32, last(expected).shape, attributes);
        EXPECT_EQ(difference(first, expected.values), 0) << op << " case " << &p - cases;
        EXPECT_EQ(difference(behind, last(expected).values), 0) << op << " case " << &p - cases;
      }
    }
  }
}

// Long and short, cut into pieces, with lanes left over.
TEST(ChannelsLast, SumsHaveTheBitsOfChannelsFirst) {
  const Shape shapes[] = {{8, 32, 112, 112}, {1, 16, 112, 111}, {2, 70, 7, 7}, {1, 1, 200, 100}, {3, 5, 9},
                          {2, 33, 3, 1, 5},  {1, 1, 1, 1},      {4, 17, 1, 1}, {0, 3, 2, 2},     {2, 3, 0, 4}};
  for (const Shape& shape : shapes) {
    Tensor x = numbers(TRANSOM_FLOAT32, shape, -3, 5);
    Shape axes;
    for (size_t i = 2; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    const Shape results = {shape[0], shape[1]};
    const Tensor first = evaluate("reduce_sum", {x}, TRANSOM_FLOAT32, results, {{"axes", axes}});
    EXPECT_EQ(evaluate("channels_last_reduce_sum", {last(x)}, TRANSOM_FLOAT32, results, {}).values, first.values)
        << "shape " << &shape - shapes;
  }
}

}  // namespace
}  // namespace transom::backend_test

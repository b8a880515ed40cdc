// SPDX-License-Identifier: Apache-2.0
// Regions of element-wise primitives in one pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

// Runs a region as a fusion; outputs may be bound to donated inputs.
std::vector<Tensor> run_fusion(const Graph& region, const std::vector<Tensor>& inputs, std::vector<int> donated = {}) {
  Graph graph;
  std::vector<int> values;
  for (const Tensor& input : inputs) values.push_back(graph.input(input));
  for (int output : graph.fusion(values, region)) graph.output(output);
  Program program(Plugin::cpu(), graph);
  EXPECT_EQ(program.error, "");
  donated.resize(graph.outputs().size(), -1);
  std::vector<Tensor> results = program.run_donated(inputs, donated);
  EXPECT_EQ(program.error, "");
  return results;
}

// gelu(x + bias) with the bias repeated along rows, as between the two products of a feed-forward layer.
TEST(Fusion, GeluWithARowBias) {
  for (transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16, TRANSOM_FLOAT64}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{5, 768}, Shape{40, 513}, Shape{0, 4}, Shape{700, 3}}) {
      Graph region;
      const int x = region.input(dtype, shape), bias = region.input(dtype, {shape[1]});
      const auto scalar = [&](double value) {
        const int made = region.node("constant", {}, dtype, {}, {{"value", value}, {"dtype", dtype}});
        return region.node("broadcast", {region.node("reshape", {made}, dtype, {1, 1}, {{"shape", Shape{1, 1}}})},
                           dtype, shape);
      };
      const int row = region.node("broadcast", {region.node("reshape", {bias}, dtype, {1, shape[1]})}, dtype, shape);
      const int sum = region.node("add", {x, row}, dtype, shape);
      const int scaled = region.node("mul", {sum, scalar(std::sqrt(0.5))}, dtype, shape);
      const int erf = region.node("erf", {scaled}, dtype, shape);
      const int plus = region.node("add", {erf, scalar(1)}, dtype, shape);
      const int half = region.node("mul", {sum, scalar(0.5)}, dtype, shape);
      region.output(region.node("mul", {half, plus}, dtype, shape));
      const Tensor a = numbers(dtype, shape, -3, 3), b = numbers(dtype, {shape[1]}, -1, 1, 5);
      std::vector<double> expected;
      for (size_t i = 0; i < a.values.size(); ++i) {
        const double value = a.values[i] + b.values[i % static_cast<size_t>(shape[1])];
        expected.push_back(0.5 * value * (1 + std::erf(value * std::sqrt(0.5))));
      }
      for (int donated : {-1, 0})
        EXPECT_LE(difference(run_fusion(region, {a, b}, {donated})[0], expected), 2 * tolerance(dtype))
            << dtype << " " << shape[1];
    }
  }
}

// Scalars, rows, columns and middle axes repeated, all in one region.
TEST(Fusion, AllKindsOfBroadcasting) {
  const Shape full = {3, 4, 131};
  const Shape shapes[] = {{3, 4, 131}, {1, 1, 1}, {1, 1, 131}, {3, 1, 1}, {1, 4, 1}, {3, 1, 131}, {3, 4, 1}};
  for (transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_INT32}) {
    Graph region;
    std::vector<Tensor> inputs;
    int total = -1;
    for (const Shape& shape : shapes) {
      inputs.push_back(numbers(dtype, shape, -8, 8, inputs.size() + 1));
      const int repeated = region.node("broadcast", {region.input(dtype, shape)}, dtype, full);
      total = total < 0 ? repeated : region.node("add", {total, repeated}, dtype, full);
    }
    region.output(total);
    std::vector<double> expected;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 4; ++j)
        for (int64_t k = 0; k < 131; ++k) {
          double sum = 0;
          for (const Tensor& input : inputs) {
            const Shape& s = input.shape;
            sum += input.values[static_cast<size_t>(((i % s[0]) * s[1] + j % s[1]) * s[2] + k % s[2])];
          }
          expected.push_back(sum);
        }
    EXPECT_LE(difference(run_fusion(region, inputs)[0], expected, 8), 2 * tolerance(dtype)) << dtype;
  }
}

// A short row that is the same within an image: a tile may begin in one image and end in the next.
TEST(Fusion, RowsOfEachImage) {
  const transom_dtype f32 = TRANSOM_FLOAT32;
  for (const int64_t rows : {5, 63, 100, 441}) {
    for (const int64_t width : {2, 21, 64, 131}) {
      const Shape full{5, rows, width}, row{5, 1, width};
      Graph region;
      const int x = region.input(f32, full), repeated = region.node("broadcast", {region.input(f32, row)}, f32, full);
      region.output(region.node("add", {x, repeated}, f32, full));
      const Tensor a = numbers(f32, full, -8, 8, 1), b = numbers(f32, row, -8, 8, 2);
      std::vector<double> expected;
      for (int64_t i = 0; i < a.count(); ++i) {
        const int64_t place = i / (rows * width) * width + i % width;
        expected.push_back(a.values[static_cast<size_t>(i)] + b.values[static_cast<size_t>(place)]);
      }
      EXPECT_LE(difference(run_fusion(region, {a, b})[0], expected, 8), tolerance(f32)) << rows << " " << width;
    }
  }
}

// Squares and their sum in one pass: the sum has the bits that reduce_sum gives the squares, and the squares may lie on
// the input.
TEST(Fusion, TotalsAsReductionsGiveThem) {
  const transom_dtype f32 = TRANSOM_FLOAT32;
  for (const Shape& shape : {Shape{1}, Shape{4095}, Shape{4097}, Shape{3, 50001}, Shape{7, 300, 100}, Shape{0, 3}}) {
    Graph region;
    const int x = region.input(f32, shape);
    const int square = region.node("mul", {x, x}, f32, shape);
    Shape axes;
    for (size_t axis = 0; axis < shape.size(); ++axis) axes.push_back(static_cast<int64_t>(axis));
    region.output(square);
    region.output(region.node("reduce_sum", {square}, f32, {}, {{"axes", axes}}));
    const Tensor in = numbers(f32, shape);

    Graph two_passes;
    const int input = two_passes.input(in);
    two_passes.output(
        two_passes.node("reduce_sum", {two_passes.node("mul", {input, input}, f32, shape)}, f32, {}, {{"axes", axes}}));
    Program program(Plugin::cpu(), two_passes);
    const double expected = program.run({in})[0].values[0];
    for (int donated : {-1, 0}) {
      const std::vector<Tensor> results = run_fusion(region, {in}, {donated, -1});
      EXPECT_EQ(results[1].values[0], expected) << in.count();
      for (size_t i = 0; i < in.values.size(); ++i)
        ASSERT_EQ(results[0].values[i], rounded(f32, in.values[i] * in.values[i]));
    }
  }
}

// What counts may start and end anywhere within a tile.
TEST(Fusion, CountsAlongAnyAxis) {
  const Shape shape = {3, 700, 5};
  for (int64_t axis = 0; axis < 3; ++axis) {
    Graph region;
    const int x = region.input(TRANSOM_INT32, shape);
    const int count = region.node("iota", {}, TRANSOM_INT32, shape, {{"axis", axis}, {"shape", shape}});
    region.output(region.node("add", {x, count}, TRANSOM_INT32, shape));
    const Tensor in = numbers(TRANSOM_INT32, shape, -100, 100);
    const std::vector<Tensor> results = run_fusion(region, {in});
    for (int64_t i = 0; i < in.count(); ++i) {
      const int64_t index[] = {i / 3500, i / 5 % 700, i % 5};
      ASSERT_EQ(results[0].values[static_cast<size_t>(i)],
                in.values[static_cast<size_t>(i)] + static_cast<double>(index[axis]));
    }
  }
}

// A broadcast that is reshaped so that no strides express it.
TEST(Fusion, ReshapedBroadcast) {
  Graph region;
  const int x = region.input(TRANSOM_FLOAT32, {1, 3}), y = region.input(TRANSOM_FLOAT32, {12});
  const int wide = region.node("broadcast", {x}, TRANSOM_FLOAT32, {4, 3});
  const int flat = region.node("reshape", {wide}, TRANSOM_FLOAT32, {12}, {{"shape", Shape{12}}});
  region.output(region.node("add", {flat, y}, TRANSOM_FLOAT32, {12}));
  const Tensor a = numbers(TRANSOM_FLOAT32, {1, 3}), b = numbers(TRANSOM_FLOAT32, {12}, 5, 9);
  std::vector<double> expected;
  for (size_t i = 0; i < 12; ++i) expected.push_back(a.values[i % 3] + b.values[i]);
  EXPECT_LE(difference(run_fusion(region, {a, b})[0], expected), 1e-6);
}

// Adam: four inputs and a scalar, three outputs, each written over the input that it replaces.
TEST(Fusion, ManyOutputsOverTheirInputs) {
  const Shape shape = {12345};
  Graph region;
  const transom_dtype f32 = TRANSOM_FLOAT32;
  const int p = region.input(f32, shape), g = region.input(f32, shape), m = region.input(f32, shape),
            v = region.input(f32, shape);
  const int rate = region.node("broadcast", {region.node("reshape", {region.input(f32, {})}, f32, {1})}, f32, shape);
  const auto scalar = [&](double value) {
    return region.node("broadcast",
                       {region.node("reshape", {region.node("constant", {}, f32, {}, {{"value", value}})}, f32, {1})},
                       f32, shape);
  };
  const auto binary = [&](const char* op, int a, int b) { return region.node(op, {a, b}, f32, shape); };
  const int new_m = binary("add", binary("mul", m, scalar(0.9)), binary("mul", g, scalar(0.1)));
  const int new_v = binary("add", binary("mul", v, scalar(0.99)), binary("mul", binary("mul", g, g), scalar(0.01)));
  const int root = region.node("sqrt", {new_v}, f32, shape);
  const int step = binary("div", new_m, binary("add", root, scalar(1e-3)));
  region.output(binary("sub", p, binary("mul", step, rate)));
  region.output(new_m);
  region.output(new_v);
  const Tensor tp = numbers(f32, shape, -1, 1, 1), tg = numbers(f32, shape, -1, 1, 2),
               tm = numbers(f32, shape, -1, 1, 3), tv = numbers(f32, shape, 0, 1, 4), lr = tensor(f32, {}, {0.01});
  for (const std::vector<int>& donated : {std::vector<int>{-1, -1, -1}, {0, 2, 3}, {1, 2, 3}}) {
    const auto results = run_fusion(region, {tp, tg, tm, tv, lr}, donated);
    std::vector<double> ep, em, ev;
    for (size_t i = 0; i < tp.values.size(); ++i) {
      em.push_back(0.9 * tm.values[i] + 0.1 * tg.values[i]);
      ev.push_back(0.99 * tv.values[i] + 0.01 * tg.values[i] * tg.values[i]);
      ep.push_back(tp.values[i] - 0.01 * em.back() / (std::sqrt(ev.back()) + 1e-3));
    }
    EXPECT_LE(difference(results[0], ep), 1e-5);
    EXPECT_LE(difference(results[1], em), 1e-6);
    EXPECT_LE(difference(results[2], ev), 1e-6);
  }
}

// Dropout: random bits, compared, and the result selected.
TEST(Fusion, Dropout) {
  const Shape shape = {70, 33};
  Graph region;
  const int x = region.input(TRANSOM_FLOAT32, shape), key = region.input(TRANSOM_INT64, {2});
  const auto wide = [&](int value, transom_dtype dtype) {
    return region.node("broadcast", {region.node("reshape", {value}, dtype, {1, 1})}, dtype, shape);
  };
  const int bits = region.node("random_bits", {key}, TRANSOM_UINT32, shape, {{"shape", shape}});
  const int limit =
      wide(region.node("constant", {}, TRANSOM_UINT32, {}, {{"int_value", int64_t{1} << 30}}), TRANSOM_UINT32);
  const int dropped = region.node("less", {bits, limit}, TRANSOM_BOOL, shape);
  const int zero = wide(region.node("constant", {}, TRANSOM_FLOAT32, {}, {{"value", 0.0}}), TRANSOM_FLOAT32);
  region.output(region.node("select", {dropped, zero, x}, TRANSOM_FLOAT32, shape));
  region.output(dropped);
  const Tensor a = numbers(TRANSOM_FLOAT32, shape, 1, 2), seed = tensor(TRANSOM_INT64, {2}, {42, 7});
  const Tensor random = evaluate("random_bits", {seed}, TRANSOM_UINT32, shape, {{"shape", shape}});
  const auto results = run_fusion(region, {a, seed}, {0, -1});
  int count = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const bool drop = random.values[i] < 1073741824.0;
    EXPECT_EQ(results[0].values[i], drop ? 0 : a.values[i]);
    EXPECT_EQ(results[1].values[i], drop);
    count += drop;
  }
  EXPECT_NEAR(count / 2310.0, 0.25, 0.05);
}

// An output that only passes an input on, while another output is written over that input.
TEST(Fusion, PassedOnInputSurvivesItsMemory) {
  Graph region;
  const int x = region.input(TRANSOM_FLOAT32, {1000});
  region.output(region.node("neg", {x}, TRANSOM_FLOAT32, {1000}));
  region.output(region.node("cast", {x}, TRANSOM_FLOAT32, {1000}, {{"dtype", TRANSOM_FLOAT32}}));
  const Tensor a = numbers(TRANSOM_FLOAT32, {1000});
  const auto results = run_fusion(region, {a}, {0, -1});
  EXPECT_EQ(results[1].values, a.values);
  EXPECT_EQ(results[0].values[5], -a.values[5]);
}

TEST(Fusion, CastsInsideRound) {
  Graph region;
  const int x = region.input(TRANSOM_FLOAT32, {600});
  const int low = region.node("cast", {x}, TRANSOM_BFLOAT16, {600}, {{"dtype", TRANSOM_BFLOAT16}});
  region.output(region.node("cast", {low}, TRANSOM_FLOAT32, {600}, {{"dtype", TRANSOM_FLOAT32}}));
  const Tensor a = numbers(TRANSOM_FLOAT32, {600});
  std::vector<double> expected;
  for (double value : a.values) expected.push_back(rounded(TRANSOM_BFLOAT16, value));
  EXPECT_EQ(run_fusion(region, {a})[0].values, expected);
}

// tanh(x) x of all numbers of 16 bits: where there are as many elements as such numbers, results are looked up, and
// have the bits that they have when they are computed.
TEST(Fusion, LooksUpWhatItWouldCompute) {
  for (const transom_dtype dtype : {TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    std::vector<double> every;
    const int64_t count = 1 << 16;
    std::vector<uint16_t> bits(1);
    for (int64_t i = 0; i < count; ++i) {
      bits[0] = static_cast<uint16_t>(i);
      every.push_back(decode(dtype, {1}, bits.data()).values[0]);
    }
    const auto run = [&](const std::vector<double>& values, const std::string& way) {
      const Tensor x = tensor(dtype, {static_cast<int64_t>(values.size())}, values);
      Graph region, graph;
      const int a = region.input(x);
      region.output(region.node("mul", {region.node("tanh", {a}, dtype, x.shape), a}, dtype, x.shape));
      graph.output(graph.fusion({graph.input(x)}, region)[0]);
      Program program(Plugin::cpu(), graph);
      EXPECT_NE(program.describe().find(way), std::string::npos) << program.describe();
      const std::vector<double> first = program.run({x})[0].values, donated = program.run_donated({x}, {0})[0].values;
      EXPECT_TRUE(std::ranges::equal(first, donated, [](double p, double q) { return p == q || (p != p && q != q); }));
      return first;
    };
    const std::vector<double> looked_up = run(every, "table of all results");
    for (const int64_t begin : {int64_t{0}, count / 2}) {
      const std::vector<double> half(every.begin() + begin, every.begin() + begin + count / 2);
      const std::vector<double> computed = run(half, "tiles");
      for (size_t i = 0; i < computed.size(); ++i) {
        const double found = looked_up[static_cast<size_t>(begin) + i];
        if (std::isnan(computed[i])) ASSERT_TRUE(std::isnan(found)) << half[i];
        else ASSERT_EQ(found, computed[i]) << half[i];
      }
    }
  }
}

// The same of a broadcast that no strides express: the table is made of the function, not of the way to its operand.
TEST(Fusion, LooksUpAReshapedBroadcast) {
  const int64_t rows = 300, columns = 256, count = rows * columns;
  Graph region;
  const int x = region.input(TRANSOM_BFLOAT16, {1, columns});
  const int wide = region.node("broadcast", {x}, TRANSOM_BFLOAT16, {rows, columns});
  const int flat = region.node("reshape", {wide}, TRANSOM_BFLOAT16, {count}, {{"shape", Shape{count}}});
  region.output(region.node("tanh", {flat}, TRANSOM_BFLOAT16, {count}));
  const Tensor a = numbers(TRANSOM_BFLOAT16, {1, columns});
  const std::vector<double> found = run_fusion(region, {a})[0].values;
  ASSERT_EQ(found.size(), static_cast<size_t>(count));
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], std::tanh(a.values[i % static_cast<size_t>(columns)]), 0.01) << i;
}

}  // namespace
}  // namespace transom::backend_test

// SPDX-License-Identifier: Apache-2.0
// Attention to keys and values in blocks, and the rows that are written into them, against float64 loops on the
// emulated devices of every vendor.
#include <cmath>

#include "gpu_device.h"

namespace transom::backend_test {
namespace {

class GpuPagedAttention : public OnEachMatrixUnit {
 protected:
  static constexpr int64_t kSize = 16;  // tokens of a block

  struct Case {
    transom_dtype dtype;
    int64_t T, H, G, d, e, M, window = 0;
    double cap = 0;
  };

  // Each row's blocks lie apart, and in no order.
  Tensor table_of(int64_t rows, int64_t M, int64_t blocks) {
    Tensor table{TRANSOM_INT32, {rows, M}, {}};
    for (int64_t i = 0; i < rows * M; ++i) table.values.push_back(static_cast<double>((i * 37 + 11) % blocks));
    return table;
  }
  Tensor attend(const Case& c, const std::vector<Tensor>& inputs) {
    return run("paged_attention", inputs, {{c.dtype, {inputs[0].shape[0], c.T, c.H, c.e}}},
               {{"scale", 0.3}, {"sliding_window", c.window}, {"soft_cap", c.cap}, {"block_size", kSize}})[0];
  }
  static std::vector<double> in_loops(const Case& c, const std::vector<Tensor>& inputs) {
    const auto& [q, k, v, table, lengths] = std::tie(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]);
    const auto at = [](int64_t i) { return static_cast<size_t>(i); };
    std::vector<double> result;
    for (int64_t b = 0; b < q.shape[0]; ++b)
      for (int64_t t = 0; t < c.T; ++t)
        for (int64_t h = 0; h < c.H; ++h) {
          const int64_t place = std::max<int64_t>(static_cast<int64_t>(lengths.values[at(b)]) - c.T + t, 0);
          const int64_t begin = c.window > 0 ? std::max<int64_t>(place - c.window + 1, 0) : 0, g = h / (c.H / c.G);
          const auto token = [&, &table = table](int64_t s) {
            return static_cast<int64_t>(table.values[at(b * c.M + s / kSize)]) * kSize + s % kSize;
          };
          std::vector<double> mixed(at(c.e), 0.0);
          double most = -INFINITY, total = 0;
          const auto score = [&, &q = q, &k = k](int64_t s) {
            double sum = 0;
            for (int64_t i = 0; i < c.d; ++i)
              sum += q.values[at(((b * c.T + t) * c.H + h) * c.d + i)] * k.values[at((token(s) * c.G + g) * c.d + i)];
            return c.cap > 0 ? c.cap * std::tanh(sum * 0.3 / c.cap) : sum * 0.3;
          };
          for (int64_t s = begin; s <= place; ++s) most = std::max(most, score(s));
          for (int64_t s = begin; s <= place; ++s) {
            const double weight = std::exp(score(s) - most);
            total += weight;
            for (int64_t i = 0; i < c.e; ++i) mixed[at(i)] += weight * v.values[at((token(s) * c.G + g) * c.e + i)];
          }
          for (const double value : mixed) result.push_back(value / total);
        }
    return result;
  }
};

TEST_P(GpuPagedAttention, ReadsTheBlocksThatARowHas) {
  constexpr transom_dtype kF32 = TRANSOM_FLOAT32, kBf16 = TRANSOM_BFLOAT16;
  // One chunk of keys and several, heads that share keys or not, some that no power of two counts.
  for (const Case& c : {Case{kF32, 1, 2, 2, 20, 12, 2}, Case{kBf16, 1, 6, 2, 64, 64, 40},
                        Case{TRANSOM_FLOAT16, 1, 16, 1, 32, 24, 20, 270}, Case{kF32, 3, 4, 4, 8, 8, 20, 30, 2.0}}) {
    const std::vector<double> some = {1, 2, 31, 300, 257, 256, 512, 640};
    Tensor lengths{TRANSOM_INT32, {}, {}};
    for (const double length : some)
      if (length <= static_cast<double>(c.M * kSize)) lengths.values.push_back(length);
    const auto B = static_cast<int64_t>(lengths.values.size());
    lengths.shape = {B};
    const int64_t blocks = 50;
    const std::vector<Tensor> inputs = {
        numbers(c.dtype, {B, c.T, c.H, c.d}, -1, 1, 7), numbers(c.dtype, {blocks * kSize, c.G, c.d}, -2, 2, 2),
        numbers(c.dtype, {blocks * kSize, c.G, c.e}, -2, 2, 3), table_of(B, c.M, blocks), lengths};
    const Tensor found = attend(c, inputs);
    EXPECT_NE(description_.find("paged attention"), std::string::npos) << description_;
    EXPECT_LT(difference(found, in_loops(c, inputs)), c.dtype == kF32 ? 2e-5 : tolerance(c.dtype)) << c.H << " " << c.d;
    EXPECT_EQ(attend(c, inputs).values, found.values);
    // Alone, and with room for more blocks than it has.
    const auto row = found.values.size() / static_cast<size_t>(B);
    for (const int64_t b : {int64_t{0}, B - 1}) {
      Case alone = c;
      alone.M = c.M + 19;
      Tensor table{TRANSOM_INT32, {1, alone.M}, {}}, q{c.dtype, {1, c.T, c.H, c.d}, {}};
      const auto of = [](const Tensor& from, int64_t i, int64_t n) {
        return std::vector<double>(from.values.begin() + i * n, from.values.begin() + (i + 1) * n);
      };
      table.values = of(inputs[3], b, c.M);
      table.values.resize(static_cast<size_t>(alone.M), 49);
      q.values = of(inputs[0], b, c.T * c.H * c.d);
      const Tensor one = attend(
          alone, {q, inputs[1], inputs[2], table, {TRANSOM_INT32, {1}, {lengths.values[static_cast<size_t>(b)]}}});
      EXPECT_EQ(one.values, of(found, b, static_cast<int64_t>(row))) << "row " << b;
    }
  }
}

// What a caller says that is not so leads to no access outside of memory: the emulated devices look.
TEST_P(GpuPagedAttention, StaysWithinTheBlocksWhateverTablesSay) {
  const Case c{TRANSOM_FLOAT32, 1, 2, 1, 4, 4, 2, 3};
  const std::vector<Tensor> inputs = {
      numbers(c.dtype, {3, 1, 2, 4}), numbers(c.dtype, {3 * kSize, 1, 4}), numbers(c.dtype, {3 * kSize, 1, 4}),
      Tensor{TRANSOM_INT32, {3, 2}, {-7, 1000, 2, 1, 0, 1}}, Tensor{TRANSOM_INT32, {3}, {20, 5000, -9}}};
  for (const double value : attend(c, inputs).values) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(GpuPagedAttention, OfEqualPlacesTheLastRowIsWritten) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_INT8}) {
    const Tensor x = numbers(dtype, {40, 3, 5}, -9, 9, 1), updates = numbers(dtype, {600, 3, 5}, -9, 9, 2);
    Tensor places{TRANSOM_INT64, {600}, {}};
    for (int64_t i = 0; i < 600; ++i) places.values.push_back(static_cast<double>((i * 7) % 45 - 2));
    std::vector<double> expected = x.values;
    for (size_t i = 0; i < 600; ++i)
      if (const double at = places.values[i]; at >= 0 && at < 40)
        for (size_t c = 0; c < 15; ++c) expected[static_cast<size_t>(at) * 15 + c] = updates.values[i * 15 + c];
    Graph graph;
    graph.output(graph.node("scatter", {graph.input(x), graph.input(places), graph.input(updates)}, dtype, x.shape));
    Program program(*plugin_, graph);
    ASSERT_EQ(program.error, "");
    EXPECT_EQ(program.run({x, places, updates})[0].values, expected) << dtype;
    EXPECT_EQ(program.run_donated({x, places, updates}, {0})[0].values, expected) << dtype << " in place";
  }
}

INSTANTIATE_TEST_SUITE_P(Units, GpuPagedAttention, testing::ValuesIn(kMatrixUnitDevices), NameOfMatrixUnit());

}  // namespace
}  // namespace transom::backend_test

// SPDX-License-Identifier: Apache-2.0
// Kernels that move vectors of up to 16 bytes give the same bits wherever their operands lie: at multiples of 16 bytes
// they move vectors, elsewhere elements. The emulated drivers of NVIDIA and AMD lose the device where a vector is not
// at a multiple of its size.
#include <algorithm>

#include "gpu_device.h"

namespace transom::backend_test {
namespace {

struct Case {
  const char* op;
  std::vector<Tensor> inputs;
  Shape result;
  std::vector<Attribute> attributes;
};

class GpuVectors : public OnEachGpu {
 protected:
  // The result of the first output at every offset, which has to be the same.
  std::vector<double> same_everywhere(const Case& each) {
    const transom_dtype dtype = each.inputs[0].dtype;
    Graph graph;
    std::vector<int> values;
    for (const Tensor& input : each.inputs) values.push_back(graph.input(input));
    graph.output(graph.node(each.op, values, dtype, each.result, each.attributes));
    transom_executable* executable = nullptr;
    transom_error error{};
    EXPECT_EQ(plugin_->table.compile(plugin_->device, graph.view(), &executable, &error), TRANSOM_OK) << error.text;
    if (!executable) return {};
    const auto result_at = [&](size_t offset) {
      return run_at(*plugin_, executable, each.inputs, dtype, each.result, offset);
    };
    const std::vector<double> aligned = result_at(0);
    size_t element = 1;
    for (const Tensor& input : each.inputs) element = std::max(element, element_size(input.dtype));
    for (const size_t offset : {element, size_t{8}, size_t{16}})
      EXPECT_EQ(result_at(offset), aligned) << each.op << " at " << offset;
    plugin_->table.executable_destroy(executable);
    return aligned;
  }
};

// Lengths around a vector, around what a thread holds, and of rows that are read in each pass.
TEST_P(GpuVectors, OfRows) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT64})
    for (const int64_t length : {3, 8, 1022, 1028, 4100}) {
      const Shape shape = {3, length};
      const Tensor x = numbers(dtype, shape), dy = numbers(dtype, shape, -1, 1, 2), scale = numbers(dtype, {length}),
                   bias = numbers(dtype, {length}, -1, 1, 3);
      const std::vector<Attribute> epsilon = {{"epsilon", 1e-5}};
      same_everywhere({"softmax", {x}, shape, {}});
      same_everywhere({"log_softmax_gradient", {x, dy}, shape, {}});
      same_everywhere({"layer_norm", {x, scale, bias}, shape, epsilon});
      same_everywhere({"rms_norm", {x, scale}, shape, epsilon});
      const std::vector<double> most = same_everywhere({"reduce_max", {x}, {3}, {{"axes", Shape{1}}}});
      for (size_t row = 0; row < most.size(); ++row) {
        const auto begin = x.values.begin() + static_cast<int64_t>(row) * length;
        EXPECT_EQ(most[row], *std::max_element(begin, begin + length)) << length;
      }
    }
}

TEST_P(GpuVectors, OfMovement) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_UINT8, TRANSOM_INT64})
    for (const int64_t width : {3, 4, 16, 24}) {  // of the axis that stays the last
      const auto at = [&](int64_t i, int64_t j, int64_t k) { return static_cast<size_t>((i * 5 + j) * width + k); };
      const Tensor x = numbers(dtype, {2, 5, width}, 0, 100), rows = numbers(dtype, {7, width}, 0, 100, 2),
                   picks = tensor(TRANSOM_INT64, {4}, {6, 0, 9, -1});
      const auto turned = same_everywhere({"permute", {x}, {5, 2, width}, {{"permutation", Shape{1, 0, 2}}}});
      const auto part =
          same_everywhere({"slice",
                           {x},
                           {2, 2, width},
                           {{"starts", Shape{0, 1, 0}}, {"limits", Shape{2, 5, width}}, {"strides", Shape{1, 3, 1}}}});
      const auto back = same_everywhere({"reverse", {x}, {2, 5, width}, {{"axes", Shape{1}}}});
      const auto joined = same_everywhere({"concatenate", {x, x}, {2, 10, width}, {{"axis", int64_t{1}}}});
      const auto picked = same_everywhere({"gather", {rows, picks}, {4, width}, {{"axis", int64_t{0}}}});
      for (int64_t k = 0; k < width; ++k) {
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t j = 0; j < 5; ++j) {
            const double expected = x.values[at(i, j, k)];
            EXPECT_EQ(turned[static_cast<size_t>((j * 2 + i) * width + k)], expected);
            EXPECT_EQ(back[at(i, 4 - j, k)], expected);
            for (const int64_t half : {0, 5})
              EXPECT_EQ(joined[static_cast<size_t>((i * 10 + half + j) * width + k)], expected);
            if (j % 3 == 1) {
              EXPECT_EQ(part[static_cast<size_t>((i * 2 + j / 3) * width + k)], expected);
            }
          }
        for (const auto& [to, from] : {std::pair{0, 6}, {1, 0}, {2, 6}, {3, 0}})  // outside: the nearest end
          EXPECT_EQ(picked[static_cast<size_t>(to * width + k)], rows.values[static_cast<size_t>(from * width + k)]);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GpuVectors, testing::Values("opencl", "cuda", "rocm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transom::backend_test

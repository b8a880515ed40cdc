// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt and hipBLASLt, as the emulated drivers carry them out: layouts, batches, biases, types; what the
// libraries do not take falls to the backend's own kernel. The emulated libraries add in the own kernel's order, so
// both give the same bits.
#include <bit>

#include "gpu_device.h"
#include "support/folders.h"

namespace transom::backend_test {
namespace {

class GpuProductsLibrary : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ::setenv("TRANSOM_OPENCL_LIBRARY", (test::build_folder() + "/emulators/libOpenCL.so.1").c_str(), 0);
    const std::string cuda = test::build_folder() + "/emulators/libcuda.so.1",
                      hip = test::build_folder() + "/emulators/libamdhip64.so";
    for (const char* name : {"TRANSOM_CUDA_LIBRARY", "TRANSOM_NVRTC_LIBRARY", "TRANSOM_CUBLASLT_LIBRARY"})
      ::setenv(name, cuda.c_str(), 1);
    for (const char* name : {"TRANSOM_HIP_LIBRARY", "TRANSOM_HIPRTC_LIBRARY", "TRANSOM_HIPBLASLT_LIBRARY"})
      ::setenv(name, hip.c_str(), 1);
    try {
      library_ = std::make_unique<Plugin>(GetParam());
      ::setenv("TRANSOM_GPU_PRODUCTS", "own", 1);
      own_ = std::make_unique<Plugin>(GetParam());
      ::unsetenv("TRANSOM_GPU_PRODUCTS");
    } catch (const std::exception& error) {
      ::unsetenv("TRANSOM_GPU_PRODUCTS");
      GTEST_SKIP() << error.what();
    }
  }

  // Expects the same results of both, and the library's name among the launches, or not.
  void compare(const Graph& graph, const std::vector<Tensor>& inputs, bool by_library) {
    Program program(*library_, graph), plain(*own_, graph);
    ASSERT_EQ(program.error, "");
    ASSERT_EQ(plain.error, "");
    const std::string name = std::string(GetParam()) == "cuda" ? "cublasLt" : "hipblasLt";
    const std::string text = program.describe();
    EXPECT_EQ(text.find(name) != std::string::npos, by_library) << text;
    EXPECT_EQ(plain.describe().find(name), std::string::npos);
    for (int again = 0; again < 2; ++again) {
      const std::vector<Tensor> found = program.run(inputs), expected = plain.run(inputs);
      ASSERT_EQ(program.error, "");
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i].values, expected[i].values) << "output " << i;
    }
  }

  std::unique_ptr<Plugin> library_, own_;
};

TEST_P(GpuProductsLibrary, ComputesLinearLayersOfEachType) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    Graph graph;
    const Tensor x = numbers(dtype, {5, 37}), w = numbers(dtype, {3, 37}, -1, 1, 2), b = numbers(dtype, {3}, -1, 1, 3);
    graph.output(graph.node("linear", {graph.input(x), graph.input(w), graph.input(b)}, dtype, {5, 3}));
    compare(graph, {x, w, b}, true);
  }
}

TEST_P(GpuProductsLibrary, SumsABiasGradientBesideItsWeights) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    Graph graph;  // of two layers, so that each has its own sums
    const Tensor dy = numbers(dtype, {37, 6}), x = numbers(dtype, {37, 5}, -1, 1, 2), z = numbers(dtype, {37, 9}, 2, 3);
    const int of_dy = graph.input(dy), of_x = graph.input(x), of_z = graph.input(z);
    for (const auto& [a, b, n, k] : {std::tuple{of_dy, of_x, 6, 5}, {of_z, of_dy, 9, 6}})
      for (const int output : graph.nodes("linear_weight_gradient", {a, b}, {{dtype, {n, k}}, {dtype, {n}}}))
        graph.output(output);
    compare(graph, {dy, x, z}, true);
    EXPECT_EQ(Program(*library_, graph).describe().find("reduce_sum"), std::string::npos);
  }
}

TEST_P(GpuProductsLibrary, EachLayerAddsItsOwnBias) {
  Graph graph;
  const Tensor x = numbers(TRANSOM_FLOAT32, {4, 8}), w = numbers(TRANSOM_FLOAT32, {8, 8}, -1, 1, 2),
               b = numbers(TRANSOM_FLOAT32, {8}, -1, 1, 3), c = numbers(TRANSOM_FLOAT32, {8}, 5, 9, 4);
  const int at = graph.input(x), weight = graph.input(w), one = graph.input(b), other = graph.input(c);
  const int first = graph.node("linear", {at, weight, one}, TRANSOM_FLOAT32, {4, 8});
  graph.output(first);
  graph.output(graph.node("linear", {first, weight, other}, TRANSOM_FLOAT32, {4, 8}));
  graph.output(graph.node("linear", {first, weight}, TRANSOM_FLOAT32, {4, 8}));
  compare(graph, {x, w, b, c}, true);
}

TEST_P(GpuProductsLibrary, ReadsTurnedOperandsAndBatches) {
  // As in a gradient of a weight, and in attention's heads.
  for (const auto& [x_contract, y_contract] : {std::pair<int64_t, int64_t>{1, 1}, {1, 2}, {2, 1}, {2, 2}}) {
    Graph graph;
    const Tensor x = numbers(TRANSOM_FLOAT32, x_contract == 1 ? Shape{3, 7, 4} : Shape{3, 4, 7}),
                 y = numbers(TRANSOM_FLOAT32, y_contract == 1 ? Shape{3, 7, 5} : Shape{3, 5, 7}, -1, 1, 2);
    graph.output(graph.node("dot_general", {graph.input(x), graph.input(y)}, TRANSOM_FLOAT32, {3, 4, 5},
                            {{"dtype", TRANSOM_FLOAT32},
                             {"x_batch", Shape{0}},
                             {"x_contract", Shape{x_contract}},
                             {"y_batch", Shape{0}},
                             {"y_contract", Shape{y_contract}}}));
    compare(graph, {x, y}, true);
  }
}

TEST_P(GpuProductsLibrary, ReadsHeadsWhereTheyLie) {
  Graph graph;  // [B, T, H, d] times [B, S, H, d]: batch axes with others between them
  const Tensor x = numbers(TRANSOM_FLOAT32, {1, 6, 2, 8}), y = numbers(TRANSOM_FLOAT32, {1, 5, 2, 8}, -1, 1, 2);
  graph.output(graph.node("dot_general", {graph.input(x), graph.input(y)}, TRANSOM_FLOAT32, {1, 2, 6, 5},
                          {{"dtype", TRANSOM_FLOAT32},
                           {"x_batch", Shape{0, 2}},
                           {"x_contract", Shape{3}},
                           {"y_batch", Shape{0, 2}},
                           {"y_contract", Shape{3}}}));
  compare(graph, {x, y}, true);
}

// Where a node allows it and the chip has it; else as without.
TEST_P(GpuProductsLibrary, RoundsOperandsToTf32OnlyWhereANodeAllowsIt) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {5, 37}), w = numbers(TRANSOM_FLOAT32, {3, 37}, -1, 1, 2);
  const auto graph_of = [&](std::vector<Attribute> attributes) {
    Graph graph;
    graph.output(
        graph.node("linear", {graph.input(x), graph.input(w)}, TRANSOM_FLOAT32, {5, 3}, std::move(attributes)));
    return graph;
  };
  const auto rounded = [](Tensor of) {
    for (double& value : of.values)
      value = std::bit_cast<float>((std::bit_cast<uint32_t>(static_cast<float>(value)) + 0x1000u) & ~0x1FFFu);
    return of;
  };
  const Graph exact = graph_of({}), allowed = graph_of({{"tf32", 1}});
  Program plain(*own_, exact), without(*library_, exact), with(*library_, allowed);
  const std::vector<double> of_all = plain.run({x, w})[0].values,
                            of_rounded = plain.run({rounded(x), rounded(w)})[0].values;
  ASSERT_NE(of_all, of_rounded);
  EXPECT_EQ(without.run({x, w})[0].values, of_all);
  EXPECT_EQ(with.run({x, w})[0].values, of_rounded);
  EXPECT_EQ(Program(*own_, allowed).run({x, w})[0].values, of_all);
  if (GetParam() == std::string("cuda")) return;
  ::setenv("TRANSOM_EMULATED_GPU_CHIP", "gfx90a", 1);
  Plugin older("rocm");
  EXPECT_EQ(Program(older, allowed).run({x, w})[0].values, of_all);
  ::unsetenv("TRANSOM_EMULATED_GPU_CHIP");
}

TEST_P(GpuProductsLibrary, LeavesIntegersAndDoublesToTheOwnKernel) {
  for (const transom_dtype dtype : {TRANSOM_INT32, TRANSOM_FLOAT64}) {
    Graph graph;
    const Tensor x = tensor(dtype, {2, 3}, {1, 2, 3, 4, 5, 6}), y = tensor(dtype, {2, 3}, {1, 0, 2, 3, 1, 1});
    graph.output(graph.node("dot_general", {graph.input(x), graph.input(y)}, dtype, {2, 2},
                            {{"dtype", dtype},
                             {"x_batch", Shape{}},
                             {"x_contract", Shape{1}},
                             {"y_batch", Shape{}},
                             {"y_contract", Shape{1}}}));
    compare(graph, {x, y}, false);
  }
}

TEST_P(GpuProductsLibrary, OneProgramReadsOperandsAtAnyMultipleOfAnElement) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16}) {
    Graph graph;
    const Tensor x = numbers(dtype, {5, 37}), w = numbers(dtype, {3, 37}, -1, 1, 2), b = numbers(dtype, {3}, -1, 1, 3);
    graph.output(graph.node("linear", {graph.input(x), graph.input(w), graph.input(b)}, dtype, {5, 3}));
    const std::vector<double> expected = Program(*own_, graph).run({x, w, b})[0].values;
    transom_error error{};
    transom_executable* executable = nullptr;
    ASSERT_EQ(library_->table.compile(library_->device, graph.view(), &executable, &error), TRANSOM_OK) << error.text;
    for (const size_t elements : {0, 1, 2, 4, 0, 16, 1})
      EXPECT_EQ(run_at(*library_, executable, {x, w, b}, dtype, {5, 3}, elements * element_size(dtype)), expected)
          << elements;
    library_->table.executable_destroy(executable);
  }
}

TEST_P(GpuProductsLibrary, ForgetsShapesThatNobodyAsksForAnyMore) {
  // The emulated library refuses to keep more descriptions than a thousand plans need.
  const Tensor w = numbers(TRANSOM_FLOAT32, {2, 4}, -1, 1, 2);
  const auto graph_of = [&](int64_t rows) {
    Graph graph;
    const int x = graph.input(TRANSOM_FLOAT32, {rows, 4});
    graph.output(graph.node("linear", {x, graph.input(w)}, TRANSOM_FLOAT32, {rows, 2}));
    return graph;
  };
  const Graph small = graph_of(1);
  Program first(*library_, small), plain(*own_, small);
  for (int64_t rows = 1; rows < 1500; ++rows) {
    const Graph graph = graph_of(rows);
    const Program program(*library_, graph);
    ASSERT_EQ(program.error, "") << rows;
    ASSERT_NE(program.describe().find("Lt"), std::string::npos) << rows;
  }
  const Tensor x = numbers(TRANSOM_FLOAT32, {1, 4});
  EXPECT_EQ(first.run({x, w})[0].values, plain.run({x, w})[0].values) << "its plan was forgotten and is made again";
}

INSTANTIATE_TEST_SUITE_P(All, GpuProductsLibrary, testing::Values("cuda", "rocm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transom::backend_test

// SPDX-License-Identifier: Apache-2.0
// Attention by the look-alike of cuDNN's graphs, beside plain loops and the own kernel: what is taken, what is not,
// plans that several programs share, and refusals.
#include <dlfcn.h>

#include <thread>

#include "attention_in_loops.h"
#include "gpu_device.h"
#include "support/folders.h"

namespace transom::backend_test {
namespace {

std::vector<std::string> warnings;

// The plugin tells its warnings here until it is opened again.
void watch_warnings() {
  warnings.clear();
  void* const library =
      dlopen((test::build_folder() + "/lib/transom/libtransom_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto open = reinterpret_cast<transom_plugin_open_function>(dlsym(library, "transom_plugin_open"));
  static transom_host host{};
  host.struct_size = sizeof host, host.major = TRANSOM_PLUGIN_MAJOR, host.minor = TRANSOM_PLUGIN_MINOR;
  host.log = [](int32_t level, const char* text) {
    if (level == TRANSOM_LOG_WARNING) warnings.push_back(text);
  };
  transom_plugin table{};
  table.struct_size = sizeof table;
  transom_error error{};
  ASSERT_EQ(open(&host, &table, &error), TRANSOM_OK) << error.text;
}

class GpuAttentionLibrary : public testing::Test {
 protected:
  void SetUp() override {
    use_emulated_drivers();
    ::setenv("TRANSOM_CUDNN_LIBRARY", (test::build_folder() + "/emulators/libcuda.so.1").c_str(), 1);
    try {
      library_ = std::make_unique<Plugin>("cuda");
      ::setenv("TRANSOM_GPU_PRODUCTS", "own", 1);
      own_ = std::make_unique<Plugin>("cuda");
      ::unsetenv("TRANSOM_GPU_PRODUCTS");
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
    watch_warnings();
  }
  void TearDown() override {
    for (const char* name : {"TRANSOM_GPU_PRODUCTS", "TRANSOM_CUDNN_LIBRARY", "TRANSOM_EMULATED_CUDNN_GRAPH"})
      ::unsetenv(name);
  }

  // Of one node.
  struct Asked {
    Asked(const AttentionCase& c, transom_dtype dtype, uint64_t seed = 1, std::vector<Attribute> more = {})
        : c(c),
          q(numbers(dtype, {c.B, c.T, c.H, c.d}, -1, 1, seed)),
          k(numbers(dtype, {c.B, c.S, c.G, c.d}, -1, 1, seed + 1)),
          v(numbers(dtype, {c.B, c.S, c.G, c.e}, -1, 1, seed + 2)),
          bias(numbers(TRANSOM_FLOAT32, {1, 1, 1, c.S}, -1, 1, seed + 3)) {
      std::vector<Attribute> attributes = c.attributes();
      attributes.insert(attributes.end(), more.begin(), more.end());
      std::vector<int> values;
      for (const Tensor& input : inputs()) values.push_back(graph.input(input));
      graph.output(graph.node("attention", values, dtype, {c.B, c.T, c.H, c.e}, attributes));
    }
    std::vector<Tensor> inputs() const {
      return c.biased ? std::vector<Tensor>{q, k, v, bias} : std::vector<Tensor>{q, k, v};
    }
    std::vector<double> expected() const { return attention_in_loops(c, q, k, v, bias); }
    AttentionCase c;
    Tensor q, k, v, bias;
    Graph graph;
  };
  // dq, dk and dv; `learned`: the bias has a gradient as well.
  struct AskedGradient {
    AskedGradient(const AttentionCase& c, transom_dtype dtype, bool learned = false) {
      inputs = {numbers(dtype, {c.B, c.T, c.H, c.d}, -1, 1, 1), numbers(dtype, {c.B, c.S, c.G, c.d}, -1, 1, 2),
                numbers(dtype, {c.B, c.S, c.G, c.e}, -1, 1, 3)};
      if (c.biased) inputs.push_back(numbers(TRANSOM_FLOAT32, {1, 1, learned ? c.T : 1, c.S}, -1, 1, 4));
      inputs.push_back(numbers(dtype, {c.B, c.T, c.H, c.e}, -1, 1, 5));
      std::vector<int> values;
      for (const Tensor& input : inputs) values.push_back(graph.input(input));
      std::vector<std::pair<transom_dtype, Shape>> types;
      for (size_t i = 0; i < (learned ? 4 : 3); ++i) types.emplace_back(inputs[i].dtype, inputs[i].shape);
      for (const int output :
           graph.nodes(learned ? "biased_attention_gradient" : "attention_gradient", values, types, c.attributes()))
        graph.output(output);
    }
    std::vector<Tensor> inputs;
    Graph graph;
  };
  static bool by_cudnn(const Program& program) { return program.describe().find("cudnn") != std::string::npos; }
  std::vector<double> by_own_kernel(const Asked& asked) {
    return Program(*own_, asked.graph).run(asked.inputs())[0].values;
  }

  std::unique_ptr<Plugin> library_, own_;
};

constexpr AttentionCase kPlain{64, 64, 2, 2, 64, 64, false, 0, 0, false};

TEST_F(GpuAttentionLibrary, ComputesWhatItTakesWithTheSameBitsAtEveryRun) {
  for (const transom_dtype dtype : {TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
    for (const AttentionCase& c : {AttentionCase{64, 128, 2, 2, 64, 64, false, 0, 0, false, 2, 0.125},
                                   AttentionCase{128, 128, 2, 1, 64, 64, true, 0, 0, false, 2, 0.25},
                                   AttentionCase{64, 64, 4, 2, 128, 128, true, 0, 0, false, 1, 0.1},
                                   AttentionCase{64, 128, 2, 2, 64, 64, false, 0, 0, true, 2, 0.125},
                                   AttentionCase{64, 64, 2, 1, 64, 64, true, 0, 0, true, 1, 0.25}}) {
      const Asked asked(c, dtype);
      Program program(*library_, asked.graph);
      ASSERT_EQ(program.error, "");
      EXPECT_TRUE(by_cudnn(program)) << program.describe();
      const std::vector<double> found = program.run(asked.inputs())[0].values;
      EXPECT_LT(difference({dtype, {}, found}, asked.expected()), tolerance(dtype) * 2) << c.T << " " << c.d;
      EXPECT_EQ(program.run(asked.inputs())[0].values, found);
      EXPECT_LT(difference({dtype, {}, found}, by_own_kernel(asked)), tolerance(dtype) * 2);
    }
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

TEST_F(GpuAttentionLibrary, ComputesGradientsWithTheSameBitsAtEveryRun) {
  for (const transom_dtype dtype : {TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
    for (const AttentionCase& c : {AttentionCase{64, 128, 2, 2, 64, 64, false, 0, 0, false, 2, 0.125},
                                   AttentionCase{64, 256, 1, 1, 64, 64, false, 0, 0, false, 1, 0.25},
                                   AttentionCase{128, 128, 2, 1, 128, 128, true, 0, 0, false, 1, 0.1},
                                   AttentionCase{64, 128, 2, 2, 64, 64, false, 0, 0, true, 2, 0.125},
                                   AttentionCase{128, 128, 2, 1, 64, 64, true, 0, 0, true, 1, 0.25}}) {
      const AskedGradient asked(c, dtype);
      Program program(*library_, asked.graph);
      ASSERT_EQ(program.error, "");
      EXPECT_TRUE(by_cudnn(program)) << program.describe();
      const std::vector<Tensor> found = program.run(asked.inputs), again = program.run(asked.inputs),
                                own = Program(*own_, asked.graph).run(asked.inputs);
      ASSERT_EQ(found.size(), 3U);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_LT(difference(found[i], own[i].values), tolerance(dtype) * 4) << c.T << " " << c.d << " " << i;
        EXPECT_EQ(again[i].values, found[i].values) << i;
      }
    }
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

TEST_F(GpuAttentionLibrary, LeavesOtherGradientsAndRefusedRunsToTheOwnKernels) {
  AttentionCase biased = kPlain;
  biased.biased = true, biased.S = 128;
  const AskedGradient learned(biased, TRANSOM_BFLOAT16, true), asked(biased, TRANSOM_BFLOAT16);
  const AskedGradient few_keys(kPlain, TRANSOM_BFLOAT16);
  for (const AskedGradient* one : {&learned, &few_keys}) {
    Program program(*library_, one->graph);
    ASSERT_EQ(program.error, "");
    EXPECT_FALSE(by_cudnn(program)) << program.describe();
  }
  Program refused(*library_, asked.graph);
  EXPECT_TRUE(by_cudnn(refused)) << refused.describe();
  ::setenv("TRANSOM_EMULATED_CUDNN_GRAPH", "fail", 1);
  const std::vector<Tensor> found = refused.run(asked.inputs), own = Program(*own_, asked.graph).run(asked.inputs);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].values, own[i].values) << i;
}

TEST_F(GpuAttentionLibrary, LeavesTheOthersToTheOwnKernel) {
  const std::vector<Attribute> apart = {{"batch_invariant", 1}};  // whose rows keep the bits that they have alone
  const Asked others[] = {{{65, 64, 2, 2, 64, 64, false, 0, 0, false}, TRANSOM_BFLOAT16},
                          {{64, 72, 2, 2, 64, 64, false, 0, 0, false}, TRANSOM_BFLOAT16},
                          {{1, 64, 2, 2, 64, 64, true, 0, 0, false}, TRANSOM_BFLOAT16},
                          {{64, 128, 2, 2, 64, 64, true, 0, 0, false}, TRANSOM_BFLOAT16},
                          {{64, 64, 2, 2, 32, 32, false, 0, 0, false}, TRANSOM_BFLOAT16},
                          {{64, 64, 2, 2, 64, 128, false, 0, 0, false}, TRANSOM_BFLOAT16},
                          {{64, 64, 2, 2, 64, 64, true, 8, 0, false}, TRANSOM_BFLOAT16},
                          {{64, 64, 2, 2, 64, 64, false, 0, 2, false}, TRANSOM_BFLOAT16},
                          {kPlain, TRANSOM_FLOAT32},
                          {kPlain, TRANSOM_BFLOAT16, 1, apart}};
  for (const Asked& other : others) {
    Program program(*library_, other.graph);
    ASSERT_EQ(program.error, "");
    EXPECT_FALSE(by_cudnn(program)) << program.describe();
    EXPECT_EQ(program.run(other.inputs())[0].values, by_own_kernel(other));
  }
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

TEST_F(GpuAttentionLibrary, ProgramsOfOneShapeShareAPlanAndNothingElse) {
  AttentionCase other = kPlain, causal = kPlain;
  other.scale = 0.125, causal.causal = true;
  const Asked asked[] = {{kPlain, TRANSOM_BFLOAT16}, {other, TRANSOM_BFLOAT16, 5}, {causal, TRANSOM_BFLOAT16, 9}};
  std::unique_ptr<Program> programs[3];
  std::vector<std::thread> askers;  // at once
  for (size_t i = 0; i < 3; ++i)
    askers.emplace_back([&, i] { programs[i] = std::make_unique<Program>(*library_, asked[i].graph); });
  for (std::thread& asker : askers) asker.join();
  std::vector<double> found[3];
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(programs[i]->error, "");
    EXPECT_TRUE(by_cudnn(*programs[i])) << i;
    found[i] = programs[i]->run(asked[i].inputs())[0].values;
    EXPECT_LT(difference({TRANSOM_BFLOAT16, {}, found[i]}, asked[i].expected()), tolerance(TRANSOM_BFLOAT16) * 2) << i;
  }
  programs[0].reset();
  for (size_t i = 1; i < 3; ++i) EXPECT_EQ(programs[i]->run(asked[i].inputs())[0].values, found[i]) << i;
}

// Biases of each sort, of which the lowest number hides keys, of one text all of them.
TEST_F(GpuAttentionLibrary, AddsBiasesThatBatchesHeadsAndQueriesShareOrNot) {
  constexpr double kHiding = -3.3895313892515355e38;
  const Shape shape{2, 64, 2, 64};
  const std::vector<Tensor> qkv = {numbers(TRANSOM_BFLOAT16, shape, -1, 1, 1),
                                   numbers(TRANSOM_BFLOAT16, shape, -1, 1, 2),
                                   numbers(TRANSOM_BFLOAT16, shape, -1, 1, 3)};
  for (const bool causal : {false, true})
    for (const Shape& of : {Shape{2, 1, 1, 64}, Shape{1, 2, 64, 64}, Shape{2, 2, 64, 64}}) {
      std::vector<Tensor> inputs = qkv;
      inputs.push_back(numbers(TRANSOM_FLOAT32, of, -2, 2, 4));
      std::vector<double>& bias = inputs.back().values;
      const bool hides = of[0] == 2;
      for (size_t i = 0; i < bias.size() && hides; ++i)
        if (i < bias.size() / 2 ? i % 64 > 40 : !causal || i % 64 < 8) bias[i] = kHiding;
      AttentionCase c = kPlain;
      c.causal = causal, c.biased = true;
      Graph graph;
      std::vector<int> values;
      for (const Tensor& input : inputs) values.push_back(graph.input(input));
      graph.output(graph.node("attention", values, TRANSOM_BFLOAT16, shape, c.attributes()));
      Program program(*library_, graph);
      ASSERT_EQ(program.error, "");
      EXPECT_TRUE(by_cudnn(program)) << program.describe();
      std::vector<double> found = program.run(inputs)[0].values, expected = Program(*own_, graph).run(inputs)[0].values;
      if (causal && hides) {  // whose queries to the eighth see nothing: either way some average
        for (size_t i = 0; i < 8 * 2 * 64; ++i) {
          double &one = found[found.size() / 2 + i], &other = expected[expected.size() / 2 + i];
          EXPECT_LE(std::abs(one), 1);
          one = other = 0;
        }
      }
      EXPECT_LT(difference({TRANSOM_BFLOAT16, {}, found}, expected), tolerance(TRANSOM_BFLOAT16) * 2)
          << causal << " " << of[0] << " " << of[1];
    }
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

// The library's handle has one stream at a time, whose work must not be taken for another's.
TEST_F(GpuAttentionLibrary, ThreadsRunProgramsOfOnePlanOnStreamsOfTheirOwn) {
  const transom_plugin& table = library_->table;
  AttentionCase other = kPlain;
  other.scale = 0.125;
  const Asked asked[] = {{kPlain, TRANSOM_BFLOAT16}, {other, TRANSOM_BFLOAT16, 5}};
  transom_executable* executables[2] = {};
  std::vector<double> expected[2];
  const auto run = [&](size_t i, transom_stream* stream) {
    return run_at(*library_, executables[i], asked[i].inputs(), TRANSOM_BFLOAT16, {1, 64, 2, 64}, 0, stream);
  };
  for (size_t i = 0; i < 2; ++i) {
    transom_error error{};
    ASSERT_EQ(table.compile(library_->device, asked[i].graph.view(), &executables[i], &error), TRANSOM_OK)
        << error.text;
    expected[i] = run(i, nullptr);
  }
  ASSERT_NE(expected[0], expected[1]);
  std::vector<std::thread> askers;
  for (size_t i = 0; i < 4; ++i)
    askers.emplace_back([&, i] {
      transom_error error{};
      transom_stream* stream = nullptr;
      ASSERT_EQ(table.stream_create(library_->device, &stream, &error), TRANSOM_OK) << error.text;
      for (int k = 0; k < 4; ++k) EXPECT_EQ(run(i % 2, stream), expected[i % 2]) << i << " " << k;
      table.stream_destroy(stream);
    });
  for (std::thread& asker : askers) asker.join();
  for (transom_executable* executable : executables) table.executable_destroy(executable);
}

TEST_F(GpuAttentionLibrary, AProgramKeepsThePlanOfAShapeThatIsForgotten) {
  const Asked first(kPlain, TRANSOM_BFLOAT16);
  Program kept(*library_, first.graph);
  const std::vector<double> before = kept.run(first.inputs())[0].values;
  for (int64_t batch = 2; batch < 300; ++batch) {  // the emulated library keeps no descriptors without end
    Graph graph;
    const int x = graph.input(TRANSOM_BFLOAT16, {batch, 64, 1, 64});
    graph.output(graph.node("attention", {x, x, x}, TRANSOM_BFLOAT16, {batch, 64, 1, 64}, kPlain.attributes()));
    const Program program(*library_, graph);
    ASSERT_EQ(program.error, "") << batch;
    ASSERT_TRUE(by_cudnn(program)) << batch;
  }
  EXPECT_EQ(kept.run(first.inputs())[0].values, before);
  EXPECT_EQ(Program(*library_, first.graph).run(first.inputs())[0].values, before) << "planned again";
}

TEST_F(GpuAttentionLibrary, WhatItRefusesIsComputedByTheOwnKernelAndSaidOnce) {
  ::setenv("TRANSOM_EMULATED_CUDNN_GRAPH", "refuse", 1);
  AttentionCase causal = kPlain;
  causal.causal = true;
  for (const AttentionCase& c : {kPlain, kPlain, causal}) {
    const Asked asked(c, TRANSOM_BFLOAT16);
    Program program(*library_, asked.graph);
    ASSERT_EQ(program.error, "");
    EXPECT_FALSE(by_cudnn(program)) << program.describe();
    EXPECT_EQ(program.run(asked.inputs())[0].values, by_own_kernel(asked));
  }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("own kernel"), std::string::npos) << warnings[0];
}

TEST_F(GpuAttentionLibrary, ARunThatItRefusesIsTheOwnKernels) {
  const Asked asked(kPlain, TRANSOM_BFLOAT16);
  Program program(*library_, asked.graph);
  const std::vector<double> before = program.run(asked.inputs())[0].values;
  ::setenv("TRANSOM_EMULATED_CUDNN_GRAPH", "fail", 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(program.run(asked.inputs())[0].values, by_own_kernel(asked));
  EXPECT_EQ(warnings.size(), 1U);
  ::unsetenv("TRANSOM_EMULATED_CUDNN_GRAPH");
  EXPECT_EQ(program.run(asked.inputs())[0].values, before);
}

TEST_F(GpuAttentionLibrary, OneProgramReadsOperandsAtAnyMultipleOfAnElement) {
  const Asked asked(kPlain, TRANSOM_BFLOAT16);
  const Shape shape{1, 64, 2, 64};
  const std::vector<double> by_library = Program(*library_, asked.graph).run(asked.inputs())[0].values;
  transom_error error{};
  transom_executable* executable = nullptr;
  ASSERT_EQ(library_->table.compile(library_->device, asked.graph.view(), &executable, &error), TRANSOM_OK)
      << error.text;
  for (const size_t elements : {0, 1, 8, 4})
    EXPECT_EQ(run_at(*library_, executable, asked.inputs(), TRANSOM_BFLOAT16, shape, elements * 2),
              elements % 8 == 0 ? by_library : by_own_kernel(asked))
        << elements;
  library_->table.executable_destroy(executable);
}

}  // namespace
}  // namespace transom::backend_test

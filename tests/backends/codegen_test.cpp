// SPDX-License-Identifier: Apache-2.0
// Generated kernels against the interpreter of tile programs: the same bits. The cache of kernels on disk.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

#include "backends/harness.h"
#include "graph/ir/operation.h"
#include "support/temporary_folder.h"

namespace transom::backend_test {
namespace {

namespace fs = std::filesystem;

#if defined(TRANSOM_CPU_CODEGEN)
constexpr bool kGenerates = true;
#else
constexpr bool kGenerates = false;
#endif

// Sets how kernels are made, and where they are kept, for the length of a test.
class Setting {
 public:
  Setting(const char* mode, const std::string& cache) {
    setenv("TRANSOM_CODEGEN", mode, 1);
    setenv("TRANSOM_KERNEL_CACHE", cache.c_str(), 1);
  }
  ~Setting() {
    unsetenv("TRANSOM_CODEGEN");
    unsetenv("TRANSOM_KERNEL_CACHE");
  }
};

Tensor run_in(const char* mode, const Graph& region, const std::vector<Tensor>& inputs, std::string* description) {
  const Setting setting(mode, "off");
  Graph graph;
  std::vector<int> values;
  for (const Tensor& input : inputs) values.push_back(graph.input(input));
  for (int output : graph.fusion(values, region)) graph.output(output);
  Program program(Plugin::cpu(), graph);
  if (!program.compiled()) return {};
  if (description) *description = program.describe();
  return program.run(inputs)[0];
}

size_t compared = 0;

void expect_same_bits(const Graph& region, const std::vector<Tensor>& inputs, const std::string& name) {
  std::string description;
  const Tensor interpreted = run_in("off", region, inputs, nullptr);
  const Tensor generated = run_in("wait", region, inputs, &description);
  if (interpreted.values.empty()) return;  // not defined for the type
  EXPECT_NE(description.find("kernel "), std::string::npos) << description;
  ++compared;
  ASSERT_EQ(interpreted.values.size(), generated.values.size());
  for (size_t i = 0; i < interpreted.values.size(); ++i) {
    const double x = interpreted.values[i], y = generated.values[i];
    ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y)))
        << name << ": element " << i << " is " << x << " interpreted and " << y << " generated";
  }
}

// Numbers of all sizes, with what is special to the type between them.
Tensor samples(transom_dtype dtype, int64_t count, uint64_t seed) {
  Tensor made = numbers(dtype, {count}, -4, 4, seed);
  const bool floating = dtype >= TRANSOM_FLOAT16;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> special =
      floating ? std::vector<double>{0.0, -0.0,   infinity, -infinity, std::nan(""), 1e-40, 3e-39,
                                     1.5, -60000, 88.8,     -103.9,    0.5,          2.5,   1e-6}
               : std::vector<double>{0, 1, 127, 100, 3};
  for (size_t i = 0; i < made.values.size(); ++i) {
    const size_t pick = (i * 2654435761u + seed * 40503u) >> 7;
    if (pick % 3 == 0) made.values[i] = rounded(dtype, special[pick / 3 % special.size()]);
    else if (dtype == TRANSOM_BOOL) made.values[i] = pick % 2;
  }
  return made;
}

const std::vector<transom_dtype> kGeneratedTypes = {TRANSOM_BOOL,    TRANSOM_UINT8,  TRANSOM_INT8,    TRANSOM_INT32,
                                                    TRANSOM_INT64,   TRANSOM_UINT32, TRANSOM_FLOAT16, TRANSOM_BFLOAT16,
                                                    TRANSOM_FLOAT32, TRANSOM_FLOAT64};

std::string device_notes() {
  transom_device_properties properties{};
  properties.struct_size = sizeof properties;
  EXPECT_EQ(Plugin::cpu().table.device_describe(0, &properties, nullptr), TRANSOM_OK);
  return properties.driver;
}

TEST(Codegen, TheDeviceSaysWhatMakesItsKernels) {
  if (!kGenerates) {
    EXPECT_NE(device_notes().find("kernels interpreted (built without LLVM)"), std::string::npos) << device_notes();
    return;
  }
  EXPECT_NE(device_notes().find("kernels by LLVM"), std::string::npos) << device_notes();
  const Setting setting("off", "off");
  EXPECT_NE(device_notes().find("kernels interpreted (TRANSOM_CODEGEN=off)"), std::string::npos) << device_notes();
}

// Whatever has a record as an element-wise primitive, in every type, over counts that leave every kind of rest.
TEST(Codegen, EveryInstructionHasTheBitsOfTheInterpreter) {
  if (!kGenerates) GTEST_SKIP() << "built without LLVM";
  compared = 0;
  for (const transom::Operation* operation : transom::all_operations()) {
    if (!operation->elementwise || operation->kind != transom::OperationKind::kPrimitive) continue;
    const std::string name(operation->name);
    const bool truth = name.find("equal") != name.npos || name == "less" || name == "greater" ||
                       name == "logical_not" || name == "is_finite";
    for (const transom_dtype dtype : kGeneratedTypes)
      for (const int64_t count : {1, 7, 16, 515}) {
        for (size_t arity = 1; arity <= 3; ++arity) {
          for (const transom_dtype to : kGeneratedTypes) {
            if (name == "cast" ? arity != 1 : to != (truth ? TRANSOM_BOOL : dtype)) continue;
            Graph region;
            std::vector<int> values;
            std::vector<Tensor> inputs;
            for (size_t i = 0; i < arity; ++i) {
              const transom_dtype type = name == "select" && i == 0 ? TRANSOM_BOOL : dtype;
              inputs.push_back(samples(type, count, i + 1));
              values.push_back(region.input(type, {count}));
            }
            std::vector<Attribute> attributes;
            if (name == "cast") attributes.emplace_back("dtype", to);
            region.output(region.node(name.c_str(), values, to, {count}, attributes));
            expect_same_bits(region, inputs, name + " of type " + std::to_string(dtype));
          }
        }
      }
  }
  EXPECT_GT(compared, 1000u);
}

// gelu-like, with a number of its own so that no other test has made its kernel.
Graph chain(const Shape& shape, double own) {
  Graph region;
  const transom_dtype f32 = TRANSOM_FLOAT32;
  const int x = region.input(f32, shape), bias = region.input(f32, {shape.back()});
  const auto scalar = [&](double value) {
    const int made = region.node("constant", {}, f32, {}, {{"value", value}, {"dtype", f32}});
    return region.node("broadcast", {region.node("reshape", {made}, f32, Shape(shape.size(), 1))}, f32, shape);
  };
  Shape row(shape.size(), 1);
  row.back() = shape.back();
  const int repeated = region.node("broadcast", {region.node("reshape", {bias}, f32, row)}, f32, shape);
  const int sum = region.node("add", {x, repeated}, f32, shape);
  const int bent = region.node("tanh", {region.node("mul", {sum, scalar(own)}, f32, shape)}, f32, shape);
  region.output(region.node("mul", {sum, region.node("add", {bent, scalar(1)}, f32, shape)}, f32, shape));
  return region;
}

// One comparison decides beside a number that is known: no number and both zeros are as they were.
TEST(Codegen, ClampsBesideConstantsHaveTheBitsOfTheInterpreter) {
  if (!kGenerates) GTEST_SKIP() << "built without LLVM";
  const double infinity = std::numeric_limits<double>::infinity();
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_FLOAT64, TRANSOM_BFLOAT16})
    for (const double limit : {0.0, -0.0, 1.5, -255.0, infinity, -infinity, std::nan("")})
      for (const char* operation : {"maximum", "minimum"})
        for (const bool first : {false, true}) {
          const Shape shape = {515};
          Graph region;
          const int x = region.input(dtype, shape);
          const int made = region.node("constant", {}, dtype, {}, {{"value", limit}, {"dtype", dtype}});
          const int all = region.node("broadcast", {region.node("reshape", {made}, dtype, {1})}, dtype, shape);
          region.output(
              region.node(operation, first ? std::vector<int>{all, x} : std::vector<int>{x, all}, dtype, shape));
          expect_same_bits(region, {samples(dtype, 515, 3)}, std::string(operation) + " of " + std::to_string(limit));
        }
}

std::vector<Tensor> inputs_of(const Shape& shape) {
  return {numbers(TRANSOM_FLOAT32, shape), numbers(TRANSOM_FLOAT32, {shape.back()}, -1, 1, 7)};
}

std::string kernel_name(const std::string& description) {
  const size_t at = description.find("kernel ");
  return at == description.npos ? "" : description.substr(at, 23);
}

size_t files_in(const fs::path& folder) {
  size_t files = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) files += entry.is_regular_file();
  return files;
}

TEST(Codegen, NewExtentsCompileNothing) {
  if (!kGenerates) GTEST_SKIP() << "built without LLVM";
  const test::TemporaryFolder folder;
  std::string first;
  for (const Shape& shape : {Shape{8, 128, 256}, Shape{3, 77, 100}, Shape{1, 1, 64}, Shape{5, 0, 96}, Shape{2, 1001}}) {
    const Graph region = chain(shape, 0.731);
    const std::vector<Tensor> inputs = inputs_of(shape);
    const Setting setting("wait", folder.string());
    Graph graph;
    const int x = graph.input(inputs[0]), bias = graph.input(inputs[1]);
    graph.output(graph.fusion({x, bias}, region)[0]);
    Program program(Plugin::cpu(), graph);
    program.run(inputs);
    const std::string name = kernel_name(program.describe());
    EXPECT_NE(name, "");
    if (first.empty()) first = name;
    EXPECT_EQ(name, first);
    EXPECT_EQ(files_in(folder), 1u);
    EXPECT_NE(std::string(program.describe()).find("define void @kernel"), std::string::npos);
  }
}

// The interpreter gives way to the code in the middle, and nobody sees it.
TEST(Codegen, CodeTakesOverInTheBackground) {
  if (!kGenerates) GTEST_SKIP() << "built without LLVM";
  const test::TemporaryFolder folder;
  const Shape shape = {300, 1003};
  const Graph region = chain(shape, 0.733);
  const std::vector<Tensor> inputs = inputs_of(shape);
  const Tensor expected = run_in("off", region, inputs, nullptr);
  const Setting setting("background", folder.string());
  Graph graph;
  const int x = graph.input(inputs[0]), bias = graph.input(inputs[1]);
  graph.output(graph.fusion({x, bias}, region)[0]);
  Program program(Plugin::cpu(), graph);
  int after = 0;
  for (int i = 0; i < 5000 && after < 3; ++i) {
    if (files_in(folder)) ++after;
    EXPECT_EQ(program.run(inputs)[0].values, expected.values) << i;
  }
  EXPECT_EQ(after, 3) << "no kernel was compiled";
}

// What the test below runs in processes of its own.
TEST(Codegen, DISABLED_OneProcess) {
  const Shape shape = {40, 515};
  const Graph region = chain(shape, 0.737);
  const std::vector<Tensor> inputs = inputs_of(shape);
  Graph graph;
  const int x = graph.input(inputs[0]), bias = graph.input(inputs[1]);
  graph.output(graph.fusion({x, bias}, region)[0]);
  Program program(Plugin::cpu(), graph);
  const Tensor generated = program.run(inputs)[0];
  EXPECT_EQ(generated.values, run_in("off", region, inputs, nullptr).values);
}

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Codegen, ProcessesShareKernelsAndSurviveBadOnes) {
  if (!kGenerates) GTEST_SKIP() << "built without LLVM";
  const test::TemporaryFolder folder;
  const std::string command = "TRANSOM_CODEGEN=wait TRANSOM_KERNEL_CACHE=" + folder.string() + " " +
                              fs::read_symlink("/proc/self/exe").string() +
                              " --gtest_also_run_disabled_tests --gtest_filter=Codegen.DISABLED_OneProcess >" +
                              folder.string() + "/../$$.log 2>&1; status=$?; rm -f " + folder.string() +
                              "/../$$.log; exit $status";
  // Four at once, none of which finds anything.
  ASSERT_EQ(std::system(("for i in 1 2 3 4; do (" + command +
                         ") & all=\"$all $!\"; done; "
                         "for one in $all; do wait $one || exit 1; done")
                            .c_str()),
            0);
  ASSERT_EQ(files_in(folder), 1u);
  const fs::path kernel = fs::directory_iterator(folder)->path();
  const std::string good = bytes_of_file(kernel);
  for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2), std::string(good.size(), '\xcc')}) {
    std::ofstream(kernel, std::ios::binary).write(bad.data(), static_cast<std::streamsize>(bad.size()));
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(bytes_of_file(kernel), good);
  }
  const auto written = fs::last_write_time(kernel);
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(fs::last_write_time(kernel), written);  // read, not made again
}

// What the test below runs in processes of its own: an exit so many milliseconds after a kernel was asked for.
TEST(Codegen, DISABLED_ExitWhileCompiling) {
  const Shape shape = {40, 515};
  const Graph region = chain(shape, 0.739);
  const std::vector<Tensor> inputs = inputs_of(shape);
  Graph graph;
  const int x = graph.input(inputs[0]), bias = graph.input(inputs[1]);
  graph.output(graph.fusion({x, bias}, region)[0]);
  const Program program(Plugin::cpu(), graph);
  std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(std::getenv("MILLISECONDS"))));
  std::exit(0);
}

// LLVM is opened by the thread that compiles; the process may end in the middle of it.
TEST(Codegen, ProcessesEndWhileTheyCompile) {
  if (!kGenerates) GTEST_SKIP() << "built without LLVM";
  const std::string command = "TRANSOM_CODEGEN=wait TRANSOM_KERNEL_CACHE=off timeout 20 " +
                              fs::read_symlink("/proc/self/exe").string() +
                              " --gtest_also_run_disabled_tests --gtest_filter=Codegen.DISABLED_ExitWhileCompiling "
                              ">/dev/null 2>&1";
  EXPECT_EQ(std::system(("for ms in $(seq 0 2 80); do MILLISECONDS=$ms " + command + " || exit 1; done").c_str()), 0);
}

}  // namespace
}  // namespace transom::backend_test

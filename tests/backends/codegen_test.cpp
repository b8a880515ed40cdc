// SPDX-License-Identifier: Apache-2.0
// Generated kernels against the interpreter of tile programs: the same bits. The cache of kernels on disk.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "backends/harness.h"
#include "ir/operation.h"

namespace transom::backend_test {
namespace {

namespace fs = std::filesystem;

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

const std::vector<transom_dtype> kTypes = {TRANSOM_BOOL,    TRANSOM_UINT8,  TRANSOM_INT8,    TRANSOM_INT32,
                                           TRANSOM_INT64,   TRANSOM_UINT32, TRANSOM_FLOAT16, TRANSOM_BFLOAT16,
                                           TRANSOM_FLOAT32, TRANSOM_FLOAT64};

// Whatever has a record as an element-wise primitive, in every type, over counts that leave every kind of rest.
TEST(Codegen, EveryInstructionHasTheBitsOfTheInterpreter) {
  compared = 0;
  for (const transom::Operation* operation : transom::all_operations()) {
    if (!operation->elementwise || operation->kind != transom::OperationKind::kPrimitive) continue;
    const std::string name(operation->name);
    const bool truth = name.find("equal") != name.npos || name == "less" || name == "greater" ||
                       name == "logical_not" || name == "is_finite";
    for (const transom_dtype dtype : kTypes)
      for (const int64_t count : {1, 7, 16, 515}) {
        for (size_t arity = 1; arity <= 3; ++arity) {
          for (const transom_dtype to : kTypes) {
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

}  // namespace
}  // namespace transom::backend_test

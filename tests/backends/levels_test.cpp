// SPDX-License-Identifier: Apache-2.0
// These tests run once for each level of TRANSOM_CPU_ISA (tests/CMakeLists.txt); all are skipped where the processor is
// below the level. What a level means for results that are no approximations is here: int8 has the same bits at all.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

std::string limit() {
  const char* text = std::getenv("TRANSOM_CPU_ISA");
  return text ? text : "";
}

transom_device_properties describe() {
  transom_device_properties properties{};
  properties.struct_size = sizeof properties;
  transom_error error{};
  Plugin::cpu().table.device_describe(0, &properties, &error);
  return properties;
}

// Whether the device says of itself that it has what the level adds to the levels below.
bool has_level(const std::string& level) {
  const std::string words = std::string(", ") + describe().architecture + ",";
  return level.empty() || words.find(", " + level + ",") != std::string::npos ||
         (level == "amx" && words.find(", amx_int8,") != std::string::npos);
}

class NeedsTheLevel : public testing::Environment {
  void SetUp() override {
    if (!has_level(limit())) GTEST_SKIP() << "[  SKIPPED ] this processor has no " << limit();
  }
};
const testing::Environment* const kNeedsTheLevel = testing::AddGlobalTestEnvironment(new NeedsTheLevel);

TEST(Levels, AnUnknownOneIsRefusedInOneLine) {
  const std::string before = limit();
  setenv("TRANSOM_CPU_ISA", "avx3", 1);
  try {
    const Plugin plugin("cpu");
    ADD_FAILURE() << "expected the plugin to refuse";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(),
                 "TRANSOM_CPU_ISA: expected one of portable, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, amx, "
                 "found 'avx3'");
  }
  if (before.empty()) unsetenv("TRANSOM_CPU_ISA");
  else setenv("TRANSOM_CPU_ISA", before.c_str(), 1);
}

// What oneDNN says that it uses, as bits of dnnl_cpu_isa_t; 0 where it is not in the process. A product comes before
// the question: the device limits the library when it first uses it.
unsigned isa_of_the_library() {
  const Tensor x = numbers(TRANSOM_FLOAT32, {64, 64}, -1, 1, 1), w = numbers(TRANSOM_FLOAT32, {64, 64}, -1, 1, 2);
  evaluate("linear", {x, w}, TRANSOM_FLOAT32, {64, 64}, {{"transposed", 0}});
  void* library = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_NOLOAD);
  const auto effective =
      library ? reinterpret_cast<unsigned (*)()>(dlsym(library, "dnnl_get_effective_cpu_isa")) : nullptr;
  return effective ? effective() : 0;
}

TEST(Levels, BoundTheLibraryToo) {
  const std::map<std::string, unsigned> most = {
      {"", ~0u},        {"portable", 0x1},     {"avx2", 0x7},         {"avx2_vnni", 0xf},
      {"avx512", 0x27}, {"avx512_vnni", 0x67}, {"avx512_bf16", 0xe7}, {"amx", 0xfef}};
  EXPECT_EQ(isa_of_the_library() & ~most.at(limit()), 0u) << std::hex << isa_of_the_library();
}

// oneDNN has products of bf16 from avx512_bf16 on; its products of many rows of bytes are those with AMX.
TEST(Levels, TheDeviceClaimsWhatTheLibraryHas) {
  const unsigned library = isa_of_the_library();
  EXPECT_EQ((describe().fast_dtypes & (1u << TRANSOM_BFLOAT16)) != 0, (library & 0xe7) == 0xe7);
  Graph graph;
  const int x = graph.input(TRANSOM_FLOAT32, {40, 64}), w = graph.input(TRANSOM_FLOAT32, {128, 64});
  graph.output(graph.node("quantized_linear", {x, w}, TRANSOM_FLOAT32, {40, 128}, {{"transposed", 0}}));
  const Program program(Plugin::cpu(), graph);
  const bool of_the_library = program.describe().find("bytes u8 i8, onednn") != std::string::npos;
  EXPECT_EQ(of_the_library, (library & 0xfef) == 0xfef) << program.describe();
}

// ---- quantized_linear

float largest_of(const float* x, int64_t n, int64_t step) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i * step]));
  return largest;
}

// As its kernel defines it, in plain loops: x [m, k], w [n, k] or [k, n]; the sums are exact.
std::vector<double> quantized(const Tensor& x, const Tensor& w, const Tensor& bias, bool transposed) {
  const int64_t k = x.shape[1], m = x.shape[0], n = w.shape[transposed ? 1 : 0];
  const std::vector<float> a(x.values.begin(), x.values.end()), b(w.values.begin(), w.values.end());
  std::vector<double> y;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float* row = a.data() + i * k;
      const float* column = b.data() + (transposed ? j : j * k);
      const int64_t step = transposed ? n : 1;
      const float row_scale = largest_of(row, k, 1) * (1.0f / 127.0f);
      const float column_scale = largest_of(column, k, step) * (1.0f / 127.0f);
      int64_t sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += static_cast<int64_t>(std::nearbyintf(row[l] / (row_scale > 0 ? row_scale : 1))) *
               static_cast<int64_t>(std::nearbyintf(column[l * step] / (column_scale > 0 ? column_scale : 1)));
      y.push_back(std::fma(static_cast<float>(sum), row_scale * column_scale,
                           static_cast<float>(bias.values[static_cast<size_t>(j)])));
    }
  return y;
}

void expect_the_same_bits(const Tensor& x, const Tensor& w, bool transposed, double least = -1, double most = 1) {
  const int64_t n = w.shape[transposed ? 1 : 0];
  const Tensor bias = numbers(TRANSOM_FLOAT32, {n}, least, most, 3);
  const Tensor y = evaluate("quantized_linear", {x, w, bias}, TRANSOM_FLOAT32, {x.shape[0], n},
                            {{"transposed", transposed ? 1 : 0}});
  EXPECT_EQ(y.values, quantized(x, w, bias, transposed))
      << x.shape[0] << " " << n << " " << x.shape[1] << (transposed ? " transposed" : "");
}

TEST(QuantizedLinear, HasTheSameBitsAtEveryLevel) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {1, 5, 17},
                                {3, 64, 64},
                                {5, 130, 33},
                                {7, 31, 8},
                                {33, 70, 384},
                                {130, 200, 96},
                                {300, 65, 3},
                                {1, 64, 512},
                                {2, 190, 100},
                                {4, 256, 68},
                                {6, 320, 1024},
                                {8, 67, 64},
                                {11, 128, 260},
                                {16, 192, 36},
                                {17, 192, 36}})
    for (const bool transposed : {false, true})
      expect_the_same_bits(numbers(TRANSOM_FLOAT32, {m, k}, -1, 1, 1),
                           numbers(TRANSOM_FLOAT32, transposed ? Shape{k, n} : Shape{n, k}, -1, 1, 2), transposed);
}

// Blocks of rows of every size.
TEST(QuantizedLinear, OfEveryCountOfRows) {
  for (int64_t m = 1; m < 40; ++m)
    expect_the_same_bits(numbers(TRANSOM_FLOAT32, {m, 68}, -1, 1, 1), numbers(TRANSOM_FLOAT32, {128, 68}, -1, 1, 2),
                         false);
}

Tensor filled(Shape shape, double value) {
  Tensor made{TRANSOM_FLOAT32, std::move(shape), {}};
  made.values.assign(static_cast<size_t>(made.count()), value);
  return made;
}

// Pairs of the largest products do not fit 16 bits.
TEST(QuantizedLinear, DoesNotSaturate) {
  for (const double x : {1.0, -1.0})
    for (const int64_t k : {2, 8, 64, 384}) expect_the_same_bits(filled({9, k}, x), filled({40, k}, 1), false);
}

// Sums of unsigned and signed bytes leave 31 bits from a depth of 66,312 on, those of signed ones from 133,144.
TEST(QuantizedLinear, DeepSumsAreExact) {
  for (const int64_t k : {65'535, 65'536, 65'537, 66'400, 140'001}) {
    expect_the_same_bits(filled({2, k}, 1), filled({3, k}, 1), false);
    expect_the_same_bits(filled({2, k}, -1), filled({3, k}, 1), false);
    expect_the_same_bits(numbers(TRANSOM_FLOAT32, {3, k}, -1, 1, 1), numbers(TRANSOM_FLOAT32, {5, k}, -1, 1, 2), false);
  }
}

TEST(QuantizedLinear, OfNoDepthIsTheBias) { expect_the_same_bits(filled({2, 0}, 1), filled({3, 0}, 1), false); }

// The packed weight of one number of rows is read by the loops of another.
TEST(QuantizedLinear, AFrozenWeightServesFewRowsAndMany) {
  const Tensor w = numbers(TRANSOM_FLOAT32, {200, 96}, -1, 1, 2);
  for (const bool few_first : {false, true})
    for (size_t i = 0; i < 2; ++i) {
      const int64_t rows = (i == 0) == few_first ? 3 : 40;
      const Tensor x = numbers(TRANSOM_FLOAT32, {rows, 96});
      Graph graph;
      const int input = graph.input(x), weight = graph.input(w, true);
      graph.output(graph.node("quantized_linear", {input, weight}, TRANSOM_FLOAT32, {rows, 200}, {{"transposed", 0}}));
      Program program(Plugin::cpu(), graph);
      EXPECT_EQ(program.run({x, w})[0].values, quantized(x, w, filled({200}, 0), false)) << rows;
    }
}

TEST(QuantizedLinear, AFrozenWeightIsPackedOnce) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {5, 96}), w = numbers(TRANSOM_FLOAT32, {70, 96}, -1, 1, 2);
  Graph graph;
  const int input = graph.input(x), weight = graph.input(w, true);
  graph.output(graph.node("quantized_linear", {input, weight}, TRANSOM_FLOAT32, {5, 70}, {{"transposed", 0}}));
  Program program(Plugin::cpu(), graph);
  const Tensor found = program.run({x, w})[0];
  EXPECT_EQ(found.values, quantized(x, w, filled({70}, 0), false));
}

}  // namespace
}  // namespace transom::backend_test

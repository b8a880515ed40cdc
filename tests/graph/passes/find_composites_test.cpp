// SPDX-License-Identifier: Apache-2.0
// Composites that exporters spell out are found, and what only looks like them is left as it is.
#include "graph/passes/composites/find_composites.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/passes/passes.h"

namespace transom {
namespace {

// The graph afterwards, without what simplifying takes away.
std::string found(std::string_view text, const LeafNumber& number = {}) {
  return print_graph(simplify(find_composites(parse_graph(text), number)));
}

bool holds(const std::string& text, std::string_view operation) {
  return text.find(fmt::format("= {}(", operation)) != text.npos;
}

// ---- gelu

std::string gelu_by_erf(double half, double root, std::string_view last) {
  return fmt::format(R"(graph(%0: f32[4]) {{
    %1 = constant() {{dtype=8, value={}}} : f32[]
    %901 = reshape(%1) {{shape=[1]}} : f32[1]
    %2 = broadcast(%901) {{shape=[4]}} : f32[4]
    %3 = div(%0, %2) : f32[4]
    %4 = erf(%3) : f32[4]
    %5 = constant() {{dtype=8, value=1.0}} : f32[]
    %905 = reshape(%5) {{shape=[1]}} : f32[1]
    %6 = broadcast(%905) {{shape=[4]}} : f32[4]
    %7 = add(%4, %6) : f32[4]
    %8 = constant() {{dtype=8, value={}}} : f32[]
    %908 = reshape(%8) {{shape=[1]}} : f32[1]
    %9 = broadcast(%908) {{shape=[4]}} : f32[4]
    {}
    return %11
  }})",
                     root, half, last);
}

TEST(FindComposites, GeluByTheErrorFunction) {
  const std::string expected = "graph(%0: f32[4]) {\n  %1 = gelu(%0) : f32[4]\n  return %1\n}\n";
  // optimum: (x (erf + 1)) 0.5; torch: (x 0.5) (erf + 1); others put the half to the sum.
  for (const char* last : {"%10 = mul(%0, %7) : f32[4]\n %11 = mul(%10, %9) : f32[4]",
                           "%10 = mul(%0, %9) : f32[4]\n %11 = mul(%10, %7) : f32[4]",
                           "%10 = mul(%9, %7) : f32[4]\n %11 = mul(%10, %0) : f32[4]"})
    EXPECT_EQ(found(gelu_by_erf(0.5, 1.4142135381698608, last)), expected) << last;
}

TEST(FindComposites, OtherNumbersAreNoGelu) {
  const char* last = "%10 = mul(%0, %7) : f32[4]\n %11 = mul(%10, %9) : f32[4]";
  EXPECT_TRUE(holds(found(gelu_by_erf(0.51, 1.4142135381698608, last)), "erf"));
  EXPECT_TRUE(holds(found(gelu_by_erf(0.5, 1.414, last)), "erf"));
  // Another value times the distribution.
  EXPECT_TRUE(holds(found(gelu_by_erf(0.5, 1.4142135381698608,
                                      "%12 = exp(%0) : f32[4]\n %10 = mul(%12, %7) : f32[4]\n %11 = mul(%10, %9) : "
                                      "f32[4]")),
                    "erf"));
}

TEST(FindComposites, GeluByTanhWithNumbersOfLeaves) {
  const std::string text = R"(graph(%0: f32[4], %1: f32[1], %2: f32[1], %3: f32[1], %4: f32[1], %5: f32[1]) {
    %6 = broadcast(%1) {shape=[4]} : f32[4]
    %7 = pow(%0, %6) : f32[4]
    %8 = broadcast(%2) {shape=[4]} : f32[4]
    %9 = mul(%8, %7) : f32[4]
    %10 = add(%0, %9) : f32[4]
    %11 = broadcast(%3) {shape=[4]} : f32[4]
    %12 = mul(%11, %10) : f32[4]
    %13 = tanh(%12) : f32[4]
    %14 = broadcast(%4) {shape=[4]} : f32[4]
    %15 = add(%14, %13) : f32[4]
    %16 = broadcast(%5) {shape=[4]} : f32[4]
    %17 = mul(%0, %16) : f32[4]
    %18 = mul(%17, %15) : f32[4]
    return %18
  })";
  std::vector<double> numbers{3, 0.044715, 0.7978845834732056, 1, 0.5};
  const auto find = [&] {
    const Graph graph = parse_graph(text);
    const auto number = [&](const Tensor& leaf) -> std::optional<double> {
      for (size_t i = 1; i < graph.inputs.size(); ++i)
        if (graph.inputs[i].same_as(leaf)) return numbers[i - 1];
      return std::nullopt;
    };
    return print_graph(find_composites(graph, number));
  };
  EXPECT_TRUE(holds(find(), "gelu_tanh"));
  EXPECT_FALSE(holds(find(), "tanh"));
  numbers[1] = 0.05;
  EXPECT_FALSE(holds(find(), "gelu_tanh"));
  EXPECT_FALSE(holds(found(text), "gelu_tanh"));  // what the leaves are is not known
}

// ---- norms

// Of `squared` squared; `root` is sqrt or rsqrt of the mean.
std::string norm(std::string_view squared, std::string_view root, std::string_view last) {
  return fmt::format(R"(graph(%0: f32[2, 4], %1: f32[4], %2: f32[4]) {{
    %3 = constant() {{dtype=8, value=4.0}} : f32[]
    %903 = reshape(%3) {{shape=[1, 1]}} : f32[1, 1]
    %4 = broadcast(%903) {{shape=[2, 1]}} : f32[2, 1]
    %5 = reduce_sum(%0) {{axes=[1]}} : f32[2]
    %6 = reshape(%5) {{shape=[2, 1]}} : f32[2, 1]
    %7 = div(%6, %4) : f32[2, 1]
    %8 = broadcast(%7) {{shape=[2, 4]}} : f32[2, 4]
    %9 = sub(%0, %8) : f32[2, 4]
    %10 = mul({}, {}) : f32[2, 4]
    %11 = reduce_sum(%10) {{axes=[1]}} : f32[2]
    %12 = reshape(%11) {{shape=[2, 1]}} : f32[2, 1]
    %13 = div(%12, %4) : f32[2, 1]
    %14 = constant() {{dtype=8, value=0.001}} : f32[]
    %914 = reshape(%14) {{shape=[1, 1]}} : f32[1, 1]
    %15 = broadcast(%914) {{shape=[2, 1]}} : f32[2, 1]
    %16 = add(%13, %15) : f32[2, 1]
    %17 = {}(%16) : f32[2, 1]
    %18 = broadcast(%17) {{shape=[2, 4]}} : f32[2, 4]
    %19 = reshape(%1) {{shape=[1, 4]}} : f32[1, 4]
    %20 = broadcast(%19) {{shape=[2, 4]}} : f32[2, 4]
    {}
    return %23
  }})",
                     squared, squared, root, last);
}

TEST(FindComposites, LayerNorm) {
  const std::string with_bias = R"(%22 = mul(%20, %21) : f32[2, 4]
    %24 = reshape(%2) {shape=[1, 4]} : f32[1, 4]
    %25 = broadcast(%24) {shape=[2, 4]} : f32[2, 4]
    %23 = add(%22, %25) : f32[2, 4])";
  const std::string expected = R"(graph(%0: f32[2, 4], %1: f32[4], %2: f32[4]) {
  %3 = layer_norm(%0, %1, %2) {epsilon=0.001} : f32[2, 4]
  return %3
}
)";
  EXPECT_EQ(found(norm("%9", "sqrt", "%21 = div(%9, %18) : f32[2, 4]\n" + with_bias)), expected);
  EXPECT_EQ(found(norm("%9", "rsqrt", "%21 = mul(%9, %18) : f32[2, 4]\n" + with_bias)), expected);
  // The variance of another value.
  EXPECT_FALSE(holds(found(norm("%0", "sqrt", "%21 = div(%9, %18) : f32[2, 4]\n" + with_bias)), "layer_norm"));
}

TEST(FindComposites, RmsNorm) {
  EXPECT_EQ(found(norm("%0", "rsqrt", "%21 = mul(%0, %18) : f32[2, 4]\n%23 = mul(%20, %21) : f32[2, 4]")),
            R"(graph(%0: f32[2, 4], %1: f32[4], %2: f32[4]) {
  %3 = rms_norm(%0, %1) {epsilon=0.001} : f32[2, 4]
  return %3
}
)");
  // A quotient in place of a product.
  EXPECT_FALSE(
      holds(found(norm("%0", "rsqrt", "%21 = div(%0, %18) : f32[2, 4]\n%23 = mul(%20, %21) : f32[2, 4]")), "rms_norm"));
}

TEST(FindComposites, Softmax) {
  const auto parts = [](std::string_view sum_of) {
    return fmt::format(R"(graph(%0: f32[2, 4], %1: f32[2, 4]) {{
    %2 = reduce_max(%0) {{axes=[1]}} : f32[2]
    %3 = reshape(%2) {{shape=[2, 1]}} : f32[2, 1]
    %4 = broadcast(%3) {{shape=[2, 4]}} : f32[2, 4]
    %5 = sub(%0, %4) : f32[2, 4]
    %6 = exp(%5) : f32[2, 4]
    %7 = reduce_sum({}) {{axes=[1]}} : f32[2]
    %8 = reshape(%7) {{shape=[2, 1]}} : f32[2, 1]
    %9 = broadcast(%8) {{shape=[2, 4]}} : f32[2, 4]
    %10 = div(%6, %9) : f32[2, 4]
    return %10
  }})",
                       sum_of);
  };
  EXPECT_TRUE(holds(found(parts("%6")), "softmax"));
  EXPECT_FALSE(holds(found(parts("%1")), "softmax"));
}

// Of a square, sums of rows may stand under the columns: then it is no softmax.
TEST(FindComposites, NoSoftmaxWhereSumsOfRowsDivideColumns) {
  const auto divided = [](std::string_view shape) {
    return fmt::format(R"(graph(%0: f32[4, 4]) {{
    %1 = reduce_max(%0) {{axes=[1]}} : f32[4]
    %2 = reshape(%1) {{shape=[4, 1]}} : f32[4, 1]
    %3 = broadcast(%2) {{shape=[4, 4]}} : f32[4, 4]
    %4 = sub(%0, %3) : f32[4, 4]
    %5 = exp(%4) : f32[4, 4]
    %6 = reduce_sum(%5) {{axes=[1]}} : f32[4]
    %7 = reshape(%6) {{shape=[{0}]}} : f32[{0}]
    %8 = broadcast(%7) {{shape=[4, 4]}} : f32[4, 4]
    %9 = div(%5, %8) : f32[4, 4]
    return %9
  }})",
                       shape);
  };
  EXPECT_TRUE(holds(found(divided("4, 1")), "softmax"));
  EXPECT_FALSE(holds(found(divided("1, 4")), "softmax"));
}

// ---- attention

constexpr const char* kHeads =
    R"(graph(%0: f32[1, 4, 3, 8], %1: f32[1, 2, 5, 8], %2: f32[1, 2, 5, 8], %3: f32[1, 1, 1, 5],
    %4: bool[1, 1, 3, 5]) {
    %5 = reshape(%1) {shape=[1, 2, 1, 5, 8]} : f32[1, 2, 1, 5, 8]
    %6 = broadcast(%5) {shape=[1, 2, 2, 5, 8]} : f32[1, 2, 2, 5, 8]
    %7 = reshape(%6) {shape=[1, 4, 5, 8]} : f32[1, 4, 5, 8]
    %8 = permute(%7) {permutation=[0, 1, 3, 2]} : f32[1, 4, 8, 5]
    %9 = reshape(%2) {shape=[1, 2, 1, 5, 8]} : f32[1, 2, 1, 5, 8]
    %10 = broadcast(%9) {shape=[1, 2, 2, 5, 8]} : f32[1, 2, 2, 5, 8]
    %11 = reshape(%10) {shape=[1, 4, 5, 8]} : f32[1, 4, 5, 8]
    %12 = dot_general(%0, %8) {dtype=8, x_batch=[0, 1], x_contract=[3], y_batch=[0, 1], y_contract=[2]} : f32[1, 4, 3, 5]
    %13 = constant() {dtype=8, value=0.25} : f32[]
    %913 = reshape(%13) {shape=[1, 1, 1, 1]} : f32[1, 1, 1, 1]
    %14 = broadcast(%913) {shape=[1, 4, 3, 5]} : f32[1, 4, 3, 5]
    %15 = broadcast(%3) {shape=[1, 4, 3, 5]} : f32[1, 4, 3, 5]
    %16 = broadcast(%4) {shape=[1, 4, 3, 5]} : bool[1, 4, 3, 5]
)";

std::string attended(std::string_view scores) {
  return fmt::format(R"({}{}
    %30 = softmax(%29) : f32[1, 4, 3, 5]
    %31 = dot_general(%30, %11) {{dtype=8, x_batch=[0, 1], x_contract=[3], y_batch=[0, 1], y_contract=[2]}} : f32[1, 4, 3, 8]
    %32 = permute(%31) {{permutation=[0, 2, 1, 3]}} : f32[1, 3, 4, 8]
    return %32
  }})",
                     kHeads, scores);
}

TEST(FindComposites, AttentionWithScaleBiasAndSharedKeys) {
  EXPECT_EQ(
      found(attended("%17 = mul(%12, %14) : f32[1, 4, 3, 5]\n%29 = add(%17, %15) : f32[1, 4, 3, 5]")),
      R"(graph(%0: f32[1, 4, 3, 8], %1: f32[1, 2, 5, 8], %2: f32[1, 2, 5, 8], %3: f32[1, 1, 1, 5], %4: bool[1, 1, 3, 5]) {
  %5 = permute(%0) {permutation=[0, 2, 1, 3]} : f32[1, 3, 4, 8]
  %6 = permute(%1) {permutation=[0, 2, 1, 3]} : f32[1, 5, 2, 8]
  %7 = permute(%2) {permutation=[0, 2, 1, 3]} : f32[1, 5, 2, 8]
  %8 = attention(%5, %6, %7, %3) {biased=1, causal=0, dropout=0.0, scale=0.25, sliding_window=0, soft_cap=0.0} : f32[1, 3, 4, 8]
  return %8
}
)");
}

TEST(FindComposites, AttentionWithAMaskThatReplacesScores) {
  const auto masked = [](std::string_view number) {
    return attended(fmt::format(R"(%17 = constant() {{dtype=8, value={}}} : f32[]
    %917 = reshape(%17) {{shape=[1, 1, 1, 1]}} : f32[1, 1, 1, 1]
    %18 = broadcast(%917) {{shape=[1, 4, 3, 5]}} : f32[1, 4, 3, 5]
    %29 = select(%16, %12, %18) : f32[1, 4, 3, 5])",
                                number));
  };
  const std::string low = found(masked("-3.4028234663852886e+38"));
  EXPECT_TRUE(holds(low, "attention")) << low;
  EXPECT_NE(low.find("select(%4, "), low.npos) << low;  // as small as the mask is
  // Beside -100 a score would show.
  EXPECT_FALSE(holds(found(masked("-100.0")), "attention"));
}

TEST(FindComposites, WhatOnlyLooksLikeAttention) {
  // The bias is scaled, too.
  EXPECT_FALSE(holds(found(attended("%17 = add(%12, %15) : f32[1, 4, 3, 5]\n%29 = mul(%17, %14) : f32[1, 4, 3, 5]")),
                     "attention"));
  // The scores are squared.
  EXPECT_FALSE(holds(found(attended("%29 = mul(%12, %12) : f32[1, 4, 3, 5]")), "attention"));
}

// ---- scalars and empty tensors

TEST(FindComposites, ScalarsHaveNoRows) {
  for (const char* operation : {"mul", "div", "add", "sub"})
    for (const char* other : {"%0", "%1", "%2"}) {
      const std::string text = fmt::format(
          "graph(%0: f32[], %1: f32[]) {{\n  %2 = constant() {{dtype=8, value=2.0}} : f32[]\n  %3 = {}(%0, {}) : "
          "f32[]\n "
          " %4 = mul(%3, %1) : f32[]\n  %5 = add(%4, %2) : f32[]\n  return %5\n}}\n",
          operation, other);
      EXPECT_TRUE(holds(found(text), "add")) << text;
    }
}

TEST(FindComposites, BiasesOfNoKeysStayEmpty) {
  // Extents of 1 and of 0 broadcast to 0.
  const std::string text = found(R"(graph(%0: f32[1, 2, 3, 4], %1: f32[1, 2, 4, 0], %2: f32[1, 2, 0, 4],
                                     %3: f32[1, 1, 3, 1], %4: f32[1, 1, 1, 0]) {
    %5 = dot_general(%0, %1) {dtype=8, x_batch=[0, 1], x_contract=[3], y_batch=[0, 1], y_contract=[2]} : f32[1, 2, 3, 0]
    %6 = broadcast(%3) {shape=[1, 2, 3, 0]} : f32[1, 2, 3, 0]
    %7 = add(%5, %6) : f32[1, 2, 3, 0]
    %8 = broadcast(%4) {shape=[1, 2, 3, 0]} : f32[1, 2, 3, 0]
    %9 = add(%7, %8) : f32[1, 2, 3, 0]
    %10 = softmax(%9) : f32[1, 2, 3, 0]
    %11 = dot_general(%10, %2) {dtype=8, x_batch=[0, 1], x_contract=[3], y_batch=[0, 1], y_contract=[2]} : f32[1, 2, 3, 4]
    return %11
  })");
  EXPECT_TRUE(holds(text, "attention")) << text;
}

}  // namespace
}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "graph/ir/graph.h"
#include "support/message.h"
#include "transom/ops.h"

namespace transom {
namespace {

using test::message_of;

constexpr std::string_view kText =
    "graph(%0: f32[2, 3], %1: f32[3]) {\n"
    "  %2 = reshape(%1) {shape=[1, 3]} : f32[1, 3]\n"
    "  %3 = broadcast(%2) {shape=[2, 3]} : f32[2, 3]\n"
    "  %4 = add(%0, %3) : f32[2, 3]\n"
    "  %5, %6 = top_k(%4) {k=2} : f32[2, 2], i64[2, 2]\n"
    "  return %6, %4\n"
    "}\n";

TEST(GraphText, ReadsWhatItWrites) { EXPECT_EQ(print_graph(parse_graph(kText)), kText); }

TEST(GraphText, NamesAndSpaceAreFree) {
  const Graph graph = parse_graph("graph ( %x : f32 [ ] ) { %y=neg(%x):f32[] return %y }");
  EXPECT_EQ(print_graph(graph), "graph(%0: f32[]) {\n  %1 = neg(%0) : f32[]\n  return %1\n}\n");
}

TEST(GraphText, KeepsRegions) {
  const Tensor inner = make_input({DType::kFloat32, {3}}), x = make_input({DType::kFloat32, {3}});
  const auto region = std::make_shared<Graph>(make_graph({tanh(exp(inner))}, {inner}));
  const Graph graph = make_graph({Tensor(make_node(find_operation("fusion"), {x}, {}, region), 0)}, {x});
  const Graph again = parse_graph(print_graph(graph));
  EXPECT_EQ(print_graph(again), print_graph(graph));
  EXPECT_EQ(structural_key(again), structural_key(graph));
}

TEST(GraphText, KeepsEveryDoubleAndString) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {0.1, -0.0, 3.0, 1e300, 5e-324, -2.5e-7, kInfinity, -kInfinity}) {
    const Graph graph = make_graph({constant(value)});
    const Graph again = parse_graph(print_graph(graph));
    EXPECT_EQ(structural_key(again), structural_key(graph)) << value;
  }
  const Tensor x = make_input({DType::kFloat32, {}});
  const Graph graph =
      make_graph({make_tensor(find_operation("neg"), {x}, {{"note", std::string("a \"b\" \\ ] } c")}})}, {x});
  const Graph again = parse_graph(print_graph(graph));
  EXPECT_EQ(again.nodes[0]->attributes, graph.nodes[0]->attributes);
}

TEST(GraphText, SaysWhatIsWrong) {
  EXPECT_EQ(message_of([] { parse_graph("graph(%0: f32[2]) { return %1 }"); }),
            "graph text: %1 is used before it is made");
  EXPECT_EQ(message_of([] { parse_graph("graph(%0: f32[2]) { %1 = exp(%0) : f32[3] return %1 }"); }),
            "graph text: exp gives f32[2], but the text says f32[3]");
  EXPECT_EQ(message_of([] { parse_graph("grph"); }), "graph text: expected 'graph' at 'grph'");
}

TEST(GraphText, RefusesHostileTextWithAnError) {
  std::string deep = "graph() { return }";
  for (int i = 0; i < 100; ++i) deep = "graph() { %0 = fusion() region " + deep + " : f32[] return %0 }";
  const std::string texts[] = {
      "",
      "graph",
      "graph(",
      "graph(%0: f32[-1]) { return %0 }",
      "graph(%0: f32[99999999999999999999]) { return %0 }",
      "graph(%0: f32[4611686018427387904, 4]) { return %0 }",
      "graph(%0: f99[2]) { return %0 }",
      "graph() { %0 = input() : f32[] return %0 }",
      "graph() { %0 = fusion() : f32[] return %0 }",
      "graph() { %0 = fusion() region graph() { return } : f32[] return %0 }",
      "graph(%0: f32[2]) { %1 = fusion(%0) region graph() { return } : f32[] return %1 }",
      "graph(%0: f32[2]) { %1 = exp(%0) region graph(%0: f32[2]) { return %0 } : f32[2] return %1 }",
      "graph() { %0 = constant() {dtype=77, value=1.0} : f32[] return %0 }",
      "graph() { %0 = constant() {dtype=-1, value=1.0} : f32[] return %0 }",
      "graph() { %0 = iota() {axis=0, dtype=8, shape=[-4]} : f32[4] return %0 }",
      "graph(%0: f32[6]) { %1 = reshape(%0) {shape=[-2, -3]} : f32[2, 3] return %1 }",
      "graph(%0: f32[6]) { %1 = reshape(%0) {shape=[4294967296, 4294967296, 4294967296]} : f32[6] return %1 }",
      "graph(%0: f32[6]) { %1 = reshape(%0) : f32[6] return %1 }",
      "graph(%0: f32[6]) { %1 = reshape(%0) {shape=6} : f32[6] return %1 }",
      "graph(%0: f32[2]) { %1 = pad(%0) {high=[9223372036854775807], low=[9223372036854775807], value=0.0} : f32[0] "
      "return %1 }",
      "graph(%0: f32[2]) { %1 = slice(%0) {limits=[2], starts=[0], strides=[9223372036854775807]} : f32[2] return %1 }",
      "graph(%0: f32[1, 1, 4], %1: f32[1, 1, 2]) { %2 = convolution(%0, %1) {dilations=[9223372036854775807], "
      "groups=1, "
      "high=[0], low=[0], strides=[1]} : f32[1, 1, 1] return %2 }",
      "graph(%0: f32[2], %1: f32[2]) { %2 = dot_general(%0, %1) {dtype=99, x_batch=[], x_contract=[0], y_batch=[], "
      "y_contract=[0]} : f32[] return %2 }",
      "graph(%0: f32[2, 2]) { %1 = dot_general(%0, %0) {dtype=8, x_batch=[0], x_contract=[0], y_batch=[0], "
      "y_contract=[0]} : f32[2] return %1 }",
      "graph(%0: f32[2]) { %1 = exp(%0, %0) : f32[2] return %1 }",
      "graph(%0: f32[2]) { %1, %2 = exp(%0) : f32[2] return %1 }",
      "graph(%0: f32[2]) { %1 = exp(%0) {note=\"unclosed} : f32[2] return %1 }",
      "graph(%0: f32[2]) { %1 = exp(%0) {a=1e999999} : f32[2] return %1 }",
      "graph(%0: f32[2]) { %1 = exp(%0) : f32[2] return %1 } more",
      std::string("graph(\0%0: f32[2])", 18),
      deep,
      std::string(1 << 16, '('),
  };
  for (const std::string& text : texts) EXPECT_THROW(parse_graph(text), Error) << text.substr(0, 200);
}

// Texts that are nearly right: bytes changed, cut and doubled. Nothing but an Error may come out.
TEST(GraphText, SurvivesDamage) {
  std::mt19937 random(7);
  const std::string alphabet = "%0123456789,:[](){}=\"\\-. efinrtu\n";
  for (int round = 0; round < 20'000; ++round) {
    std::string text(kText);
    for (unsigned i = 0; i <= round % 4u; ++i) {
      const size_t place = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[place] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(place, 1 + random() % 8);
          break;
        default:
          text.insert(place, text.substr(random() % text.size(), random() % 16));
      }
      if (text.empty()) text = "g";
    }
    try {
      verify(parse_graph(text));
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/run/imported_graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/model_writer.h"
#include "models/onnx/proto/read_model.h"
#include "transom/error.h"

namespace transom::onnx {
namespace {

using test::GraphParts;
using test::node;
using test::tensor;
using test::value;

constexpr ElementType kF32 = ElementType::kFloat32, kI64 = ElementType::kInt64;

std::shared_ptr<const ImportedGraph> imported(const GraphParts& parts, int64_t opset = 18) {
  const auto bytes = std::make_shared<const std::string>(test::model(parts, opset));
  return std::make_shared<const ImportedGraph>(parse_model(*bytes, "m.onnx", bytes));
}

Value floats(const std::vector<double>& values, const Shape& shape) {
  return {kF32, numbers(values, shape, DType::kFloat32)};
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// y = x reshaped to [extent 0, -1] by Shape, Gather, Concat.
GraphParts reshaping() {
  return {.nodes = {node("Shape", {"x"}, {"shape"}), node("Gather", {"shape", "zero"}, {"first"}),
                    node("Concat", {"first", "rest"}, {"target"}, {test::integer("axis", 0)}),
                    node("Reshape", {"x", "target"}, {"y"})},
          .inputs = {value("x", kF32, {-1, -1, -1})},
          .outputs = {value("y", kF32, {-1, -1})},
          .initializers = {tensor<int64_t>("zero", kI64, {1}, {0}), tensor<int64_t>("rest", kI64, {1}, {-1})}};
}

TEST(ImportedGraph, ShapeArithmeticForEachSignature) {
  const auto graph = imported(reshaping());
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{5, 1, 2}, Shape{2, 3, 4}}) {
    std::vector<double> values(static_cast<size_t>(elements(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    const NamedValues outputs = graph->run({{"x", floats(values, shape)}});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(outputs[0].first, "y");
    EXPECT_EQ(outputs[0].second.tensor.shape(), (Shape{shape[0], shape[1] * shape[2]}));
    EXPECT_EQ(outputs[0].second.tensor.to_vector<double>(), values);
  }
}

// The shape comes from an input: the same types, but another value, must give another shape.
TEST(ImportedGraph, ShapesThatDependOnValues) {
  const auto graph = imported({.nodes = {node("Reshape", {"x", "shape"}, {"y"})},
                               .inputs = {value("x", kF32, {6}), value("shape", kI64, {2})},
                               .outputs = {value("y", kF32, {-1, -1})}});
  for (const auto& shape : {Shape{2, 3}, Shape{3, 2}, Shape{2, 3}}) {
    const NamedValues outputs =
        graph->run({{"x", floats({1, 2, 3, 4, 5, 6}, {6})}, {"shape", {kI64, integers(shape)}}});
    EXPECT_EQ(outputs[0].second.tensor.shape(), shape);
  }
}

// y = c ? x + 1 : x - 1
GraphParts branching() {
  const auto branch = [](const std::string& op) {
    return test::graph_of({.nodes = {node(op, {"x", "one"}, {"z"})}, .outputs = {value("z", kF32, {1})}});
  };
  return {.nodes = {node("If", {"c"}, {"y"},
                         {test::graph("then_branch", branch("Add")), test::graph("else_branch", branch("Sub"))})},
          .inputs = {value("x", kF32, {1}), value("c", ElementType::kBool, {})},
          .outputs = {value("y", kF32, {1})},
          .initializers = {tensor<float>("one", kF32, {1}, {1})}};
}

TEST(ImportedGraph, ConditionsOfTwoAskers) {
  const auto graph = imported(branching());
  for (const int64_t condition : {1, 0, 1}) {
    const NamedValues outputs =
        graph->run({{"x", floats({5}, {1})}, {"c", {ElementType::kBool, integer(condition, DType::kBool)}}});
    EXPECT_EQ(outputs[0].second.tensor.item<double>(), condition ? 6 : 4);
  }
}

TEST(ImportedGraph, LoopsCarryTheirState) {
  // state' = state + x while i < 3; each state is given as well.
  const auto body = test::graph_of(
      {.nodes = {node("Add", {"state", "x"}, {"next"}), node("Identity", {"go"}, {"on"}),
                 node("Identity", {"next"}, {"shown"})},
       .inputs = {value("i", kI64, {}), value("go", ElementType::kBool, {}), value("state", kF32, {2})},
       .outputs = {value("on", ElementType::kBool, {}), value("next", kF32, {2}), value("shown", kF32, {2})}});
  const auto graph =
      imported({.nodes = {node("Loop", {"three", "", "x"}, {"last", "all"}, {test::graph("body", body)})},
                .inputs = {value("x", kF32, {2})},
                .outputs = {value("last", kF32, {2}), value("all", kF32, {3, 2})},
                .initializers = {tensor<int64_t>("three", kI64, {}, {3})}});
  const NamedValues outputs = graph->run({{"x", floats({1, 10}, {2})}});
  EXPECT_EQ(outputs[0].second.tensor.to_vector<double>(), (std::vector<double>{4, 40}));
  EXPECT_EQ(outputs[1].second.tensor.to_vector<double>(), (std::vector<double>{2, 20, 3, 30, 4, 40}));
}

TEST(ImportedGraph, ThreadsWithUnlikeSignatures) {
  const auto graph = imported(reshaping());
  std::vector<std::thread> threads;
  std::vector<std::vector<double>> results(4);
  for (size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&, i] {
      const auto n = static_cast<int64_t>(i % 2 + 1);
      for (int repeat = 0; repeat < 5; ++repeat) {
        const Value x = floats(std::vector<double>(static_cast<size_t>(n), static_cast<double>(i)), {n, 1, 1});
        results[i] = graph->run({{"x", x}})[0].second.tensor.to_vector<double>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i], std::vector<double>(i % 2 + 1, static_cast<double>(i)));
}

TEST(ImportedGraph, RefusalsNameOperatorDomainAndVersion) {
  const std::string error = error_of([] { imported({.nodes = {node("Frobnicate", {}, {"y"})}}, 17); });
  for (const char* part : {"not supported", "Frobnicate", "ai.onnx", "17", "Frobnicate_node"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_NE(error_of([] { imported({.nodes = {node("Add", {}, {"y"})}}, 99); }).find("not supported"),
            std::string::npos);
}

TEST(ImportedGraph, AValueNamedTwiceIsRefused) {
  const auto refusal = [](const std::function<void(GraphParts&)>& change) {
    GraphParts parts = reshaping();
    change(parts);
    return error_of([&] { imported(parts); });
  };
  EXPECT_EQ(refusal([](GraphParts&) {}), "no error");
  // A default of an input has the input's name.
  EXPECT_EQ(refusal([](GraphParts& parts) { parts.inputs.push_back(value("zero", kI64, {1})); }), "no error");
  const std::string of_zero = "the value 'zero' is named twice", of_first = "the value 'first' is named twice";
  EXPECT_NE(refusal([](GraphParts& parts) { parts.nodes.push_back(node("Neg", {"x"}, {"first"})); }).find(of_first),
            std::string::npos);
  EXPECT_NE(refusal([](GraphParts& parts) { parts.nodes.push_back(node("Neg", {"x"}, {"zero"})); }).find(of_zero),
            std::string::npos);
  EXPECT_NE(refusal([](GraphParts& parts) {
              parts.initializers.push_back(tensor<int64_t>("zero", kI64, {1}, {1}));
            }).find(of_zero),
            std::string::npos);
  EXPECT_NE(refusal([](GraphParts& parts) { parts.inputs.push_back(parts.inputs[0]); }).find("'x' is named twice"),
            std::string::npos);
}

TEST(ImportedGraph, InputsThatDoNotFit) {
  const auto graph = imported(reshaping());
  EXPECT_NE(error_of([&] { graph->run({}); }).find("input 'x' is missing"), std::string::npos);
  EXPECT_NE(error_of([&] { graph->run({{"y", floats({1}, {1})}}); }).find("takes no input"), std::string::npos);
  EXPECT_NE(error_of([&] { graph->run({{"x", floats({1}, {1})}}); }).find("expected shape"), std::string::npos);
  EXPECT_NE(error_of([&] {
              graph->run({{"x", {kI64, integers({1}, {1, 1, 1}, DType::kInt64)}}});
            }).find("expected float, found int64"),
            std::string::npos);
}

TEST(ImportedGraph, ErrorsInTheMiddleNameTheNode) {
  const auto graph = imported({.nodes = {node("MatMul", {"x", "x"}, {"y"})},
                               .inputs = {value("x", kF32, {2, 3})},
                               .outputs = {value("y", kF32, {})}});
  const std::string error = error_of([&] { graph->run({{"x", floats({1, 2, 3, 4, 5, 6}, {2, 3})}}); });
  EXPECT_NE(error.find("MatMul_node"), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace transom::onnx

// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft beside what ONNX Runtime gives for the same node (tests/golden/make/contrib_operators.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json/json.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/model_writer.h"
#include "models/onnx/proto/read_model.h"
#include "support/folders.h"
#include "transom/error.h"

namespace transom::onnx {
namespace {

using test::Message;

struct ContribNode {
  std::string op;
  std::vector<Value> inputs;  // empty: left out
  std::vector<Message> attributes;
  std::vector<size_t> outputs;  // that are asked for
};

std::vector<Value> run_contrib(const ContribNode& node) {
  test::GraphParts parts;
  NamedValues values;
  std::vector<std::string> names, results;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    names.push_back(node.inputs[i].empty() ? "" : "i" + std::to_string(i));
    if (node.inputs[i].empty()) continue;
    parts.inputs.push_back(test::value(names.back(), node.inputs[i].type, node.inputs[i].tensor.shape()));
    values.emplace_back(names.back(), node.inputs[i]);
  }
  for (const size_t output : node.outputs) {
    results.resize(output + 1);
    results[output] = "o" + std::to_string(output);
    parts.outputs.push_back(Message().text(1, results[output]));
  }
  parts.nodes = {test::node(node.op, names, results, node.attributes).text(7, "com.microsoft")};
  const std::string bytes = Message()
                                .number(1, 8)
                                .message(7, test::graph_of(parts))
                                .message(8, Message().text(1, "").number(2, 17))
                                .message(8, Message().text(1, "com.microsoft").number(2, 1))
                                .bytes();
  const auto file = std::make_shared<const std::string>(bytes);
  std::vector<Value> found;
  for (const auto& [name, value] : ImportedGraph(parse_model(*file, "m.onnx", file)).run(values))
    found.push_back(value);
  return found;
}

ElementType type_of(const std::string& name) {
  for (const auto& [word, type] : {std::pair("float32", ElementType::kFloat32),
                                   {"int32", ElementType::kInt32},
                                   {"int64", ElementType::kInt64},
                                   {"uint8", ElementType::kUInt8},
                                   {"int8", ElementType::kInt8},
                                   {"bool", ElementType::kBool}})
    if (name == word) return type;
  throw std::runtime_error("a type that is not known: " + name);
}

Value value_of_case(const Json& json) {
  const ElementType type = type_of(json["type"].get<std::string>());
  const auto shape = json["shape"].get<Shape>();
  if (type == ElementType::kFloat32)
    return {type, numbers(json["values"].get<std::vector<double>>(), shape, DType::kFloat32)};
  return {type, integers(json["values"].get<std::vector<int64_t>>(), shape, *info(type).carrier)};
}

Message attribute_of_case(const std::string& name, const Json& json) {
  if (json.is_string()) return test::text(name, json.get<std::string>());
  if (json.is_number_integer()) return test::integer(name, json.get<int64_t>());
  if (json.is_number()) return test::real(name, json.get<float>());
  if (!json.empty() && json[0].is_number_integer()) return test::integers(name, json.get<std::vector<int64_t>>());
  Message result;
  result.text(1, name);
  for (const Json& number : json) result.real(7, number.get<float>());
  return result.number(20, 6);
}

// Codes may differ by one where the quotient lies on the half between two.
void expect_like(const Value& found, const Json& expected, double tolerance) {
  ASSERT_TRUE(found.is_tensor());
  ASSERT_EQ(found.tensor.shape(), expected["shape"].get<Shape>());
  ASSERT_EQ(found.type, type_of(expected["type"].get<std::string>()));
  const auto values = found.tensor.to_vector<double>(), wanted = expected["values"].get<std::vector<double>>();
  const bool codes = found.type == ElementType::kUInt8 || found.type == ElementType::kInt8;
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], wanted[i], codes ? 1 : tolerance * (1 + std::abs(wanted[i]))) << "place " << i;
}

TEST(ContribOperators, GiveWhatOnnxRuntimeGives) {
  const Json cases =
      read_json(std::filesystem::path(transom::test::source_folder()) / "tests/golden/onnx/contrib_operators.json");
  ASSERT_GT(cases.size(), 60u);
  for (size_t number = 0; number < cases.size(); ++number) {
    const Json& one = cases[number];
    SCOPED_TRACE("case " + std::to_string(number) + ": " + one["op"].get<std::string>() + " " +
                 dump_json(one["attributes"]));
    ContribNode node{.op = one["op"].get<std::string>(), .inputs = {}, .attributes = {}, .outputs = {}};
    for (const Json& input : one["inputs"]) node.inputs.push_back(input.is_null() ? Value() : value_of_case(input));
    while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
    for (const auto& [name, value] : one["attributes"].items())
      node.attributes.push_back(attribute_of_case(name, value));
    for (const auto& [place, value] : one["outputs"].items()) node.outputs.push_back(std::stoul(place));
    std::vector<Value> found;
    try {
      found = run_contrib(node);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    ASSERT_EQ(found.size(), node.outputs.size());
    for (size_t i = 0; i < found.size(); ++i)
      expect_like(found[i], one["outputs"][std::to_string(node.outputs[i])], one.value("tolerance", 2e-5));
  }
}

std::string refusal(const ContribNode& node) {
  try {
    run_contrib(node);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Value some_floats(const Shape& shape) { return {ElementType::kFloat32, full(shape, 0.5)}; }

TEST(ContribOperators, RefuseByName) {
  const Value x = some_floats({1, 2, 4});
  EXPECT_NE(refusal({"Gelu", {x}, {test::integer("sideways", 1)}, {0}}).find("'sideways'"), std::string::npos);
  EXPECT_NE(refusal({"RotaryEmbedding",
                     {x, {ElementType::kInt64, integers({0})}, some_floats({4, 2}), some_floats({4, 2})},
                     {test::integer("is_packed_batching", 1)},
                     {0}})
                .find("is_packed_batching = 1"),
            std::string::npos);
  EXPECT_NE(refusal({"SkipLayerNormalization", {x, x, some_floats({4})}, {}, {0, 1}}).find("inv_std_var"),
            std::string::npos);
  EXPECT_NE(refusal({"SkipLayerNormalization", {x, some_floats({2, 3}), some_floats({4})}, {}, {0}}).find("skip"),
            std::string::npos);
}

TEST(ContribOperators, RefuseHostileExtents) {
  const Value x = some_floats({2, 32}), bytes{ElementType::kUInt8, zeros({4}, DType::kUInt8)};
  const auto product = [&](int64_t K, int64_t N, int64_t block, int64_t bits) {
    return refusal({"MatMulNBits",
                    {x, bytes, some_floats({1})},
                    {test::integer("K", K), test::integer("N", N), test::integer("block_size", block),
                     test::integer("bits", bits)},
                    {0}});
  };
  for (const int64_t wrong : {int64_t{-1}, int64_t{0}, int64_t{1} << 62}) {
    EXPECT_NE(product(wrong, 4, 32, 4), "");
    EXPECT_NE(product(32, wrong, 32, 4), "");
    EXPECT_NE(product(32, 4, wrong, 4), "");
    EXPECT_NE(product(32, 4, 32, wrong), "");
  }
  EXPECT_NE(refusal({"MultiHeadAttention", {x}, {test::integer("num_heads", 0)}, {0}}), "");
}

}  // namespace
}  // namespace transom::onnx

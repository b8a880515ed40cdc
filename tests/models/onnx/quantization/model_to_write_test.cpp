// SPDX-License-Identifier: Apache-2.0
// A model that is read and written anew computes the same; what cannot be written is refused.
#include "models/onnx/quantization/model_to_write.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/proto/read_model.h"
#include "models/onnx/quantization/edited_graph.h"
#include "models/onnx/quantization/quantize_graph.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom::onnx {
namespace {

std::vector<float> slope(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::cos(0.7F * static_cast<float>(i));
  return values;
}

// x -> MatMul -> Elu (a float) -> ReduceMean (a list) -> ConstantOfShape (a tensor) added; attributes of all kinds.
WrittenModel with_all_attributes() {
  WrittenModel model{.opset = 17, .name = "attributes"};
  model.inputs = {{"x", DType::kFloat32, {"rows", int64_t{4}}}};
  model.outputs = {{"y", DType::kFloat32, {"rows", int64_t{1}}}};
  model.initializers = {{"w", view_of(slope(12), {4, 3})}};
  const auto seven = std::make_shared<const TensorView>(view_of(std::vector<float>{7}, {1}));
  model.nodes = {{"MatMul", "a", {"x", "w"}, {"product"}, {}},
                 {"Elu", "b", {"product"}, {"bent"}, {{"alpha", 0.5F}}},
                 {"ReduceMean", "c", {"bent"}, {"mean"}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}}},
                 {"Shape", "d", {"mean"}, {"shape"}, {}},
                 {"ConstantOfShape", "e", {"shape"}, {"sevens"}, {{"value", seven}}},
                 {"Constant", "f", {}, {"half"}, {{"value_float", 0.5F}}},
                 {"Mul", "g", {"sevens", "half"}, {"added"}, {}},
                 {"Add", "h", {"mean", "added"}, {"y"}, {}}};
  return model;
}

std::vector<float> answer_of(const Model& model) {
  const NamedValues inputs{{"x", value_of(Tensor::from(slope(20), {5, 4}))}};
  return ImportedGraph(model).run(inputs)[0].second.tensor.to_vector<float>();
}

TEST(ModelToWrite, ComputesTheSameWhenItIsReadAgain) {
  const test::TemporaryFolder folder;
  write_model(folder.path() / "a.onnx", with_all_attributes());
  const Model read = read_model(folder.path() / "a.onnx");
  const WrittenModel again = model_to_write(read);
  EXPECT_EQ(again.opset, 17);
  EXPECT_EQ(again.inputs[0].shape[0], (std::variant<int64_t, std::string>("rows")));
  EXPECT_TRUE(std::none_of(again.nodes.begin(), again.nodes.end(),
                           [](const WrittenNode& node) { return node.operation == "Constant"; }));
  write_model(folder.path() / "b.onnx", again);
  const std::vector<float> expected = answer_of(read);
  EXPECT_EQ(answer_of(read_model(folder.path() / "b.onnx")), expected);
  float greatest = 0;
  for (const float value : expected) greatest = std::max(greatest, value);
  EXPECT_GT(greatest, 3.4F);  // half of seven was added
}

TEST(ModelToWrite, CanBeQuantized) {
  const test::TemporaryFolder folder;
  write_model(folder.path() / "a.onnx", with_all_attributes());
  const Model read = read_model(folder.path() / "a.onnx");
  QuantizationReport report;
  const NamedValues sample{{"x", value_of(Tensor::from(slope(20), {5, 4}))}};
  const WrittenModel integers = quantize_graph(model_to_write(read), quantization_scheme("a8w8"), {sample}, report);
  EXPECT_EQ(report.integer_nodes, (std::map<std::string, int64_t>{{"MatMul", 1}}));
  EXPECT_GT(report.signal_to_noise, 30);
  write_model(folder.path() / "b.onnx", integers);
  const std::vector<float> expected = answer_of(read), found = answer_of(read_model(folder.path() / "b.onnx"));
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_NE(found, expected);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0.02F);
}

std::string refusal(const Model& model) {
  return test::message_of([&] { (void)model_to_write(model); });
}

TEST(ModelToWrite, RefusesByName) {
  Model model = as_read(with_all_attributes(), {"y"});
  model.where = "m.onnx";
  EXPECT_NE(refusal(model).find("m.onnx: writing it anew is not supported with 'x', which is no tensor"),
            std::string::npos)
      << refusal(model);
  model.graph.outputs.clear();
  model.graph.inputs.clear();
  model.graph.nodes[1].domain = "com.microsoft";
  EXPECT_NE(refusal(model).find("operator 'Elu' of 'com.microsoft'"), std::string::npos) << refusal(model);
  model.graph.nodes[1].domain.clear();
  model.graph.nodes[1].attributes.push_back(
      {.name = "body", .type = AttributeType::kGraph, .graph = std::make_shared<const transom::onnx::Graph>()});
  EXPECT_NE(refusal(model).find("attribute 'body', which is a graph"), std::string::npos) << refusal(model);
  model.graph.nodes[1].outputs.clear();
  EXPECT_NE(refusal(model).find("node 'b' ('Elu'), which gives nothing"), std::string::npos) << refusal(model);
}

}  // namespace
}  // namespace transom::onnx

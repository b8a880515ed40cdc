// SPDX-License-Identifier: Apache-2.0
// A small convolutional graph in integers: its form, and its numbers beside those of the float graph.
#include "models/onnx/quantization/quantize_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "models/onnx/quantization/edited_graph.h"
#include "support/message.h"
#include "support/test_names.h"

namespace transom::onnx {
namespace {

std::vector<float> wave(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(step * static_cast<float>(i + 1));
  return values;
}

// x -> Conv -> Mul, Add (a batch norm) -> Relu as Greater and Where -> MaxPool -> Add of a second Conv -> MatMul
WrittenModel network() {
  WrittenModel model{.opset = 21, .name = "network"};
  model.inputs = {{"x", DType::kFloat32, {"batch", int64_t{2}, int64_t{8}, int64_t{8}}}};
  model.outputs = {{"y", DType::kFloat32, {"batch", int64_t{3}}}};
  model.initializers = {{"w", view_of(wave(4 * 2 * 9, 0.37F), {4, 2, 3, 3})},
                        {"root", view_of(std::vector<float>{4, 9, 16, 25}, {4, 1, 1})},
                        {"shift", view_of(wave(4, 1.1F), {1, 4, 1, 1})},
                        {"zero", view_of(std::vector<float>{0}, {})},
                        {"v", view_of(wave(4 * 4, 0.9F), {4, 4, 1, 1})},
                        {"head", view_of(wave(4 * 16 * 3, 0.21F), {64, 3})}};
  model.nodes = {{"Conv", "a", {"x", "w"}, {"conv"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}},
                 {"Sqrt", "b", {"root"}, {"deviation"}, {}},
                 {"Mul", "c", {"conv", "deviation"}, {"scaled"}, {}},
                 {"Add", "d", {"shift", "scaled"}, {"shifted"}, {}},
                 {"Greater", "e", {"shifted", "zero"}, {"positive"}, {}},
                 {"Where", "f", {"positive", "shifted", "zero"}, {"relu"}, {}},
                 {"MaxPool",
                  "g",
                  {"relu"},
                  {"pooled"},
                  {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}}},
                 {"Conv", "h", {"pooled", "v"}, {"other"}, {}},
                 {"Add", "i", {"pooled", "other"}, {"sum"}, {}},
                 {"Flatten", "j", {"sum"}, {"flat"}, {}},
                 {"MatMul", "k", {"flat", "head"}, {"y"}, {}}};
  return model;
}

std::vector<NamedValues> samples() {
  std::vector<NamedValues> batches;
  for (const float step : {0.13F, 0.71F})
    batches.push_back({{"x", value_of(Tensor::from(wave(3 * 2 * 64, step), {3, 2, 8, 8}))}});
  return batches;
}

std::vector<float> result_of(const WrittenModel& model, const NamedValues& inputs) {
  return ImportedGraph(as_read(model, {"y"})).run(inputs)[0].second.tensor.to_vector<float>();
}

double scale_of(const WrittenModel& model, const std::string& value) {
  for (const auto& [name, view] : model.initializers)
    if (name == value + "/scale") return floats_of(view)[0];
  return 0;
}

int count(const WrittenModel& model, const std::string& operation) {
  int found = 0;
  for (const WrittenNode& node : model.nodes) found += node.operation == operation;
  return found;
}

class QuantizedGraph : public testing::TestWithParam<const char*> {};

TEST_P(QuantizedGraph, StaysNearTheFloatGraph) {
  QuantizationReport report;
  const WrittenModel quantized = quantize_graph(network(), quantization_scheme(GetParam()), samples(), report);
  EXPECT_GT(report.signal_to_noise, 25);
  EXPECT_EQ(report.samples, 6);
  for (const NamedValues& sample : samples()) {
    const std::vector<float> expected = result_of(network(), sample), found = result_of(quantized, sample);
    double greatest = 0;
    for (const float value : expected) greatest = std::max<double>(greatest, std::abs(value));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0.06 * greatest);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, QuantizedGraph, testing::Values("xint8", "a8w8", "a16w8"), test::NameOfCase());

TEST(QuantizeGraph, OfXint8HasNothingInFloatAndPowersOfTwo) {
  QuantizationReport report;
  const WrittenModel model = quantize_graph(network(), quantization_scheme("xint8"), samples(), report);
  EXPECT_TRUE(report.float_nodes.empty()) << report.float_nodes.begin()->first;
  EXPECT_EQ(count(model, "Conv"), 2);
  EXPECT_EQ(count(model, "Relu"), 1);
  for (const char* folded : {"Mul", "Sqrt", "Greater", "Where"}) EXPECT_EQ(count(model, folded), 0) << folded;
  for (const auto& [name, view] : model.initializers) {
    if (!name.ends_with("/scale")) continue;
    const double scale = floats_of(view)[0];
    EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale) << name;
  }
}

// The accelerators add and choose among integers as they are.
TEST(QuantizeGraph, SharesScalesWhereIntegersMeet) {
  QuantizationReport report;
  const WrittenModel model = quantize_graph(network(), quantization_scheme("xint8"), samples(), report);
  EXPECT_EQ(scale_of(model, "relu"), scale_of(model, "pooled"));
  EXPECT_EQ(scale_of(model, "pooled"), scale_of(model, "other"));
  EXPECT_GT(scale_of(model, "pooled"), 0);
}

// Another graph may read the same names; every quantised value is read back by exactly its own scale.
TEST(QuantizeGraph, ReadsEachValueByTheScaleThatItWasWrittenWith) {
  QuantizationReport report;
  const WrittenModel model = quantize_graph(network(), quantization_scheme("a8w8"), samples(), report);
  std::map<std::string, std::string> scales;
  for (const WrittenNode& node : model.nodes)
    if (node.operation == "QuantizeLinear") scales[node.outputs[0]] = node.inputs[1];
  int read = 0;
  for (const WrittenNode& node : model.nodes)
    if (node.operation == "DequantizeLinear" && scales.contains(node.inputs[0])) {
      EXPECT_EQ(node.inputs[1], scales.at(node.inputs[0]));
      ++read;
    }
  EXPECT_EQ(read, static_cast<int>(scales.size()));
  EXPECT_GT(read, 4);
}

TEST(QuantizeGraph, LeavesMasksInFloat) {
  WrittenModel model{.opset = 18, .name = "masked"};
  model.inputs = {{"x", DType::kFloat32, {int64_t{1}, int64_t{4}}},
                  {"mask", DType::kFloat32, {int64_t{1}, int64_t{4}}}};
  model.outputs = {{"y", DType::kFloat32, {int64_t{1}, int64_t{4}}}};
  model.nodes = {{"Add", "a", {"x", "mask"}, {"masked"}, {}}, {"Softmax", "b", {"masked"}, {"y"}, {}}};
  const std::vector<NamedValues> inputs = {
      {{"x", value_of(Tensor::from(std::vector<float>{1, 2, 3, 4}, {1, 4}))},
       {"mask", value_of(Tensor::from(std::vector<float>{0, 0, 0, -3e38F}, {1, 4}))}}};
  QuantizationReport report;
  const WrittenModel quantized = quantize_graph(model, quantization_scheme("xint8"), inputs, report);
  EXPECT_EQ(report.float_nodes.at("Add"), 1);
  EXPECT_GT(report.signal_to_noise, 30);
}

TEST(QuantizeGraph, RefusesWhatCannotBe) {
  QuantizationReport report;
  EXPECT_EQ(test::message_of([&] { quantize_graph(network(), quantization_scheme("xint8"), {}, report); }),
            "quantization: expected at least one sample to find the scales with");
  WrittenModel old = network();
  old.opset = 18;
  EXPECT_EQ(test::message_of([&] { quantize_graph(old, quantization_scheme("a16w8"), samples(), report); }),
            "quantization: a16w8 needs opset 21 or later, for 16-bit QuantizeLinear; found 18");
}

}  // namespace
}  // namespace transom::onnx

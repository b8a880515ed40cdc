// SPDX-License-Identifier: Apache-2.0
// An ONNX file as a model: opened by its directory, inputs that are left out, precision that it does not have.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/files/files.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/model_writer.h"
#include "transom/error.h"
#include "transom/model.h"

namespace transom {
namespace {

using onnx::ElementType;
using onnx::test::node;
using onnx::test::value;

class OnnxModel : public ::testing::Test {
 protected:
  OnnxModel() : folder_(fs::temp_directory_path() / ("onnx_model_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    // logits = input_ids + 10 token_type_ids + 100 attention_mask + 1000 position_ids, as floats.
    const std::vector<std::string> names{"input_ids", "token_type_ids", "attention_mask", "position_ids"};
    onnx::test::GraphParts parts;
    for (const std::string& name : names) parts.inputs.push_back(value(name, ElementType::kInt64, {-1, -1}));
    std::string total = "input_ids";
    int64_t factor = 10;
    for (size_t i = 1; i < names.size(); ++i, factor *= 10) {
      const std::string number = std::to_string(i);
      parts.initializers.push_back(onnx::test::tensor<int64_t>("f" + number, ElementType::kInt64, {}, {factor}));
      parts.nodes.push_back(node("Mul", {names[i], "f" + number}, {"p" + number}));
      parts.nodes.push_back(node("Add", {total, "p" + number}, {"t" + number}));
      total = "t" + number;
    }
    parts.nodes.push_back(node("Cast", {total}, {"logits"}, {onnx::test::integer("to", 1)}));
    parts.outputs = {value("logits", ElementType::kFloat32, {-1, -1})};
    write_file(folder_ / "model.onnx", onnx::test::model(parts));
    write_file(folder_ / "config.json",
               R"({"architectures": ["BertForTokenClassification"], "id2label": {"0": "no", "1": "yes"}})");
  }
  ~OnnxModel() override { fs::remove_all(folder_); }

  std::string error_of(const LoadOptions& options) const {
    try {
      Model::from_pretrained(folder_.string(), options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  const fs::path folder_;
};

Tensor ids(const std::vector<int64_t>& values) {
  return Tensor::from(values, {1, static_cast<int64_t>(values.size())});
}

TEST_F(OnnxModel, FillsInWhatIsLeftOut) {
  const NoGradient inference;
  const auto model = Model::from_pretrained(folder_.string());
  EXPECT_EQ(model->architecture(), "BertForTokenClassification");
  EXPECT_EQ(model->labels(), (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(model->forward({{"input_ids", ids({1, 2, 3})}}).at("logits").to_vector<double>(),
            (std::vector<double>{101, 1102, 2103}));
  // The first token is padding: positions count from the second one on.
  EXPECT_EQ(model->forward({{"input_ids", ids({1, 2, 3})}, {"attention_mask", ids({0, 1, 1})}})
                .at("logits")
                .to_vector<double>(),
            (std::vector<double>{1001, 102, 1103}));
  EXPECT_EQ(model->forward({{"input_ids", ids({7})}, {"token_type_ids", ids({2})}}).at("logits").to_vector<double>(),
            (std::vector<double>{127}));
}

TEST_F(OnnxModel, InEveryMode) {
  const NoGradient inference;
  const auto model = Model::from_pretrained((folder_ / "model.onnx").string());
  const Mode before = mode();
  for (const Mode now : {Mode::kLazy, Mode::kEager, Mode::kCompile, Mode::kGraph}) {
    set_mode(now);
    for (const int64_t first : {1, 5})
      EXPECT_EQ(model->forward({{"input_ids", ids({first, 2})}}).at("logits").to_vector<double>(),
                (std::vector<double>{100.0 + static_cast<double>(first), 1102}));
  }
  set_mode(before);
}

TEST_F(OnnxModel, HasTheTypesOfItsFile) {
  EXPECT_NE(error_of({.dtype = "bfloat16"}).find("not supported"), std::string::npos);
  EXPECT_NE(error_of({.quantization = "int8"}).find("not supported"), std::string::npos);
  EXPECT_EQ(error_of({.dtype = "auto"}), "no error");
  // These are about the codes of compressed weights: transom generate asks for them with every model.
  for (const char* inputs : {"int8", "fastest"}) EXPECT_EQ(error_of({.activations = inputs}), "no error") << inputs;
}

TEST_F(OnnxModel, WeightsOfTransformersGoFirst) {
  EXPECT_EQ(onnx::find_onnx_file(folder_), folder_ / "model.onnx");
  write_file(folder_ / "model.safetensors", "");
  EXPECT_TRUE(onnx::find_onnx_file(folder_).empty());
  EXPECT_EQ(onnx::find_onnx_file(folder_ / "model.onnx"), folder_ / "model.onnx");
}

}  // namespace
}  // namespace transom

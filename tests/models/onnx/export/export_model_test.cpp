// SPDX-License-Identifier: Apache-2.0
// Models as files: names, axes, and what is refused. That the numbers are right, an ONNX runtime tells.
#include "models/onnx/export/export_model.h"

#include <gtest/gtest.h>

#include "models/onnx/export/task_inputs.h"
#include "models/onnx/export/traces.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

std::unique_ptr<Model> bert(const LoadOptions& options = {}) {
  return Model::from_config(R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
      "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
      "max_position_embeddings": 32, "type_vocab_size": 2})",
                            options);
}
std::unique_ptr<Model> llama() {
  return Model::from_config(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40,
      "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 24, "max_position_embeddings": 64})");
}

std::vector<std::string> inputs_of(const Model& model, bool with_past) {
  std::vector<std::string> names;
  const std::vector<ExportedFile> files = exported_files(model, with_past);
  for (const FileInput& input : files.at(0).inputs) names.push_back(input.name);
  return names;
}

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; at += word.size()) ++found;
  return found;
}

TEST(ExportModel, WritesOperatorsOfTheOpset) {
  const test::TemporaryFolder folder;
  const auto model = llama();
  const auto text_of = [&](int64_t opset) {
    return read_file(export_model(*model, folder.path(), {.opset = opset}).at(0));
  };
  const std::string newest = text_of(23), older = text_of(18);
  for (const char* name : {"RMSNormalization", "RotaryEmbedding", "Attention_"}) {
    EXPECT_GT(count(newest, name), 0u) << name;
    EXPECT_EQ(count(older, name), 0u) << name;
  }
  EXPECT_GT(count(older, "sequence_length"), 0u);
}

TEST(ExportModel, GivesOptimumsNames) {
  EXPECT_EQ(inputs_of(*bert(), false), (std::vector<std::string>{"input_ids", "attention_mask", "token_type_ids"}));
  EXPECT_EQ(inputs_of(*llama(), true),
            (std::vector<std::string>{"input_ids", "attention_mask", "position_ids", "past_key_values.0.key",
                                      "past_key_values.0.value", "past_key_values.1.key", "past_key_values.1.value"}));
  const test::TemporaryFolder folder;
  const std::string text = read_file(export_model(*llama(), folder.path(), {.with_past = true}).at(0));
  for (const char* name : {"present.1.value", "past_sequence_length + sequence_length", "logits"})
    EXPECT_GT(count(text, name), 0u) << name;
}

TEST(ExportModel, IsTheSameTwiceAndOfAnotherModelAnother) {
  const test::TemporaryFolder folder;
  const auto one = bert({.seed = 1}), two = bert({.seed = 2});
  const auto text_of = [&](const Model& model) { return read_file(export_model(model, folder.path()).at(0)); };
  const std::string first = text_of(*one);
  EXPECT_EQ(text_of(*one), first);
  EXPECT_NE(text_of(*two), first);
}

TEST(ExportModel, RefusesWhatHasNoForm) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const Model& model, const ExportOptions& options) {
    return test::message_of([&] { export_model(model, folder.path(), options); });
  };
  EXPECT_NE(refusal(*bert(), {.opset = 17}).find("expected 18 to 23"), std::string::npos);
  EXPECT_NE(refusal(*bert(), {.with_past = true}).find("past keys and values"), std::string::npos);
  EXPECT_NE(refusal(*bert({.quantization = "int8"}), {}).find("8-bit"), std::string::npos);
  EXPECT_NE(refusal(*bert({.quantization = "int8_channel"}), {}).find("packed"), std::string::npos);
}

Graph graph_at(int64_t length, bool doubled) {
  const Tensor x = make_input({DType::kFloat32, {length}});
  const Tensor y = doubled ? x + x : neg(x);
  return make_graph({y}, {x});
}

TEST(Traces, ThatComputeInAnotherWayAreRefused) {
  std::vector<Graph> graphs;
  for (size_t s = 0; s < kSignatures; ++s) graphs.push_back(graph_at(static_cast<int64_t>(5 + s), s == 2));
  const std::string message =
      test::message_of([&] { Traces(std::move(graphs), std::vector<std::vector<Tensor>>(kSignatures)); });
  EXPECT_NE(message.find("computed in another way"), message.npos) << message;
}

TEST(Traces, TablesThatDependOnLengthsAreRefused) {
  std::vector<Graph> graphs;
  std::vector<std::vector<Tensor>> leaves;
  for (size_t s = 0; s < kSignatures; ++s) {
    const Tensor x = make_input({DType::kFloat32, {3}});
    const Tensor table = Tensor::from(std::vector<float>(3, static_cast<float>(s / 3)), {3});
    graphs.push_back(make_graph({x + table}, {x}));
    leaves.push_back(graphs.back().inputs);
  }
  const Traces traces(std::move(graphs), std::move(leaves));
  EXPECT_NE(test::message_of([&] { traces.constant_input(1); }).find("depends on the extents"), std::string::npos);
}

}  // namespace
}  // namespace transom::onnx

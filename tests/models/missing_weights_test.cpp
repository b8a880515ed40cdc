// SPDX-License-Identifier: Apache-2.0
#include "models/loading/weights/missing_weights.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/checkpoint/safetensors.h"
#include "models/loading/adapters/adaptation.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

constexpr const char* kBertOfOneLayer =
    R"({"model_type": "bert", "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1,
  "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16})";

class MissingWeights : public testing::Test {
 protected:
  // What load_trained says of a checkpoint that was made for `made` when it is asked for `asked`; "": nothing.
  std::string said(const std::string& made, const std::string& asked) {
    Model::from_config(kBertOfOneLayer, {.task = made})->save_pretrained(folder_.string());
    return test::message_of([&] { load_trained(folder_.string(), {.task = asked}); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(MissingWeights, HeadsAreExpectedOfACheckpoint) {
  for (const char* task :
       {"text-classification", "token-classification", "question-answering", "fill-mask", "text-generation"}) {
    const std::string message = said("feature-extraction", task);
    EXPECT_NE(message.find("answers to " + std::string(task) + " would be random"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(said(task, task), "");
  }
}

TEST_F(MissingWeights, VectorsNeedNoPooler) {
  EXPECT_EQ(said("fill-mask", "feature-extraction"), "");
  const std::string message = said("fill-mask", "text-classification");
  EXPECT_NE(message.find("bert.pooler.dense.weight, bert.pooler.dense.bias, classifier.weight"), std::string::npos)
      << message;
}

TEST_F(MissingWeights, AdaptersBringTheHeadOfTheirTask) {
  Model::from_config(kBertOfOneLayer, {.task = "feature-extraction"})->save_pretrained((folder_ / "base").string());
  const std::string fields =
      R"({"base_model_name_or_path": ")" + (folder_ / "base").string() + R"(", "task_type": "SEQ_CLS"})";
  const auto model = Model::from_pretrained((folder_ / "base").string(), {.task = "text-classification"});
  Adaptation::add(*model, AdapterConfig::with(fields), 1);
  model->save_pretrained((folder_ / "adapters").string());
  LoadReport report;
  Model::from_pretrained((folder_ / "adapters").string(), {}, &report);
  EXPECT_TRUE(report.missing.empty()) << report.missing[0];
  EXPECT_NE(load_trained((folder_ / "adapters").string(), {}), nullptr);
}

// A LLaMA whose layers have no bias by config.json, stored with one more tensor.
class UnreadTensors : public testing::Test {
 protected:
  UnreadTensors() {
    Model::from_config(R"({"model_type": "llama", "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1,
  "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16})",
                       {.task = "text-generation"})
        ->save_pretrained(folder_.string());
  }
  std::string said_with(const std::string& name, const std::vector<float>& values) {
    const fs::path path = folder_ / "model.safetensors";
    NamedViews tensors = SafetensorsFile::open(path).tensors();
    tensors.push_back(
        {name, {DType::kFloat32, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values)), {}}});
    write_safetensors(path, tensors);
    return test::message_of([&] { Model::from_pretrained(folder_.string()); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(UnreadTensors, ABiasWithoutAPlaceIsRefused) {
  std::vector<float> values(16);
  values.back() = 1e-3F;
  const std::string message = said_with("model.layers.0.self_attn.o_proj.bias", values);
  EXPECT_NE(message.find("'model.layers.0.self_attn.o_proj.bias' is not zero"), std::string::npos) << message;
  EXPECT_NE(message.find("attention_bias"), std::string::npos) << message;
}

TEST_F(UnreadTensors, AreLeftOutWhereTheyChangeNothing) {
  EXPECT_EQ(said_with("model.layers.0.self_attn.o_proj.bias", std::vector<float>(16)), "");
  EXPECT_EQ(said_with("model.layers.0.self_attn.rotary_emb.inv_freq", {1, 0.1F}), "");
  EXPECT_EQ(said_with("score.bias", {1, 2}), "");  // of another head
}

TEST(FurtherTokenHeads, AreRecognised) {
  const std::vector<std::string> names = {"mtp.fc.weight",
                                          "model.layers.2.eh_proj.weight",
                                          "model.layers.1.other.weight",
                                          "layers.11.norm.weight",
                                          "model.mtp.norm.weight",
                                          "model.layers.x.weight",
                                          "encoder.layers.7.weight",
                                          "model.layers.99999999999999999999.weight"};
  EXPECT_EQ(further_token_heads(names, 2), (std::vector<std::string>{names[0], names[1], names[3], names[4]}));
  EXPECT_EQ(further_token_heads(names, 0), (std::vector<std::string>{names[0], names[4]}));  // of unknown depth
}

}  // namespace
}  // namespace transom

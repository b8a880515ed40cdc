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

// SPDX-License-Identifier: Apache-2.0
// What Trainer changes of a model's special tokens, and generation_config.json, which holds them.
#include "work/train/tasks/text/special_tokens.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "files/config/config.h"
#include "models/generative.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

std::string config_of(const std::string& architecture, const std::string& more = "") {
  return R"({"model_type": "gpt2", "architectures": [")" + architecture +
         R"("], "vocab_size": 10, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16, "bos_token_id": 1,
             "eos_token_id": 2)" +
         more + "}";
}

Tokenizer tokenizer(const test::TemporaryFolder& folder, const std::string& roles) {
  folder.write("tokenizer.json",
               R"({"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "<s>": 1, "</s>": 2,
    "<end>": 3, "<pad>": 4}}})");
  folder.write("tokenizer_config.json", roles);
  return Tokenizer::from_pretrained(folder.path().string());
}

Json saved(const Model& model, const test::TemporaryFolder& folder, const std::string& name) {
  model.save_pretrained((folder.path() / "out").string());
  return std::filesystem::exists(folder.path() / "out" / name) ? read_json(folder.path() / "out" / name) : Json();
}

constexpr const char* kFile = "generation_config.json";

TEST(GenerationFile, HoldsWhatTheConfigurationSaysOfGeneration) {
  const test::TemporaryFolder folder;
  const auto model =
      Model::from_config(config_of("GPT2LMHeadModel", R"(, "num_beams": 4, "max_length": null, "n_inner": 32)"));
  EXPECT_EQ(saved(*model, folder, kFile),
            (Json{{"_from_model_config", true}, {"bos_token_id", 1}, {"eos_token_id", 2}, {"num_beams", 4}}));
}

TEST(GenerationFile, IsCarriedOver) {
  const test::TemporaryFolder folder;
  Model::from_config(config_of("GPT2LMHeadModel"))->save_pretrained(folder.path().string());
  folder.write(kFile, R"({"temperature": 0.5, "eos_token_id": [2, 3], "top_p": null, "own": {"a": 1}})");
  const auto model = Model::from_pretrained(folder.path().string());
  EXPECT_EQ(saved(*model, folder, kFile),
            (Json{{"eos_token_id", Json::array({2, 3})}, {"own", {{"a", 1}}}, {"temperature", 0.5}}));
  folder.write(kFile, "{");
  EXPECT_EQ(saved(*Model::from_pretrained(folder.path().string()), folder, kFile)["eos_token_id"], 2);
}

TEST(GenerationFile, BelongsToModelsThatGenerate) {
  const test::TemporaryFolder folder;
  for (const char* architecture : {"GPT2Model", "GPT2ForSequenceClassification"})
    EXPECT_TRUE(saved(*Model::from_config(config_of(architecture)), folder, kFile).is_null()) << architecture;
}

// transformers.trainer_utils.align_special_tokens.
TEST(SpecialTokens, BecomeTheTokenizers) {
  const test::TemporaryFolder folder;
  const auto model = Model::from_config(config_of("GPT2LMHeadModel"));
  align_special_tokens(*model, tokenizer(folder, R"({"eos_token": "<end>", "pad_token": "<pad>"})"));
  const Json config = saved(*model, folder, "config.json"), generation = saved(*model, folder, kFile);
  EXPECT_EQ(config["eos_token_id"], 3);
  EXPECT_EQ(config["bos_token_id"], 1);  // the tokenizer has none
  EXPECT_EQ(config["pad_token_id"], 4);
  EXPECT_EQ(generation["eos_token_id"], Json::array({3, 2}));
  EXPECT_EQ(generation["pad_token_id"], 4);
}

TEST(SpecialTokens, OfAModelWithSeveralEndsAreAdded) {
  const test::TemporaryFolder folder;
  std::string several = config_of("GPT2ForSequenceClassification");
  several.replace(several.find("\"eos_token_id\": 2"), 17, "\"eos_token_id\": [2, 1]");
  const auto model = Model::from_config(several);
  align_special_tokens(*model, tokenizer(folder, R"({"eos_token": "<end>"})"));
  EXPECT_EQ(saved(*model, folder, "config.json")["eos_token_id"], Json::array({3, 2, 1}));
  const auto unchanged = Model::from_config(several);
  align_special_tokens(*unchanged, tokenizer(folder, R"({"eos_token": "<s>"})"));
  EXPECT_EQ(saved(*unchanged, folder, "config.json")["eos_token_id"], Json::array({2, 1}));
}

// A decoder without a padding token of its own reads batches once the tokenizer has one.
TEST(SpecialTokens, TellAClassifierItsPadding) {
  const test::TemporaryFolder folder;
  const auto model = Model::from_config(config_of("GPT2ForSequenceClassification"));
  const NamedTensors inputs{{"input_ids", Tensor::from(std::vector<int64_t>{5, 6, 7, 5, 4, 4}, {2, 3})}};
  EXPECT_THROW(model->forward(inputs), Error);
  align_special_tokens(*model, tokenizer(folder, R"({"pad_token": "<pad>"})"));
  const std::vector<float> both = model->forward(inputs).at("logits").to_vector<float>();
  const std::vector<float> alone =
      model->forward({{"input_ids", Tensor::from(std::vector<int64_t>{5}, {1, 1})}}).at("logits").to_vector<float>();
  EXPECT_NEAR(both[2], alone[0], 1e-5);
  EXPECT_NEAR(both[3], alone[1], 1e-5);
}

}  // namespace
}  // namespace transom

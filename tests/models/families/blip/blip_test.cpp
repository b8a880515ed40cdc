// SPDX-License-Identifier: Apache-2.0
// BLIP beside its golden cases: padding, and how what is written begins and ends.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "support/golden_cases.h"
#include "support/message.h"
#include "transom/generation.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

std::filesystem::path folder_of(const char* name) { return test::folder_of_case(name) / "model"; }
std::unique_ptr<Model> model_of(const char* name) { return Model::from_pretrained(folder_of(name).string()); }

Tensor picture_of(const char* name) {
  return slice(load_inputs((test::folder_of_case(name) / "inputs.safetensors").string()).at("pixel_values"), 0, 0, 1);
}
Tensor row(const std::vector<int64_t>& ids) { return Tensor::from(ids, {1, static_cast<int64_t>(ids.size())}); }

TEST(Blip, AnswersDoNotSeePadding) {
  const NoGradient inference;
  const auto model = model_of("blip-questions");
  const NamedTensors alone{{"pixel_values", picture_of("blip-questions")},
                           {"input_ids", row({2, 30, 48, 98, 3})},
                           {"decoder_input_ids", row({4, 20, 21})}};
  NamedTensors padded = alone;
  padded.set("input_ids", row({2, 30, 48, 98, 3, 0, 0, 0}));
  const std::vector<float> without = model->forward(padded).at("logits").to_vector<float>();
  padded.set("attention_mask", row({1, 1, 1, 1, 1, 0, 0, 0}));
  const std::vector<float> one = model->forward(alone).at("logits").to_vector<float>();
  const std::vector<float> other = model->forward(padded).at("logits").to_vector<float>();
  ASSERT_EQ(one.size(), other.size());
  bool differs = false;
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i], other[i], 1e-5);
    differs = differs || std::abs(one[i] - without[i]) > 1e-3;
  }
  EXPECT_TRUE(differs);  // the mask is what hides it
}

TEST(Blip, CaptionsBeginWithTheTokensOfAPrompt) {
  const NoGradient inference;
  const auto model = model_of("blip-captions");
  GenerationConfig config = GenerationConfig::from_pretrained(folder_of("blip-captions").string());
  config.max_new_tokens = 3;
  NamedTensors inputs{{"pixel_values", picture_of("blip-captions")}};
  const TokenIds bare = generate(*model, inputs, config).sequences[0];
  EXPECT_EQ(bare[0], 4);  // text_config.bos_token_id, whatever generation_config.json says
  inputs.set("input_ids", row({2, 30, 48, 3}));
  const TokenIds begun = generate(*model, inputs, config).sequences[0];
  EXPECT_EQ(TokenIds(begun.begin(), begun.begin() + 3), (TokenIds{4, 30, 48}));
  EXPECT_EQ(begun.size(), 6u);
  inputs.set("input_ids", row({2}));
  EXPECT_NE(test::message_of([&] { generate(*model, inputs, config); }).find("at least 2 tokens"), std::string::npos);
}

std::string refusal(const char* name, const char* part, const char* field, const Json& value) {
  Json config = parse_json(read_model_config(folder_of(name)).dump(), name);
  (part ? config[part] : config)[field] = value;
  return test::message_of([&] { Model::from_config(dump_json(config)); });
}

TEST(Blip, RefusesWhatIsNotCarriedOut) {
  EXPECT_NE(refusal("blip-captions", "text_config", "label_smoothing", 0.1).find("label_smoothing"), std::string::npos);
  EXPECT_NE(refusal("blip-captions", "text_config", "is_decoder", false).find("is_decoder"), std::string::npos);
  EXPECT_NE(refusal("blip-captions", "text_config", "bos_token_id", 5000).find("bos_token_id"), std::string::npos);
  EXPECT_NE(refusal("blip-questions", "vision_config", "hidden_size", 16).find("one number"), std::string::npos);
}

}  // namespace
}  // namespace transom

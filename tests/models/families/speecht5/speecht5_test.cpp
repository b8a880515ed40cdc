// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "files/config/config.h"
#include "support/golden.h"
#include "support/message.h"
#include "transom/layers.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

Json config_of(const char* name) { return read_json(test::golden_folder() / name / "model" / "config.json"); }

std::unique_ptr<Model> model_with(const char* name, const Json& changes) {
  Json config = config_of(name);
  config.update(changes);
  return Model::from_config(dump_json(config));
}

NamedTensors inputs_of_speech(int64_t frames) {
  std::vector<float> labels;
  for (int64_t i = 0; i < 2 * frames * 6; ++i) labels.push_back(static_cast<float>(i % 7) * 0.1F);
  return {{"input_ids", Tensor::from(std::vector<int64_t>{5, 6, 7, 8, 9, 10}, {2, 3})},
          {"speaker_embeddings", full({2, 5}, 1)},
          {"labels", Tensor::from(labels, {2, frames, 6})}};
}

float loss_of(const Model& model, int64_t seed, ForwardContext context = {}) {
  NamedTensors inputs = inputs_of_speech(4);
  inputs.set("seed", Tensor::from(std::vector<int64_t>{seed}, {1}));
  return model.forward(inputs, context).at("loss").item<float>();
}

// The prenet drops values whether it learns or not; a seed says which.
TEST(SpeechT5, DropsInThePrenetByItsSeed) {
  const auto model = model_with("speecht5", {{"speech_decoder_prenet_dropout", 0.5}});
  EXPECT_EQ(loss_of(*model, 1), loss_of(*model, 1));
  EXPECT_NE(loss_of(*model, 1), loss_of(*model, 2));
  const auto training = [&](uint64_t seed) {
    return loss_of(*model, 1, {.training = true, .dropout_key = random_key(seed, 0)});
  };
  EXPECT_EQ(training(1), training(1));
  EXPECT_NE(training(1), training(2));
}

TEST(SpeechT5, RefusesInputsThatDoNotFit) {
  const auto model = model_with("speecht5", Json::object());
  const auto refused = [&](const char* name, const Tensor& value) {
    NamedTensors inputs = inputs_of_speech(4);
    inputs.set(name, value);
    return test::message_of([&] { model->forward(inputs).at("loss").item<float>(); });
  };
  EXPECT_NE(refused("labels", full({2, 3, 6}, 0)).find("reduction_factor"), std::string::npos);
  EXPECT_NE(refused("labels", full({2, 4, 5}, 0)).find("labels"), std::string::npos);
  EXPECT_NE(refused("speaker_embeddings", full({2, 4}, 0)).find("speaker_embeddings"), std::string::npos);
  EXPECT_NE(refused("input_ids", full({2, 41}, 5, DType::kInt64)).find("max_text_positions"), std::string::npos);
  EXPECT_NE(refused("labels", full({2, 122, 6}, 0)).find("max_speech_positions"), std::string::npos);
}

TEST(SpeechT5, RefusesConfigurationsThatAreNoModel) {
  const auto refused = [](const char* name, const char* field, const Json& value) {
    return test::message_of([&] { model_with(name, {{field, value}}); });
  };
  for (const auto& [field, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"hidden_size", -8},
                                                           {"hidden_size", 7},
                                                           {"vocab_size", 1e18},
                                                           {"encoder_layers", 1e9},
                                                           {"num_mel_bins", 0},
                                                           {"reduction_factor", 0},
                                                           {"speech_decoder_prenet_layers", 0},
                                                           {"speech_decoder_postnet_kernel", 4},
                                                           {"speech_decoder_prenet_dropout", 1.0},
                                                           {"guided_attention_loss_sigma", 0},
                                                           {"encoder_max_relative_position", 1e12},
                                                           {"max_speech_positions", "many"}})
    EXPECT_NE(refused("speecht5", field, value).find(field), std::string::npos) << field << " " << value;
  for (const auto& [field, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"model_in_dim", 0},
                                                           {"upsample_rates", {4}},
                                                           {"upsample_rates", {1 << 10, 1 << 10}},
                                                           {"resblock_dilation_sizes", {{1}, {1e9}}},
                                                           {"sampling_rate", -1}})
    EXPECT_NE(refused("speecht5-hifi-gan", field, value), "") << field << " " << value;
}

}  // namespace
}  // namespace transom

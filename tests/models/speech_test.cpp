// SPDX-License-Identifier: Apache-2.0
// Wav2Vec2 and HuBERT made from a configuration.
#include <gtest/gtest.h>

#include <cmath>

#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string speech_config(const std::string& more, const std::string& architecture = "Wav2Vec2ForCTC") {
  return R"({"model_type": ")" + std::string(architecture.starts_with("Hubert") ? "hubert" : "wav2vec2") +
         R"(", "architectures": [")" + architecture + R"("], "vocab_size": 6, "hidden_size": 8,
    "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "conv_dim": [4, 6],
    "conv_kernel": [5, 3], "conv_stride": [3, 2], "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
    "feat_extract_norm": "layer", )" +
         more + R"("hidden_dropout": 0, "attention_dropout": 0, "activation_dropout": 0, "final_dropout": 0})";
}

std::vector<float> sound_wave(size_t samples) {
  std::vector<float> values;
  for (size_t i = 0; i < samples; ++i) values.push_back(std::sin(0.7f * static_cast<float>(i * i % 31)));
  return values;
}

// 5 samples for the first frame of the first layer, 3 for each further one; then 3 and 2: 53 samples are 8 frames.
TEST(Speech, PaddingChangesNothingForTheFramesThatCount) {
  const auto model = Model::from_config(speech_config(""));
  const auto alone =
      model->forward({{"input_values", Tensor::from(sound_wave(53), {1, 53})}}).at("logits").to_vector<float>();
  ASSERT_EQ(alone.size(), 8u * 6);
  std::vector<float> padded = sound_wave(53);
  padded.resize(90, 0.5f);
  std::vector<int64_t> mask(53, 1);
  mask.resize(90, 0);
  const auto both =
      model->forward({{"input_values", Tensor::from(padded, {1, 90})}, {"attention_mask", Tensor::from(mask, {1, 90})}})
          .at("logits")
          .to_vector<float>();
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(both[i], alone[i], 1e-5) << i;
}

TEST(Speech, RefusesSoundsShorterThanAFrame) {
  const auto model = Model::from_config(speech_config(""));
  EXPECT_NO_THROW(model->forward({{"input_values", Tensor::from(sound_wave(11), {1, 11})}}));
  EXPECT_THROW(model->forward({{"input_values", Tensor::from(sound_wave(10), {1, 10})}}), Error);
}

TEST(Speech, RefusesVariantsByName) {
  EXPECT_THROW(Model::from_config(speech_config(R"("feat_extract_norm": "batch", )")), Error);
  EXPECT_THROW(Model::from_config(speech_config(R"("conv_stride": [3], )")), Error);
  EXPECT_THROW(Model::from_config(speech_config(R"("add_adapter": true, )", "Wav2Vec2ForSequenceClassification")),
               Error);
}

// Two speakers of an X-vector model; a sound is told by its own frames, whatever pads it.
TEST(Speech, SpeakersHaveVectors) {
  const std::string text = speech_config(R"("tdnn_dim": [6, 5], "tdnn_kernel": [3, 1], "tdnn_dilation": [2, 1],
    "xvector_output_dim": 7, "num_labels": 2, )",
                                         "Wav2Vec2ForXVector");
  const auto model = Model::from_config(text);
  std::vector<float> padded = sound_wave(53);
  padded.resize(90, 0.5f);
  std::vector<int64_t> mask(53, 1);
  mask.resize(90, 0);
  const NamedTensors alone = model->forward({{"input_values", Tensor::from(sound_wave(53), {1, 53})},
                                             {"attention_mask", Tensor::from(std::vector<int64_t>(53, 1), {1, 53})},
                                             {"labels", Tensor::from(std::vector<int64_t>{1}, {1})}});
  const NamedTensors both = model->forward(
      {{"input_values", Tensor::from(padded, {1, 90})}, {"attention_mask", Tensor::from(mask, {1, 90})}});
  EXPECT_EQ(alone.at("embeddings").shape(), (Shape{1, 7}));
  EXPECT_EQ(alone.at("logits").shape(), (Shape{1, 7}));
  EXPECT_GT(alone.at("loss").to_vector<float>()[0], 0);
  // 8 frames, of which the layers leave 4; Transformers counts 6, and reads two of the padding's if there is one.
  EXPECT_EQ(both.at("embeddings").shape(), (Shape{1, 7}));
  EXPECT_THROW(Model::from_config(speech_config(R"("tdnn_dim": [6], )", "Wav2Vec2ForXVector")), Error);
  EXPECT_THROW(model->forward({{"input_values", Tensor::from(sound_wave(11), {1, 11})}}), Error);
}

// Masking needs a parameter, which only training uses; it makes other losses in other passes.
TEST(Speech, TrainingMasksFramesAtRandom) {
  const auto model = Model::from_config(
      speech_config(R"("mask_time_prob": 0.4, "mask_time_length": 2, "layerdrop": 0, )", "HubertForCTC"));
  NamedTensors inputs{{"input_values", Tensor::from(sound_wave(90), {1, 90})},
                      {"labels", Tensor::from(std::vector<int64_t>{1, 2}, {1, 2})}};
  const auto loss = [&](bool training, int64_t seed) {
    ForwardContext context{.training = training, .dropout_key = Tensor::from(std::vector<int64_t>{seed, 0}, {2})};
    return model->forward(inputs, context).at("loss");
  };
  EXPECT_EQ(loss(false, 1).item<float>(), loss(false, 2).item<float>());
  EXPECT_NE(loss(true, 1).item<float>(), loss(true, 2).item<float>());
  for (const auto& parameter : model->parameters()) {
    if (!parameter->name.ends_with("masked_spec_embed")) continue;
    const auto gradient = gradients(loss(true, 1), {parameter->value})[0].to_vector<float>();
    EXPECT_GT(std::abs(gradient[0]), 0);
    return;
  }
  FAIL() << "there is no masked_spec_embed";
}

// With certainty, all layers are left out: what they would do does not count.
TEST(Speech, LayersAreLeftOutInTraining) {
  const auto model = Model::from_config(speech_config(R"("layerdrop": 1, "mask_time_prob": 0, )"));
  const NamedTensors inputs{{"input_values", Tensor::from(sound_wave(53), {1, 53})}};
  const auto states = [&](bool training) {
    ForwardContext context{.training = training,
                           .dropout_key = Tensor::from(std::vector<int64_t>{1, 0}, {2}),
                           .output_hidden_states = true};
    const NamedTensors outputs = model->forward(inputs, context);
    return std::make_pair(outputs.at("hidden_states.0").to_vector<float>(),
                          outputs.at("hidden_states.2").to_vector<float>());
  };
  const auto [in, out] = states(true);
  EXPECT_EQ(in, out);
  const auto [before, behind] = states(false);
  EXPECT_NE(before, behind);
}

}  // namespace
}  // namespace transom

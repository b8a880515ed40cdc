// SPDX-License-Identifier: Apache-2.0
// Wav2Vec2ForPreTraining: its losses, what learns, and the checkpoint as the base of other heads.
#include <gtest/gtest.h>

#include <cmath>

#include "support/temporary_folder.h"
#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kConfig = R"({"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForPreTraining"],
  "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "conv_dim": [8, 8],
  "conv_kernel": [10, 8], "conv_stride": [5, 8], "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
  "num_codevectors_per_group": 5, "num_codevector_groups": 2, "codevector_dim": 8, "proj_codevector_dim": 6,
  "diversity_loss_weight": 0.25, "vocab_size": 7})";
constexpr int64_t kRows = 2, kSamples = 300, kFrames = 7;

NamedTensors sound_batch(int64_t distractor_step) {
  std::vector<float> wave;
  for (int i = 0; i < kRows * kSamples; ++i)
    wave.push_back(static_cast<float>(std::sin(i * 0.7) * std::cos(i * i * 0.01)));
  std::vector<int64_t> masked, distractors;
  for (int64_t frame = 0; frame < kRows * kFrames; ++frame) {
    masked.push_back(frame % 3 == 0);
    for (int64_t k = 1; k <= 2; ++k) distractors.push_back((frame + k * distractor_step) % (kRows * kFrames));
  }
  return {{"input_values", Tensor::from(wave, {kRows, kSamples})},
          {"mask_time_indices", Tensor::from(masked, {kRows, kFrames})},
          {"sampled_negative_indices", Tensor::from(distractors, {kRows, kFrames, 2})}};
}

float number(const NamedTensors& outputs, const char* name) { return outputs.at(name).item<float>(); }

TEST(Wav2Vec2ForPreTraining, TheLossJoinsContrastAndDiversity) {
  const auto model = Model::from_config(kConfig);
  const NamedTensors outputs = model->forward(sound_batch(3));
  EXPECT_EQ(outputs.at("projected_states").shape(), (Shape{kRows, kFrames, 6}));
  EXPECT_EQ(outputs.at("projected_quantized_states").shape(), (Shape{kRows, kFrames, 6}));
  const float perplexity = number(outputs, "codevector_perplexity");
  EXPECT_GE(perplexity, 2 * 0.999f);  // at least one code of each group is in use, at most all
  EXPECT_LE(perplexity, 10 * 1.001f);
  constexpr float kMasked = 5;
  EXPECT_NEAR(number(outputs, "diversity_loss"), (10 - perplexity) / 10 * kMasked, 1e-4);
  EXPECT_NEAR(number(outputs, "loss"), number(outputs, "contrastive_loss") + 0.25f * number(outputs, "diversity_loss"),
              1e-4);
  EXPECT_GT(number(outputs, "contrastive_loss"), 0);
  // Distractors that are the frame itself are none: there is nothing to choose.
  EXPECT_EQ(number(model->forward(sound_batch(0)), "contrastive_loss"), 0);
}

TEST(Wav2Vec2ForPreTraining, TheQuantizerLearnsThroughItsDraws) {
  const auto model = Model::from_config(kConfig);
  std::vector<Tensor> wanted;
  for (const char* name : {"quantizer.weight_proj.weight", "quantizer.codevectors", "wav2vec2.masked_spec_embed"})
    for (const auto& parameter : model->parameters())
      if (parameter->name == name) wanted.push_back(parameter->value);
  ASSERT_EQ(wanted.size(), 3u);
  const auto largest = [](const Tensor& x) {
    float most = 0;
    for (const float value : x.to_vector<float>()) most = std::max(most, std::abs(value));
    return most;
  };
  ForwardContext training;
  training.training = true;
  training.dropout_key = Tensor::from(std::vector<int64_t>{5, 0}, {2});
  const auto learnt = gradients(model->forward(sound_batch(3), training).at("loss"), wanted);
  for (const Tensor& gradient : learnt) {
    EXPECT_GT(largest(gradient), 0);
    EXPECT_TRUE(std::isfinite(largest(gradient)));
  }
  // Without them the best code is taken, which no slope leads to.
  const auto fixed = gradients(model->forward(sound_batch(3)).at("loss"), wanted);
  EXPECT_EQ(largest(fixed[0]), 0);
  EXPECT_GT(largest(fixed[1]), 0);
}

TEST(Wav2Vec2ForPreTraining, ItsCheckpointIsTheBaseOfOtherHeads) {
  const test::TemporaryFolder folder;
  const auto trained = Model::from_config(kConfig);
  trained->save_pretrained(folder.path().string());
  EXPECT_EQ(Model::from_pretrained(folder.path().string())->architecture(), "Wav2Vec2ForPreTraining");
  for (const char* task : {"automatic-speech-recognition", "audio-classification"}) {
    LoadReport report;
    LoadOptions options;
    options.task = task;
    const auto tuned = Model::from_pretrained(folder.path().string(), options, &report);
    for (const std::string& name : report.missing) EXPECT_FALSE(name.starts_with("wav2vec2.")) << name;
    EXPECT_FALSE(report.missing.empty());
    for (const std::string& name : report.unexpected)
      EXPECT_TRUE(name.starts_with("quantizer.") || name.starts_with("project_")) << name;
    size_t same = 0;
    for (const auto& is : tuned->parameters())
      for (const auto& was : trained->parameters())
        if (is->name == was->name) same += is->value.to_bytes() == was->value.to_bytes();
    EXPECT_EQ(same + report.unexpected.size(), trained->parameters().size());
  }
}

TEST(Wav2Vec2ForPreTraining, RefusesIndicesThatDoNotFit) {
  const auto model = Model::from_config(kConfig);
  const NamedTensors good = sound_batch(1);
  const NamedTensors unmasked{{"input_values", good.at("input_values")},
                              {"sampled_negative_indices", good.at("sampled_negative_indices")}};
  EXPECT_THROW(model->forward(unmasked), Error);
  NamedTensors short_mask = good;
  short_mask.set("mask_time_indices", slice(good.at("mask_time_indices"), 1, 0, 3));
  EXPECT_THROW(model->forward(short_mask), Error);
  NamedTensors flat = good;
  flat.set("sampled_negative_indices", reshape(good.at("sampled_negative_indices"), {kRows, kFrames * 2}));
  EXPECT_THROW(model->forward(flat), Error);
}

}  // namespace
}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// Sounds that go through a model together: each has the results that it has alone.
#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

Json sound(int seed, int samples) {
  Json array = Json::array();
  for (int i = 0; i < samples; ++i) array.push_back(std::sin(0.001 * (seed + 3) * i) * std::cos(0.07 * i + seed));
  return {{"array", array}, {"sampling_rate", 16000}};
}

// Two of one length, one of another, one again of the first.
std::vector<Json> sounds() { return {sound(0, 4000), sound(1, 4000), sound(2, 5600), sound(3, 4000)}; }

// Scores of classes may differ in the last bits: below AVX-512 the library's products of few columns add in an order
// that depends on the number of rows.
void expect_near(const Json& found, const Json& expected) {
  constexpr double kTolerance = 1e-6;
  if (expected.is_number_float()) {
    EXPECT_NEAR(found.get<double>(), expected.get<double>(), kTolerance);
  } else if (expected.is_structured()) {
    ASSERT_EQ(found.size(), expected.size());
    for (auto a = found.begin(), b = expected.begin(); b != expected.end(); ++a, ++b) expect_near(*a, *b);
  } else {
    EXPECT_EQ(found, expected);
  }
}

void expect_same_alone(const Pipeline& task, Json parameters) {
  const std::vector<Json> alone = run_pipeline(task, sounds(), parameters);
  ASSERT_EQ(alone.size(), 4u);
  for (const int64_t size : {int64_t{2}, int64_t{3}, INT64_MAX}) {
    parameters["batch_size"] = size;
    const std::vector<Json> together = run_pipeline(task, sounds(), parameters);
    SCOPED_TRACE(size);
    expect_near(Json(together), Json(alone));
  }
}

std::string golden(const char* model) { return (test::golden_folder() / model).string(); }

TEST(SoundBatches, ClassesAreThoseOfSoundsAlone) {
  const test::TemporaryFolder folder;
  Model::from_config(R"({"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForSequenceClassification"],
      "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20, "conv_dim": [8, 8],
      "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
      "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8, "vocab_size": 12, "initializer_range": 0.5})",
                     {.seed = 3})
      ->save_pretrained(folder.string());
  write_file(folder / "preprocessor_config.json",
             R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16000, "do_normalize": true})");
  const auto task = make_pipeline("audio-classification", folder.string());
  EXPECT_NE(run_pipeline(*task, sound(0, 4000), Json::object()), run_pipeline(*task, sound(1, 4000), Json::object()));
  expect_same_alone(*task, Json::object());
}

TEST(SoundBatches, SpeechIsThatOfSoundsAlone) {
  const std::string directory = golden("wav2vec2-ctc/model");
  const auto task = make_pipeline("automatic-speech-recognition", directory);
  expect_same_alone(*task, {{"return_timestamps", "char"}});
  expect_same_alone(*task, {{"chunk_length_s", 0.1}});
}

TEST(SoundBatches, BytesInMemoryAreAsFiles) {
  const auto task = make_pipeline("automatic-speech-recognition", golden("wav2vec2-ctc/model"));
  const std::string file = (test::golden_folder() / "audio" / "mono_16k.wav").string(), bytes = read_file(file);
  EXPECT_EQ(run_pipeline(*task, Json::binary({bytes.begin(), bytes.end()}), Json::object()),
            run_pipeline(*task, file, Json::object()));
  const std::string error = test::message_of([&] {
    run_pipeline(*task, Json::binary({'n', 'o', 'n', 'e'}), Json::object());
  });
  EXPECT_TRUE(error.starts_with("the input: expected a sound")) << error;
}

TEST(SoundBatches, WhisperWritesWhatItWritesOfSoundsAlone) {
  const std::string directory = golden("whisper/model");
  const auto task = make_pipeline("automatic-speech-recognition", directory);
  for (const int64_t beams : {1, 3}) expect_same_alone(*task, {{"max_new_tokens", 8}, {"num_beams", beams}});
  expect_same_alone(*task, {{"max_new_tokens", 8}, {"chunk_length_s", 0.1}});
}

}  // namespace
}  // namespace transom

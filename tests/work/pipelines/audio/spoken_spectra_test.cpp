// SPDX-License-Identifier: Apache-2.0
// Sounds of texts by SpeechT5 and its vocoder, with what a seed leaves of the prenet, as Transformers makes them
// (tests/golden/speaking/speecht5).
#include <gtest/gtest.h>

#include <cstring>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "inputs/audio/voice_vector.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/audio/model_speech.h"

namespace transom {
namespace {

const fs::path kSpeechT5 = test::golden_folder() / "speaking" / "speecht5";

std::vector<float> samples_of(const Pipeline& pipeline, const std::string& text, const TaskOptions& options) {
  return std::get<Waveform>(run_pipeline(pipeline, {TextInput(text)}, options).at(0)).samples;
}

TEST(SpokenSpectra, AreTheSoundsOfTransformers) {
  const auto pipeline = make_pipeline("text-to-speech", (kSpeechT5 / "model").string());
  const SafetensorsFile sounds = SafetensorsFile::open(kSpeechT5 / "sounds.safetensors");
  const Json about = read_json(kSpeechT5 / "case.json");
  ASSERT_EQ(about["sounds"].size(), 4U);
  for (const Json& one : about["sounds"]) {
    TaskOptions options{{"seed", one["seed"].get<int64_t>()}, {"voice", one["voice"].get<std::string>()}};
    for (const char* name : {"threshold", "minlenratio", "maxlenratio"})
      if (one.contains(name)) options.set(name, one[name].get<double>());
    const std::vector<float> found = samples_of(*pipeline, one["text"].get<std::string>(), options);
    std::vector<float> expected;
    for (const auto& [name, view] : sounds.tensors())
      if (name == one["name"].get<std::string>())
        expected = Tensor::from_bytes(view.bytes, {view.dtype, view.shape}).to_vector<float>();
    ASSERT_EQ(found.size(), expected.size()) << one["name"];
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 5e-5F) << one["name"] << " " << i;
  }
}

TEST(SpokenSpectra, TakeAVoiceOfAFileOrByItsName) {
  const auto pipeline = make_pipeline("text-to-speech", (kSpeechT5 / "model").string());
  const TaskOptions still{{"seed", 1}, {"maxlenratio", 1.0}};
  const auto with = [&](const char* name, const std::string& value) {
    TaskOptions options = still;
    options.set(name, value);
    return samples_of(*pipeline, "abc", options);
  };
  const fs::path voices = kSpeechT5 / "model" / "voices";
  EXPECT_EQ(samples_of(*pipeline, "abc", still), with("voice", "anna"));
  EXPECT_EQ(with("voice", "bert"), with("speaker_embeddings", (voices / "bert.safetensors").string()));
  EXPECT_NE(with("voice", "anna"), with("voice", "bert"));
  const test::TemporaryFolder folder;
  const std::vector<float> numbers = voice_vector(voices / "anna.npy");
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  write_file(folder / "anna.bin", bytes);
  EXPECT_EQ(with("voice", "anna"), with("speaker_embeddings", (folder / "anna.bin").string()));
  write_file(folder / "short.bin", bytes.substr(0, 8));
  write_file(folder / "odd.bin", bytes.substr(0, 7));
  const auto refused = [&](const char* name, const std::string& value) {
    return test::message_of([&] { with(name, value); });
  };
  EXPECT_NE(refused("speaker_embeddings", (folder / "short.bin").string()).find("5 numbers"), std::string::npos);
  EXPECT_NE(refused("speaker_embeddings", (folder / "odd.bin").string()).find("4 bytes"), std::string::npos);
  EXPECT_NE(refused("voice", "ana").find("anna"), std::string::npos);
  EXPECT_NE(refused("vocoder", (kSpeechT5 / "model").string()).find("vocoder"), std::string::npos);
}

TEST(SpokenSpectra, TakeWhatTheirModelHasAUseFor) {
  const auto pipeline = make_pipeline("text-to-speech", (kSpeechT5 / "model").string());
  const auto refused = [&](const TaskOptions& options) {
    return test::message_of([&] { samples_of(*pipeline, "a", options); });
  };
  EXPECT_NE(refused({{"speed", 2.0}}).find("speed"), std::string::npos);
  EXPECT_NE(refused({{"noise_scale", 1.0}}).find("noise_scale"), std::string::npos);
  EXPECT_NE(refused({{"maxlenratio", -1.0}}).find("maxlenratio"), std::string::npos);
  EXPECT_NE(refused({{"threshold", -1.0}}).find("threshold"), std::string::npos);
  EXPECT_NE(refused({{"threshold", 9.0}, {"maxlenratio", 999.0}}).find("max_speech_positions"), std::string::npos);
}

// What has more tokens than the model reads is spoken in pieces, which numbers that are spelt out make longer.
TEST(SpokenSpectra, OfLongTextsStandOneBehindTheOther) {
  const auto pipeline = make_pipeline("text-to-speech", (kSpeechT5 / "model").string());
  const TaskOptions short_ones{{"seed", 1}, {"maxlenratio", 0.5}};
  const std::string words = "a cab. 1111 111";
  EXPECT_GT(samples_of(*pipeline, words, short_ones).size(), samples_of(*pipeline, "a cab.", short_ones).size());
}

}  // namespace
}  // namespace transom

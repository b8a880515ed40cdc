// SPDX-License-Identifier: Apache-2.0
// Whole sounds of texts, with the noise of a seed, as Transformers makes them (tests/golden/speaking).
#include "work/pipelines/audio/model_speech.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/message.h"

namespace transom {
namespace {

const fs::path kVits = test::golden_folder() / "speaking" / "vits";

std::vector<float> sound_of(const SafetensorsFile& file, const std::string& name) {
  for (const auto& [known, view] : file.tensors())
    if (known == name) return Tensor::from_bytes(view.bytes, {view.dtype, view.shape}).to_vector<float>();
  return {};
}

TEST(ModelSpeech, OfVitsIsThatOfTransformers) {
  const auto pipeline = make_pipeline("text-to-speech", (kVits / "model").string());
  const SafetensorsFile sounds = SafetensorsFile::open(kVits / "sounds.safetensors");
  for (const Json& one : read_json(kVits / "case.json")) {
    const auto name = one["name"].get<std::string>();
    const std::vector<TaskResult> results =
        run_pipeline(*pipeline, {TextInput(one["text"].get<std::string>())},
                     {{"seed", one["seed"].get<int64_t>()}, {"speed", one["speed"].get<double>()}});
    const auto& found = std::get<Waveform>(results.at(0));
    EXPECT_EQ(found.sampling_rate, 16000);
    const std::vector<float> expected = sound_of(sounds, name);
    ASSERT_EQ(found.samples.size(), expected.size()) << name;
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found.samples[i], expected[i], 5e-5F) << name << " " << i;
  }
}

TEST(ModelSpeech, TakesWhatItsModelHasAUseFor) {
  const auto pipeline = make_pipeline("text-to-speech", (kVits / "model").string());
  const auto speak = [&](const std::string& text, const TaskOptions& options) {
    return std::get<Waveform>(run_pipeline(*pipeline, {TextInput(text)}, options).at(0)).samples;
  };
  const TaskOptions still{{"noise_scale", 0.0}, {"noise_scale_duration", 0.0}};
  EXPECT_EQ(speak("abc", still), speak("abc", still));  // whatever the seed
  EXPECT_NE(speak("abc", {{"seed", 1}}), speak("abc", {{"seed", 2}}));
  for (const auto& [option, value] : std::initializer_list<std::pair<const char*, TaskOptions::Value>>{
           {"voice", "1"}, {"phonemes", true}, {"vocoder", "x"}, {"speed", 0.0}, {"noise_scale", -1.0}})
    EXPECT_NE(test::message_of([&, &option = option, &value = value] {
                speak("a", {{option, value}});
              }).find(option),
              std::string::npos)
        << option;
  EXPECT_NE(test::message_of([&] { speak("xyz", {}); }).find("no character"), std::string::npos);
}

// What is longer than is spoken at once is spoken in pieces, whose sounds stand one behind the other.
TEST(ModelSpeech, LongTextsAreSpokenInPieces) {
  const auto pipeline = make_pipeline("text-to-speech", (kVits / "model").string());
  const auto samples = [&](const std::string& text) {
    return std::get<Waveform>(run_pipeline(*pipeline, {TextInput(text)},
                                           {{"noise_scale", 0.0}, {"noise_scale_duration", 0.0}, {"speed", 10.0}})
                                  .at(0))
        .samples;
  };
  std::string first, second = "cab";
  while (first.size() < 1490) first += "bad a";
  std::vector<float> both = samples(first + ".");
  const std::vector<float> rest = samples(second);
  both.insert(both.end(), rest.begin(), rest.end());
  EXPECT_EQ(samples(first + "." + second + std::string(20, ' ')), both);
}

}  // namespace
}  // namespace transom

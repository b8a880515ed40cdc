// SPDX-License-Identifier: Apache-2.0
// Sounds from files, resampling, and the feature extractors.
#include "inputs/audio/sound.h"

#include <gtest/gtest.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numbers>

#include "files/checkpoint/safetensors.h"
#include "inputs/audio/feature_extractor.h"
#include "inputs/audio/mel_filters.h"
#include "support/golden.h"
#include "support/sampled_values.h"
#include "transom/error.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test, gone with it.
class Sounds : public testing::Test {
 protected:
  Sounds() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Sounds() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  // A WAV file of 16-bit samples, channel beside channel.
  fs::path wav(int16_t channels, int32_t rate, const std::vector<int16_t>& samples) const {
    const auto bytes = [](auto value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
    const auto size = static_cast<int32_t>(samples.size() * 2);
    std::string file = "RIFF" + bytes(36 + size) + "WAVEfmt " + bytes(int32_t{16}) + bytes(int16_t{1}) +
                       bytes(channels) + bytes(rate) + bytes(rate * channels * 2) +
                       bytes(static_cast<int16_t>(channels * 2)) + bytes(int16_t{16}) + "data" + bytes(size);
    for (const int16_t sample : samples) file += bytes(sample);
    return write("a.wav", file);
  }

  fs::path folder_ = fs::path(testing::TempDir()) /
                     (std::string("transom_sound_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Sounds, ChannelsAreAveraged) {
  const Sound sound = read_sound(wav(2, 8000, {16384, -16384, 8192, 16384}));
  EXPECT_EQ(sound.sampling_rate, 8000);
  EXPECT_EQ(sound.samples, (std::vector<float>{0, 0.375f}));
}

// The lossy ones keep a tone to a few hundredths, and may add silence at the ends.
TEST_F(Sounds, ReadsEveryFormat) {
  constexpr int kRate = 16000;
  std::vector<float> tone;
  for (int i = 0; i < kRate; ++i)
    tone.push_back(static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * 440 * i / kRate)));
  for (const auto& [name, format] :
       std::vector<std::pair<std::string, int>>{{"a.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_24},
                                                {"a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16},
                                                {"a.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS},
                                                {"a.mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III}}) {
    SF_INFO info{.samplerate = kRate, .channels = 1, .format = format};
    SNDFILE* file = sf_open((folder_ / name).c_str(), SFM_WRITE, &info);
    ASSERT_NE(file, nullptr) << name;
    sf_writef_float(file, tone.data(), kRate);
    sf_close(file);
    EXPECT_TRUE(is_sound_name(folder_ / name));
    const Sound sound = read_sound(folder_ / name);
    EXPECT_EQ(sound.sampling_rate, kRate) << name;
    EXPECT_NEAR(sound.seconds(), 1, 0.2) << name;
    std::ifstream stream(folder_ / name, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
    EXPECT_EQ(parse_sound(std::as_bytes(std::span(bytes)), name).samples, sound.samples) << name;
    const float loudest = *std::max_element(sound.samples.begin(), sound.samples.end());
    EXPECT_NEAR(loudest, 0.5, 0.05) << name;
    int64_t rises = 0;  // through zero: one a period
    for (size_t i = 1; i < sound.samples.size(); ++i) rises += sound.samples[i - 1] < -1e-3f && sound.samples[i] >= 0;
    EXPECT_GE(rises, 430) << name;
  }
}

TEST_F(Sounds, RefusesWhatIsNoSound) {
  EXPECT_THROW(read_sound(folder_ / "none.wav"), Error);
  EXPECT_THROW(read_sound(write("text.wav", "not a sound at all")), Error);
  EXPECT_THROW(read_sound(write("cut.wav", "RIFF\x24")), Error);
  EXPECT_THROW(read_sound(wav(1, 8000, {})), Error);
  EXPECT_THROW(read_sound(wav(1, 8000, std::vector<int16_t>(10)), 9), Error);
}

// A tone stays the same tone, at half and at twice the rate.
TEST_F(Sounds, ResamplingKeepsATone) {
  const auto tone = [](int64_t rate, int64_t i) {
    return std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / static_cast<double>(rate));
  };
  Sound sound{{}, 16000};
  for (int64_t i = 0; i < 1600; ++i) sound.samples.push_back(static_cast<float>(tone(16000, i)));
  for (const int64_t rate : {8000, 32000, 11025}) {
    const Sound other = resampled(sound, rate);
    EXPECT_EQ(static_cast<int64_t>(other.samples.size()), (1600 * rate + 15999) / 16000);
    for (size_t i = 100; i + 100 < other.samples.size(); ++i)
      ASSERT_NEAR(other.samples[i], tone(rate, static_cast<int64_t>(i)), 5e-3) << rate << " at " << i;
  }
  EXPECT_EQ(resampled(sound, 16000).samples, sound.samples);
}

TEST(MelFilters, AreTrianglesOfEqualArea) {
  const std::vector<double> filters = mel_filters({.frequency_bins = 1025, .mel_bins = 10, .equal_area = true});
  for (size_t mel = 0; mel < 10; ++mel) {
    double area = 0;
    for (size_t bin = 0; bin < 1025; ++bin) area += filters[bin * 10 + mel] * 8000 / 1024;
    EXPECT_NEAR(area, 1, 0.02) << mel;
  }
}

TEST_F(Sounds, WavesAreNormalisedOverWhatCounts) {
  write("preprocessor_config.json",
        R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor", "do_normalize": true,
            "return_attention_mask": true})");
  const std::vector<Sound> sounds = {{{1, 3}, 16000}, {{2, 4, 2, 4}, 16000}};
  const AudioFeatures features = (*FeatureExtractor::read(folder_))(sounds);
  EXPECT_EQ(features.shape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(features.attention_mask, (std::vector<int64_t>{1, 1, 0, 0, 1, 1, 1, 1}));
  const std::vector<float> expected = {-1, 1, 0, 0, -1, 1, -1, 1};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(features.values[i], expected[i], 1e-6) << i;
}

// A sound is repeated as often as it fits whole, with silence behind it; of a longer one the beginning is heard.
TEST_F(Sounds, OfClapFillTheirLength) {
  const std::string fields =
      R"("feature_extractor_type": "ClapFeatureExtractor", "sampling_rate": 1000, "max_length_s": 1, "hop_length": 100,
         "fft_window_size": 64, "frequency_max": 500, "feature_size": 4)";
  write("preprocessor_config.json", "{" + fields + R"(, "truncation": "rand_trunc"})");
  const auto extractor = FeatureExtractor::read(folder_);
  Sound tone{{}, 1000}, filled{{}, 1000}, longer{{}, 1000};
  for (int i = 0; i < 400; ++i) tone.samples.push_back(static_cast<float>(std::sin(i * 0.7)));
  for (int i = 0; i < 800; ++i) filled.samples.push_back(tone.samples[static_cast<size_t>(i % 400)]);
  filled.samples.resize(1000, 0);
  longer = filled;
  longer.samples.resize(1500, 1);
  const auto features = [&](const Sound& sound) { return (*extractor)(std::span(&sound, 1)); };
  EXPECT_EQ(features(tone).shape, (std::vector<int64_t>{1, 1, 11, 4}));
  EXPECT_EQ(features(tone).values, features(filled).values);
  EXPECT_EQ(features(longer).values, features(filled).values);
  write("preprocessor_config.json", "{" + fields + R"(, "truncation": "fusion"})");
  EXPECT_THROW(FeatureExtractor::read(folder_), Error);
}

TEST_F(Sounds, RefusesExtractorsItDoesNotKnow) {
  write("preprocessor_config.json", R"({"feature_extractor_type": "EarTrumpet"})");
  EXPECT_THROW(FeatureExtractor::read(folder_), Error);
  write("preprocessor_config.json", R"({"feature_extractor_type": "WhisperFeatureExtractor", "dither": 0.1})");
  EXPECT_THROW(FeatureExtractor::read(folder_), Error);
  write("preprocessor_config.json", R"({"feature_extractor_type": "WhisperFeatureExtractor", "n_fft": -400})");
  EXPECT_THROW(FeatureExtractor::read(folder_), Error);
}

// ---- the cases made with the real libraries

void expect_near(std::span<const float> got, const test::KeptValues& expected, double tolerance) {
  int64_t count = 1;
  for (const int64_t extent : expected.shape) count *= extent;
  ASSERT_EQ(static_cast<int64_t>(got.size()), count) << expected.name;
  EXPECT_EQ(difference(expected, {got.begin(), got.end()}, tolerance, 0), "") << expected.name;
}

class GoldenAudio : public testing::TestWithParam<std::string> {};

TEST_P(GoldenAudio, ResamplingAndFeatures) {
  const fs::path folder = test::folder_of_case(GetParam());
  const SafetensorsFile expected = SafetensorsFile::open(folder / "expected.safetensors");
  const auto view = [&](const std::string& name) {
    for (const auto& [stored, tensor] : expected.tensors()) {
      if (stored.substr(0, stored.find(" [")) != name) continue;
      const auto* values = reinterpret_cast<const float*>(tensor.bytes.data());
      return test::kept_values(stored, tensor.shape, {values, values + tensor.bytes.size() / sizeof(float)});
    }
    ADD_FAILURE() << name;
    return test::KeptValues{};
  };
  std::vector<Sound> sounds;
  for (const char* name : {"mono_16k.wav", "stereo_44k.wav"})
    sounds.push_back(resampled(read_sound(folder / name), 16000));
  expect_near(sounds[1].samples, view("resampled/stereo_44k.wav"), 1e-5);
  const auto wave = FeatureExtractor::read(folder / "wav2vec2"), whisper = FeatureExtractor::read(folder / "whisper");
  const bool has_ast = fs::exists(folder / "ast");
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "mono_16k.wav" : "stereo_44k.wav";
    const std::span<const Sound> one(&sounds[i], 1);
    expect_near((*wave)(one).values, view("wav2vec2/" + name + "/input_values"), 1e-4);
    expect_near((*whisper)(one).values, view("whisper/" + name + "/input_features"), 1e-3);
    if (has_ast)
      expect_near((*FeatureExtractor::read(folder / "ast"))(one).values, view("ast/" + name + "/input_values"), 2e-5);
  }
  const AudioFeatures batch = (*wave)(sounds);
  expect_near(batch.values, view("wav2vec2/batch/input_values"), 1e-4);
  const int64_t counted = std::count(batch.attention_mask.begin(), batch.attention_mask.end(), 1);
  EXPECT_EQ(static_cast<size_t>(counted), sounds[0].samples.size() + sounds[1].samples.size());
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenAudio, testing::ValuesIn(test::golden_cases("mono_16k.wav")), test::NameOfCase());

}  // namespace
}  // namespace transom

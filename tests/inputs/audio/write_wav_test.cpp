// SPDX-License-Identifier: Apache-2.0
// Sounds that were written are read again: to the bit as floats, to half a step of 16 bits as integers.
#include "inputs/audio/write_wav.h"

#include <gtest/gtest.h>
#include <sndfile.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/files/files.h"
#include "inputs/audio/sound.h"
#include "support/message.h"
#include "support/word_models.h"

namespace transom {
namespace {

Waveform waveform_of(int64_t rate, int64_t channels, size_t moments) {
  std::mt19937 random(3);
  Waveform sound{rate, channels, std::vector<float>(moments * static_cast<size_t>(channels))};
  for (float& sample : sound.samples) sample = std::uniform_real_distribution<float>(-1, 1)(random);
  return sound;
}

// What libsndfile reads, with all channels.
Waveform read_all_channels(const std::filesystem::path& path) {
  SF_INFO info{};
  SNDFILE* file = sf_open(path.c_str(), SFM_READ, &info);
  Waveform sound{info.samplerate, info.channels, std::vector<float>(static_cast<size_t>(info.frames * info.channels))};
  sf_read_float(file, sound.samples.data(), static_cast<sf_count_t>(sound.samples.size()));
  sf_close(file);
  return sound;
}

TEST(WriteWav, KeepsSamples) {
  const test::TemporaryFolder folder;
  for (const int64_t channels : {1, 2, 6})
    for (const int64_t rate : {8000, 44100})
      for (const size_t moments : {size_t{1}, size_t{1000}, size_t{70000}}) {
        const Waveform sound = waveform_of(rate, channels, moments);
        write_wav(folder / "f.wav", sound, WavSamples::kFloat32);
        const Waveform exact = read_all_channels(folder / "f.wav");
        EXPECT_EQ(exact.sampling_rate, rate);
        EXPECT_EQ(exact.channels, channels);
        EXPECT_EQ(exact.samples, sound.samples);
        write_wav(folder / "i.wav", sound);
        const Waveform rounded = read_all_channels(folder / "i.wav");
        ASSERT_EQ(rounded.samples.size(), sound.samples.size());
        for (size_t i = 0; i < sound.samples.size(); ++i)
          ASSERT_NEAR(rounded.samples[i] * 32768, sound.samples[i] * 32767, 0.51);
      }
}

TEST(WriteWav, TheReaderReadsItAndTheBytesAreTheSame) {
  const Waveform sound = waveform_of(16000, 1, 500);
  for (const WavSamples samples : {WavSamples::kInt16, WavSamples::kFloat32}) {
    const std::string bytes = encode_wav(sound, samples);
    EXPECT_EQ(bytes, encode_wav(sound, samples));
    EXPECT_EQ(bytes.find("PEAK"), std::string::npos) << "which would hold the time of day";
    const Sound read = parse_sound(std::as_bytes(std::span(bytes)), "written");
    EXPECT_EQ(read.sampling_rate, 16000);
    EXPECT_EQ(read.samples.size(), 500u);
  }
}

TEST(WriteWav, LoudSamplesAreClipped) {
  const std::string bytes = encode_wav({8000, 1, {1.5f, -1.5f, 1, -1, 3e38f, -3e38f, 0}});
  int16_t samples[7];
  std::memcpy(samples, bytes.data() + bytes.size() - sizeof samples, sizeof samples);
  for (const size_t i : {0, 2, 4}) EXPECT_EQ(samples[i], 32767) << i;
  for (const size_t i : {1, 3, 5}) EXPECT_EQ(samples[i], -32767) << i;
  EXPECT_EQ(samples[6], 0);
}

TEST(WriteWav, WhatIsNoSoundIsRefused) {
  const auto refused = [](const Waveform& sound) { return test::message_of([&] { encode_wav(sound, {}, "it"); }); };
  for (const int64_t channels : {int64_t{0}, int64_t{-1}, int64_t{1025}, INT64_MAX})
    EXPECT_NE(refused({8000, channels, {0, 0}}).find("it: expected 1 to 1024 channels"), std::string::npos);
  for (const int64_t rate : {int64_t{0}, int64_t{-8000}, int64_t{10'000'001}, INT64_MAX})
    EXPECT_NE(refused({rate, 1, {0, 0}}).find("samples a second"), std::string::npos);
  EXPECT_NE(refused({8000, 1, {}}).find("found 0 samples"), std::string::npos);
  EXPECT_NE(refused({8000, 2, {0, 0, 0}}).find("found 3 samples"), std::string::npos);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    EXPECT_NE(refused({8000, 1, {0, bad}}).find("finite"), std::string::npos);
  const test::TemporaryFolder folder;
  write_wav(folder / "a.wav", waveform_of(8000, 1, 10));
  const std::string before = read_file(folder / "a.wav");
  EXPECT_NE(test::message_of([&] { write_wav(folder / "a.wav", {8000, 1, {}}); }).find("a.wav"), std::string::npos);
  EXPECT_EQ(read_file(folder / "a.wav"), before);
}

}  // namespace
}  // namespace transom

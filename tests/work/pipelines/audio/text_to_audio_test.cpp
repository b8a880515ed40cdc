// SPDX-License-Identifier: Apache-2.0
// Speech by a graph of Kokoro's shape whose samples tell what it was given: the tokens in hundredths, times the speed,
// and the mean of the voice's row added.
#include <gtest/gtest.h>

#include <cstring>

#include "base/files/directories.h"
#include "base/files/files.h"
#include "inputs/audio/voice_vector.h"
#include "models/onnx/model_writer.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/audio/phonemes.h"
#include "work/pipelines/audio/voices.h"
#include "work/pipelines/pipeline.h"

namespace transom {
namespace {

using onnx::ElementType;
using onnx::test::Message;

std::string telling_graph() {
  onnx::test::GraphParts parts;
  parts.inputs = {onnx::test::value("input_ids", ElementType::kInt64, {1, -1}),
                  onnx::test::value("style", ElementType::kFloat32, {1, 2}),
                  onnx::test::value("speed", ElementType::kFloat32, {1})};
  parts.initializers = {onnx::test::tensor<float>("hundred", ElementType::kFloat32, {1}, {100})};
  parts.nodes = {onnx::test::node("Cast", {"input_ids"}, {"numbers"}, {onnx::test::integer("to", 1)}),
                 onnx::test::node("Div", {"numbers", "hundred"}, {"parts"}),
                 onnx::test::node("Mul", {"parts", "speed"}, {"fast"}),
                 onnx::test::node("ReduceMean", {"style"}, {"mean"}, {onnx::test::integer("keepdims", 0)}),
                 onnx::test::node("Add", {"fast", "mean"}, {"waveform"})};
  parts.outputs = {Message().text(1, "waveform")};
  return onnx::test::model(parts, 17);
}

class TextToAudioTest : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "model.onnx", telling_graph());
    write_file(folder_ / "config.json", R"({"vocab": {"a": 1, "b": 2, "ɕ": 3, ".": 4}, "sampling_rate": 8000})");
    make_directories(folder_ / "voices");
    // Rows for 1, 2 and 3 phonemes.
    write_voice("calm", {0.0f, 0.0f, 0.25f, 0.25f, 0.5f, 0.5f});
    write_voice("loud", {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f});
  }
  void write_voice(const std::string& name, const std::vector<float>& rows) {
    std::string bytes(rows.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), rows.data(), bytes.size());
    write_file(folder_ / "voices" / (name + ".bin"), bytes);
  }
  Waveform speech(const std::string& text, TaskOptions options = {}) {
    options.set("phonemes", true);
    const auto pipeline = make_pipeline("text-to-speech", folder_.string());
    return std::get<Waveform>(run_pipeline(*pipeline, {TextInput(text)}, options).at(0));
  }
  static void expect_samples(const Waveform& sound, const std::vector<float>& expected) {
    ASSERT_EQ(sound.samples.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(sound.samples[i], expected[i], 1e-6f) << i;
  }
  test::TemporaryFolder folder_;
};

TEST_F(TextToAudioTest, SilenceStandsAroundThePhonemesThatTheModelKnows) {
  const Waveform sound = speech("axɕ");
  EXPECT_EQ(sound.sampling_rate, 8000);
  EXPECT_EQ(sound.channels, 1);
  expect_samples(sound, {0.25f, 0.26f, 0.28f, 0.25f});
}

TEST_F(TextToAudioTest, VoiceAndSpeedAreGivenToTheGraph) {
  expect_samples(speech("b", {{"voice", "loud"}, {"speed", 2.0}}), {0.5f, 0.54f, 0.5f});
  EXPECT_NE(test::message_of([&] { speech("b", {{"voice", "lout"}}); }).find("did you mean 'loud'"), std::string::npos);
  EXPECT_NE(test::message_of([&] { speech("b", {{"speed", 0.0}}); }).find("speed"), std::string::npos);
}

TEST_F(TextToAudioTest, LongTextsAreSpokenInPiecesOfAsManyTokensAsTheVoiceHasRows) {
  expect_samples(speech("a.bb"), {0.25f, 0.26f, 0.29f, 0.25f, 0.25f, 0.27f, 0.27f, 0.25f});
  expect_samples(speech("aaaa"), {0.5f, 0.51f, 0.51f, 0.51f, 0.5f, 0.0f, 0.01f, 0.0f});
}

TEST_F(TextToAudioTest, WhatCannotBeSpokenIsRefused) {
  EXPECT_NE(test::message_of([&] { speech("xyz"); }).find("no phoneme"), std::string::npos);
  write_voice("calm", {0.0f, 0.0f, 1.0f});
  EXPECT_NE(test::message_of([&] { speech("a"); }).find("rows of 2 numbers"), std::string::npos);
  write_file(folder_ / "config.json", R"({"vocab": {"a": "b"}})");
  EXPECT_NE(test::message_of([&] { speech("a"); }).find("expected a number for 'a'"), std::string::npos);
}

TEST(NumpyArrays, HostileOnesAreRefused) {
  const auto bytes_of = [](std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); };
  const std::string head = std::string("\x93NUMPY\x01\x00", 8);
  for (const std::string& text :
       {std::string(), std::string("PK"), head + "\xff\xff", head + std::string("\x02\x00{}", 4),
        head + std::string("\x2e\x00", 2) + "{'descr': '<f4', 'fortran_order': False,     }abc"})
    EXPECT_THROW(npy_numbers(bytes_of(text), "x"), Error);
}

TEST(Phonemes, RefuseLanguagesThatAreNoNames) {
  for (const char* language : {"", "-v", "en us", "../x", "a/b"})
    EXPECT_NE(test::message_of([&] { phonemes_of("a", language); }).find("expected a language"), std::string::npos);
}

}  // namespace
}  // namespace transom

// SPDX-License-Identifier: Apache-2.0
// Whisper's own way of generating (times of words, temperatures, thresholds, prompts, long sounds) against
// Transformers' pipeline, and what it has besides.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/json/task_json.h"
#include "work/pipelines/output/subtitles.h"

namespace transom {
namespace {

// As sound() of tests/golden/make/listening.py.
Json made_sound(int64_t samples, int64_t seed) {
  Json sound{{"array", Json::array()}, {"sampling_rate", 16000}};
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t tone = i * (37 + 11 * seed + 17 * (i / 2000 % 5)) % 400, loud = (i / 1600 + seed) % 4;
    sound["array"].push_back(static_cast<double>((tone - 200) * loud) / 1024);
  }
  return sound;
}

class Listening : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto folder = test::root_of_case("") / "listening";
    golden_ = read_json(folder / "whisper.json");
    model_ = std::make_unique<test::TemporaryFolder>();
    for (const auto& file : std::filesystem::directory_iterator(folder / golden_["model"].get<std::string>()))
      std::filesystem::copy_file(file.path(), *model_ / file.path().filename().string());
    write_file(*model_ / "generation_config.json", dump_json(golden_["generation_config"]));
    pipeline_ = make_pipeline("automatic-speech-recognition", model_->string());
  }
  static void TearDownTestSuite() { pipeline_.reset(), model_.reset(); }

  static Json answer(int64_t samples, int64_t seed, const Json& parameters) {
    return run_pipeline(*pipeline_, made_sound(samples, seed), parameters);
  }

  static inline Json golden_;
  static inline std::unique_ptr<test::TemporaryFolder> model_;
  static inline std::unique_ptr<Pipeline> pipeline_;
};

void expect_same(const Json& got, const Json& expected, const std::string& where) {
  EXPECT_EQ(got.at("text"), expected.at("text")) << where;
  ASSERT_EQ(got.contains("chunks"), expected.contains("chunks")) << where;
  if (!expected.contains("chunks")) return;
  const Json &chunks = got["chunks"], &wanted = expected["chunks"];
  ASSERT_EQ(chunks.size(), wanted.size())
      << where << "\n got      " << dump_json(chunks) << "\n expected " << dump_json(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(chunks[i]["text"], wanted[i]["text"]) << where << ", chunk " << i;
    EXPECT_EQ(chunks[i].value("language", Json()), wanted[i].value("language", Json())) << where;
    if (!wanted[i].contains("timestamp")) continue;
    for (size_t side : {0, 1}) {
      const Json &time = chunks[i]["timestamp"][side], &right = wanted[i]["timestamp"][side];
      ASSERT_EQ(time.is_null(), right.is_null()) << where << ", chunk " << i << ": " << dump_json(chunks[i]);
      if (right.is_null()) continue;
      EXPECT_NEAR(time.get<double>(), right.get<double>(), 1e-6) << where << ", chunk " << i;
    }
  }
}

TEST_F(Listening, EqualsTransformers) {
  for (const Json& run : golden_["runs"]) {
    if (run.contains("unstable")) continue;
    Json parameters = run["kwargs"];
    parameters["generate_kwargs"] = run["generate_kwargs"];
    const std::string where = dump_json(parameters) + " of sound " + dump_json(run["seed"]);
    expect_same(answer(run["samples"], run["seed"], parameters), run["result"], where);
  }
}

TEST_F(Listening, SoundsInABatchSayWhatTheySayAlone) {
  const Json parameters{{"return_timestamps", "word"}, {"language", "en"}, {"num_beams", 1}, {"max_new_tokens", 10}};
  std::vector<Json> sounds, alone;
  for (const auto& [samples, seed] : {std::pair(9000, 1), std::pair(40000, 2), std::pair(16000, 3)}) {
    sounds.push_back(made_sound(samples, seed));
    alone.push_back(answer(samples, seed, parameters));
  }
  Json together = parameters;
  together["batch_size"] = 3;
  const std::vector<Json> results = run_pipeline(*pipeline_, sounds, together);
  for (size_t i = 0; i < sounds.size(); ++i) expect_same(results[i], alone[i], "sound " + std::to_string(i));
}

TEST_F(Listening, WordsKeepTheirTimesBesideALanguage) {
  Json parameters{{"return_timestamps", "word"}, {"language", "en"}, {"num_beams", 1}, {"max_new_tokens", 12}};
  const Json plain = answer(16000, 2, parameters);
  parameters["return_language"] = true;
  const Json told = answer(16000, 2, parameters);
  ASSERT_EQ(told["chunks"].size(), plain["chunks"].size());
  ASSERT_FALSE(plain["chunks"].empty());
  for (size_t i = 0; i < plain["chunks"].size(); ++i) {
    EXPECT_EQ(told["chunks"][i]["timestamp"], plain["chunks"][i]["timestamp"]);
    EXPECT_EQ(told["chunks"][i]["language"], "english");
  }
}

TEST_F(Listening, SegmentsSayHowSureTheModelWas) {
  const Json result =
      answer(41000, 3, {{"return_segments", true}, {"language", "en"}, {"num_beams", 1}, {"max_new_tokens", 10}});
  ASSERT_GE(result.at("segments").size(), 3U);
  double before = 0;
  for (const Json& segment : result["segments"]) {
    EXPECT_GE(segment["start"].get<double>(), before - 1e-9);
    EXPECT_GE(segment["end"], segment["start"]);
    before = segment["start"];
    EXPECT_LT(segment["avg_logprob"].get<double>(), 0);
    EXPECT_GT(segment["avg_logprob"].get<double>(), -std::log(422.0));
    EXPECT_GT(segment["compression_ratio"].get<double>(), 0);
    EXPECT_GT(segment["no_speech_prob"].get<double>(), 0);
    EXPECT_LT(segment["no_speech_prob"].get<double>(), 1);
    EXPECT_EQ(segment["temperature"], 0);
    EXPECT_FALSE(segment["tokens"].empty());
  }
}

TEST_F(Listening, SilenceIsPassedOver) {
  const Json all{{"language", "en"}, {"num_beams", 1},           {"max_new_tokens", 8},
                 {"temperature", 0}, {"logprob_threshold", 0.0}, {"no_speech_threshold", 0}};
  EXPECT_EQ(answer(41000, 4, all).at("text"), "");
}

TEST_F(Listening, RefusesWhatSaysNothing) {
  const auto said = [&](Json parameters) { return test::message_of([&] { answer(4000, 1, parameters); }); };
  EXPECT_NE(said({{"no_speech_threshold", 0.5}}).find("without logprob_threshold"), std::string::npos);
  EXPECT_NE(said({{"prompt_condition_type", "all-segments"}}).find("condition_on_prev_tokens"), std::string::npos);
  EXPECT_NE(said({{"temperature", {0, -1}}}).find("temperature"), std::string::npos);
  EXPECT_NE(said({{"prompt_ids", {1e9}}}).find("prompt_ids"), std::string::npos);
  EXPECT_NE(said({{"return_timestamps", "char"}}).find("return_timestamps"), std::string::npos);
  EXPECT_NE(said({{"return_segments", true}, {"chunk_length_s", 1}}).find("return_segments"), std::string::npos);
}

TEST(Subtitles, AreOnOneLineAndInOrder) {
  Transcription said{.text = " a\n\nb <i>", .chunks = {}, .has_times = true};
  said.chunks.push_back({" a\n\nb <i>", 0.5, 3661.5, ""});
  said.chunks.push_back({"c", 3661.5, std::nullopt, ""});
  EXPECT_EQ(subtitles(said, SubtitleForm::kSubRip, 4000),
            "1\n00:00:00,500 --> 01:01:01,500\na b <i>\n\n2\n01:01:01,500 --> 01:06:40,000\nc\n\n");
  EXPECT_EQ(subtitles(said, SubtitleForm::kWebVtt),
            "WEBVTT\n\n00:00:00.500 --> 01:01:01.500\na b &lt;i&gt;\n\n01:01:01.500 --> 01:01:01.500\nc\n\n");
  EXPECT_NE(test::message_of([] { subtitles({.text = "a", .chunks = {}}, SubtitleForm::kSubRip); }).find("times"),
            std::string::npos);
}

}  // namespace
}  // namespace transom

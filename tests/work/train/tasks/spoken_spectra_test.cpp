// SPDX-License-Identifier: Apache-2.0
// SpeechT5 learns to speak: what its batches are beside those of Transformers' processor, a run beside one of
// Seq2SeqTrainer (tests/golden/speaking/speecht5/training.json), and rows that are refused.
#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "inputs/audio/write_wav.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

const fs::path kSpeaker = test::golden_folder() / "speaking" / "speecht5";

std::vector<float> recorded(const std::string& name) {
  for (const auto& [known, view] : SafetensorsFile::open(kSpeaker / "sounds.safetensors").tensors())
    if (known == name) return Tensor::from_bytes(view.bytes, {view.dtype, view.shape}).to_vector<float>();
  return {};
}

class SpokenSpectraTraining : public testing::Test {
 protected:
  SpokenSpectraTraining() {
    std::vector<float> wave = recorded("wave");
    write_wav(work_ / "long.wav", {.sampling_rate = 16000, .channels = 1, .samples = wave});
    wave.resize(1100);
    write_wav(work_ / "short.wav", {.sampling_rate = 16000, .channels = 1, .samples = wave});
  }
  Json arguments(const std::string& rows) const {
    write_file(work_ / "rows.jsonl", rows);
    return {{"model_name_or_path", (kSpeaker / "model").string()},
            {"train_file", (work_ / "rows.jsonl").string()},
            {"task", "text-to-speech"},
            {"output_dir", (work_ / "out").string()},
            {"max_steps", 1},
            {"save_strategy", "no"}};
  }
  std::string row(const std::string& sound, const std::string& text, const Json& voice) const {
    return dump_json({{"audio", sound}, {"text", text}, {"speaker_embeddings", voice}}) + "\n";
  }
  std::string anna() const { return (kSpeaker / "model" / "voices" / "anna.npy").string(); }

  test::TemporaryFolder work_;
};

const Json kVoice = {0.5, -1.0, 2.0, 0.25, 1.0};

TEST_F(SpokenSpectraTraining, BatchesAreThoseOfTheProcessor) {
  const std::string rows = row("long.wav", "a cab.", kVoice) + row("short.wav", "bad", kVoice);
  const TaskSetup task = prepare_task(parse_train_json(dump_json(arguments(rows)), "arguments"));
  const Batch batch = task.train->batch({0, 1});
  const std::vector<float> expected = recorded("spectrum");
  const FloatRows& labels = batch.arrays.at("labels");
  const auto frames = static_cast<int64_t>(expected.size()) / 6 / 2 * 2;  // whole steps of two
  ASSERT_EQ(labels.shape, (std::vector<int64_t>{2, frames, 6}));
  const auto size = static_cast<size_t>(frames * 6);
  for (size_t i = 0; i < size; ++i) ASSERT_NEAR(labels.values[i], expected[i], 2e-4F) << i;
  EXPECT_EQ(labels.values.at(2 * size - 1), -100);
  EXPECT_NE(labels.values.at(size), -100);
  EXPECT_EQ(batch.arrays.at("speaker_embeddings").shape, (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(batch.sequences.at("input_ids").length, batch.sequences.at("attention_mask").length);
}

// Without dropout; evaluation reads the means that the convolutions of the postnet have learnt.
TEST_F(SpokenSpectraTraining, LossesAreThoseOfTransformers) {
  const Json about = read_json(kSpeaker / "training.json");
  fs::copy(kSpeaker / "model", work_ / "model", fs::copy_options::recursive);
  Json config = read_json(work_ / "model" / "config.json");
  config.update(about["config"]);
  write_file(work_ / "model" / "config.json", dump_json(config));
  std::string rows;
  for (const Json& one : about["rows"]) {
    const fs::path sound = test::golden_folder() / "speech" / "rows" / one["audio"].get<std::string>();
    const char* ending = one["voice"] == "anna" ? ".npy" : ".safetensors";
    const fs::path voice = kSpeaker / "model" / "voices" / (one["voice"].get<std::string>() + ending);
    rows += row(sound.string(), one["text"].get<std::string>(), voice.string());
  }
  Json given = arguments(rows);
  given.update(about["arguments"]);
  given["model_name_or_path"] = (work_ / "model").string();
  given["validation_file"] = given["train_file"];
  const test::KeptLog quiet;
  fine_tune(parse_train_json(dump_json(given), "arguments"));
  const Json found = read_json(work_ / "out" / "trainer_state.json")["log_history"], expected = about["log_history"];
  const double rtol = about["tolerance"]["rtol"], atol = about["tolerance"]["atol"];
  ASSERT_GE(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    for (const auto& [name, value] : expected[i].items()) {
      ASSERT_TRUE(found[i].contains(name)) << name << " of record " << i + 1;
      EXPECT_NEAR(found[i][name].get<double>(), value.get<double>(), atol + rtol * std::abs(value.get<double>()))
          << name << " of record " << i + 1;
    }
}

TEST_F(SpokenSpectraTraining, ARunSavesAModelThatSpeaks) {
  const test::KeptLog quiet;
  fine_tune(parse_train_json(dump_json(arguments(row("short.wav", "bad", kVoice) + row("short.wav", "a", kVoice))),
                             "arguments"));
  EXPECT_TRUE(fs::exists(work_ / "out" / "model.safetensors"));
  EXPECT_TRUE(fs::exists(work_ / "out" / "spm_char.model"));
  EXPECT_TRUE(fs::exists(work_ / "out" / "preprocessor_config.json"));
  const Json last = read_json(work_ / "out" / "trainer_state.json")["log_history"].back();
  EXPECT_GT(last["train_loss"].get<double>(), 0);
}

TEST_F(SpokenSpectraTraining, RefusesRowsThatDoNotFit) {
  const auto refused = [&](const std::string& rows) {
    return test::message_of([&] {
      const TaskSetup task = prepare_task(parse_train_json(dump_json(arguments(rows)), "arguments"));
      task.train->batch({0});
    });
  };
  EXPECT_EQ(refused(row("short.wav", "bad", kVoice)), "");
  EXPECT_EQ(refused(row("short.wav", "bad", anna())), "");
  EXPECT_NE(refused(row("short.wav", "bad", {1.5, 2.0})).find("speaker_embeddings"), std::string::npos);
  EXPECT_NE(refused(row("short.wav", std::string(90, 'a'), kVoice)).find("tokens"), std::string::npos);
  EXPECT_NE(refused(dump_json({{"audio", "short.wav"}, {"text", "a"}}) + "\n").find("speaker_embeddings"),
            std::string::npos);
}

}  // namespace
}  // namespace transom

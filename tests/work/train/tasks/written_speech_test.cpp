// SPDX-License-Identifier: Apache-2.0
// Whisper learns what is said: runs against Seq2SeqTrainer with what run_speech_recognition_seq2seq.py sets up, and
// what is refused before the first step.
#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

fs::path speech_folder() { return test::golden_folder() / "speech"; }

// A copy of the model that the cases start from.
fs::path model_with(const fs::path& work, const Json& generation_fields) {
  const fs::path model = work / "model";
  fs::copy(test::golden_folder() / "whisper" / "model", model);
  Json fields = read_json(model / "generation_config.json");
  fields.update(generation_fields);
  write_file(model / "generation_config.json", dump_json(fields));
  return model;
}

class GoldenSpeech : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return test::folder_of_case(GetParam(), test::GoldenSet::kLibraries, "speech"); }
  Json arguments() const {
    const Json about = read_json(folder() / "case.json");
    Json given = read_json(folder() / "training_args.json");
    for (const auto& [name, value] : about["script"].items()) given[name == "task" ? "speech_task" : name] = value;
    given["model_name_or_path"] = model_with(work_.path(), about["generation_config"]).string();
    for (const char* name : {"train_file", "validation_file"})
      given[name] = (speech_folder() / "rows" / "rows.csv").string();
    given["max_eval_samples"] = 3;
    given["max_duration_in_seconds"] = 0.7;
    given["task"] = "automatic-speech-recognition";
    given["output_dir"] = (work_.path() / "out").string();
    given["save_strategy"] = "no";
    return given;
  }
  test::TemporaryFolder work_;
};

TEST_P(GoldenSpeech, LabelsAreThoseOfTheScript) {
  const Json expected = read_json(folder() / "case.json")["labels"];
  const TaskSetup task = prepare_task(parse_train_json(dump_json(arguments()), "arguments"));
  ASSERT_EQ(task.train->rows, static_cast<int64_t>(expected.size()));
  for (int64_t row = 0; row < task.train->rows; ++row) {
    std::vector<int64_t> ids = expected[static_cast<size_t>(row)].get<std::vector<int64_t>>();
    ids.erase(ids.begin());  // the token that the decoder starts with, as the script's collator does it
    EXPECT_EQ(task.train->batch({row}).sequences.at("labels").values, ids) << "row " << row;
  }
}

TEST_P(GoldenSpeech, ARunLogsTheSame) {
  const Json about = read_json(folder() / "case.json"), expected = read_json(folder() / "log_history.json");
  const test::KeptLog log;
  fine_tune(parse_train_json(dump_json(arguments()), "arguments"));
  const Json found = read_json(work_.path() / "out" / "trainer_state.json")["log_history"];
  ASSERT_GE(found.size(), expected.size());
  const double rtol = about["tolerance"]["rtol"], atol = about["tolerance"]["atol"];
  for (size_t i = 0; i < expected.size(); ++i)
    for (const auto& [name, value] : expected[i].items()) {
      ASSERT_TRUE(found[i].contains(name)) << name << " of record " << i + 1;
      EXPECT_NEAR(found[i][name].get<double>(), value.get<double>(), atol + rtol * std::abs(value.get<double>()))
          << name << " of record " << i + 1;
    }
  // What was written last is shown beside what was said.
  for (const Json& texts : about["written"])
    for (const Json& text : texts)
      EXPECT_NE(log.text().find("written " + dump_json(text)), std::string::npos) << dump_json(text);
}

TEST_P(GoldenSpeech, TheSavedModelIsToldWhatItLearnt) {
  const Json fields = read_json(folder() / "case.json")["script"];
  Json given = arguments();
  given["max_steps"] = 1, given["eval_strategy"] = "no", given["do_train"] = true, given["do_eval"] = false;
  const test::KeptLog quiet;
  fine_tune(parse_train_json(dump_json(given), "arguments"));
  const Json generation = read_json(work_.path() / "out" / "generation_config.json");
  if (fields.contains("language")) {
    EXPECT_EQ(generation["language"], fields["language"]);
    EXPECT_EQ(generation["task"], fields.value("task", "transcribe"));
  } else {
    EXPECT_FALSE(generation.contains("language"));
  }
  for (const char* file : {"tokenizer.json", "preprocessor_config.json", "model.safetensors"})
    EXPECT_TRUE(fs::exists(work_.path() / "out" / file)) << file;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSpeech,
                         testing::ValuesIn(test::golden_cases("case.json", test::GoldenSet::kLibraries, "speech")),
                         test::NameOfCase());

class WrittenSpeech : public testing::Test {
 protected:
  std::string refusal(std::vector<std::string> words, const Json& generation_fields = Json::object(),
                      const std::string& rows = "audio,text\n0.wav,hello\n") {
    const test::TemporaryFolder work;
    for (const char* sound : {"0.wav", "1.wav"}) fs::copy(speech_folder() / "rows" / sound, work.path() / sound);
    write_file(work.path() / "rows.csv", rows);
    words.insert(words.end(), {"--model_name_or_path", model_with(work.path(), generation_fields).string(),
                               "--train_file", (work.path() / "rows.csv").string(), "--output_dir",
                               (work.path() / "out").string(), "--max_steps", "1"});
    const test::KeptLog quiet;
    return test::message_of([&] { fine_tune(parse_train_arguments(words)); });
  }
};

TEST_F(WrittenSpeech, OfOneLanguageTakesNoOther) {
  EXPECT_NE(refusal({"--language", "german"}).find("is a model of one language"), std::string::npos);
  EXPECT_NE(refusal({"--speech_task", "translate"}).find("is a model of one language"), std::string::npos);
}

TEST_F(WrittenSpeech, LanguagesThatAModelDoesNotKnowAreNamed) {
  const Json many{{"is_multilingual", true}, {"lang_to_id", {{"<|en|>", 362}, {"<|de|>", 364}}}};
  EXPECT_NE(refusal({"--language", "klingon"}, many).find("found 'klingon'"), std::string::npos);
  EXPECT_NE(refusal({"--language", "fr"}, many).find("has no <|fr|>"), std::string::npos);
}

TEST_F(WrittenSpeech, TakesNoArgumentsOfCtc) {
  for (const auto& [name, value] : {std::pair("chars_to_ignore", "!"),
                                    {"mask_time_prob", "0.1"},
                                    {"layerdrop", "0.1"},
                                    {"pad_to_multiple_of", "8"}})
    EXPECT_NE(refusal({std::string("--") + name, value}).find("is for models with a head for CTC"), std::string::npos)
        << name;
}

TEST_F(WrittenSpeech, MetricsThatThereAreNotAreRefused) {
  EXPECT_NE(refusal({"--eval_metrics", "bleu"}).find("expected wer or cer, found 'bleu'"), std::string::npos);
}

TEST_F(WrittenSpeech, TextsThatAreTooLongAreNamedByTheirRow) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word ";
  const std::string message = refusal({}, Json::object(), "audio,text\n0.wav,hello\n1.wav," + text + "\n");
  EXPECT_NE(message.find("row 2"), std::string::npos) << message;
  EXPECT_NE(message.find("but the model writes at most 48"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom

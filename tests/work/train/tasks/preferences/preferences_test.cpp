// SPDX-License-Identifier: Apache-2.0
// Runs of --task dpo, kto, orpo, cpo and reward against TRL's trainers: the tokens of each row, and the whole log.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "work/train/tasks/preferences/preference_rows.h"
#include "work/train/tasks/preferences/preference_tokens.h"

namespace transom {
namespace {

std::vector<Json> samples_of(const fs::path& file) {
  std::vector<Json> lines;
  std::istringstream text(read_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(parse_json(line, file.string()));
  return lines;
}

std::vector<int64_t> numbers(const Json& list) { return list.get<std::vector<int64_t>>(); }

class GoldenPreferences : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return test::folder_of_case(GetParam(), test::GoldenSet::kLibraries, "preferences"); }
  std::string file(const char* name, const Json& about) const {
    return (folder() / about[name].get<std::string>()).lexically_normal().string();
  }
};

TEST_P(GoldenPreferences, RowsHaveTheTokens) {
  if (!fs::exists(folder() / "samples.jsonl")) GTEST_SKIP() << "the rows are those of another case";
  const Json about = read_json(folder() / "case.json");
  const std::string task = about["task"].get<std::string>();
  const Tokenizer tokenizer = Tokenizer::from_pretrained(file("start", about));
  const PreferenceEncoder encoder(tokenizer, "", tokenizer.special_token("eos").value_or(""));
  const Dataset data = Dataset::load(file("rows", about));
  const std::vector<Json> expected = samples_of(folder() / "samples.jsonl");
  const auto split = [](const PromptedTokens& tokens) {
    const auto middle = tokens.ids.begin() + static_cast<std::ptrdiff_t>(tokens.prompt);
    return std::pair(std::vector<int64_t>(tokens.ids.begin(), middle), std::vector<int64_t>(middle, tokens.ids.end()));
  };
  if (task == "kto") {
    const AnswerRows rows(data);
    ASSERT_EQ(rows.size(), static_cast<int64_t>(expected.size()));
    for (int64_t i = 0; i < rows.size(); ++i) {
      const Json& row = expected[static_cast<size_t>(i)];
      const auto [prompt, completion] = split(encoder.answer(rows.row(i), rows.where(i)).answer);
      EXPECT_EQ(prompt, numbers(row["prompt_ids"])) << "row " << i + 1;
      EXPECT_EQ(completion, numbers(row["completion_ids"])) << "row " << i + 1;
      EXPECT_EQ(rows.row(i).good, row["label"].get<bool>()) << "row " << i + 1;
    }
    return;
  }
  const PreferenceRows rows(data, /*finds_prompts=*/task != "reward");
  ASSERT_EQ(data.size(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < data.size(); ++i) {
    const Json& row = expected[static_cast<size_t>(i)];
    const PreferenceRow given = rows.row(i);
    if (task == "dpo") {
      const PairTokens found = encoder.pair(given, data.where(i));
      EXPECT_EQ(split(found.chosen).first, numbers(row["prompt_ids"])) << "row " << i + 1;
      EXPECT_EQ(split(found.chosen).second, numbers(row["chosen_ids"])) << "row " << i + 1;
      EXPECT_EQ(split(found.rejected).second, numbers(row["rejected_ids"])) << "row " << i + 1;
    } else if (task == "reward") {
      const PairTokens found = encoder.whole(given, data.where(i));
      EXPECT_EQ(found.chosen.ids, numbers(row["chosen_ids"])) << "row " << i + 1;
      EXPECT_EQ(found.rejected.ids, numbers(row["rejected_ids"])) << "row " << i + 1;
    } else {
      const PairTokens found = encoder.cut(given, data.where(i));
      EXPECT_EQ(found.chosen.ids, numbers(row["chosen_input_ids"])) << "row " << i + 1;
      EXPECT_EQ(found.rejected.ids, numbers(row["rejected_input_ids"])) << "row " << i + 1;
      const std::vector<int64_t> labels = numbers(row["chosen_labels"]);
      EXPECT_EQ(static_cast<int64_t>(found.chosen.prompt), std::count(labels.begin(), labels.end(), kIgnoredLabel));
    }
  }
}

TEST_P(GoldenPreferences, ARunLogsTheSame) {
  const Json about = read_json(folder() / "case.json"), expected = read_json(folder() / "log_history.json");
  const test::TemporaryFolder work;
  Json given = read_json(folder() / "training_args.json");
  given["model_name_or_path"] = file("start", about);
  given["train_file"] = file("rows", about);
  if (given.contains("eval_strategy"))
    given["validation_file"] = given["train_file"], given["max_eval_samples"] = about["evaluated_rows"];
  given["task"] = about["task"];
  given["output_dir"] = (work.path() / "out").string();
  given["save_strategy"] = "no";
  if (about.contains("processes")) {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    write_file(work.path() / "args.json", dump_json(given));
    for (const test::Outcome& outcome :
         test::run_ranks({"train", (work.path() / "args.json").string()}, work.path(), about["processes"].get<int>()))
      ASSERT_EQ(outcome.status, 0) << outcome.error;
  } else {
    const test::KeptLog quiet;
    fine_tune(parse_train_json(dump_json(given), "training_args.json"));
  }
  const Json found = read_json(work.path() / "out" / "trainer_state.json")["log_history"];
  ASSERT_GE(found.size(), expected.size());  // a last evaluation is behind it
  const Json& distances = about["distances"];
  for (size_t i = 0; i < expected.size(); ++i)
    for (const auto& [name, value] : expected[i].items()) {
      ASSERT_TRUE(found[i].contains(name)) << name << " of record " << i + 1;
      // As far as TRL in float32 is from TRL in float64, ten times, or a part of 100,000.
      const double bound = std::max(1e-5 * std::abs(value.get<double>()), 10 * distances[name].get<double>());
      EXPECT_NEAR(found[i][name].get<double>(), value.get<double>(), bound) << name << " of record " << i + 1;
    }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenPreferences,
                         testing::ValuesIn(test::golden_cases("case.json", test::GoldenSet::kLibraries, "preferences")),
                         test::NameOfCase());

class Preferences : public testing::Test {
 protected:
  std::string run(const std::string& task, const std::string& rows, std::vector<std::string> flags = {}) {
    write_file(work_.path() / "rows.jsonl", rows);
    const fs::path model =
        test::golden_folder() / (task == "reward" ? "preferences/qwen2-reward/model" : "sft/qwen2/model");
    flags.insert(flags.end(), {"--model_name_or_path", model.string(), "--train_file",
                               (work_.path() / "rows.jsonl").string(), "--output_dir", (work_.path() / "out").string(),
                               "--max_steps", "1", "--per_device_train_batch_size", "2", "--overwrite_output_dir"});
    if (!task.empty()) flags.insert(flags.end(), {"--task", task});
    const test::KeptLog log;
    const std::string message = test::message_of([&] { fine_tune(parse_train_arguments(flags)); });
    said_ = log.text();
    return message;
  }
  bool said(const std::string& text) const { return said_.find(text) != std::string::npos; }
  Json arguments() const { return read_json(work_.path() / "out" / "training_args.json"); }

  test::TemporaryFolder work_;
  std::string said_;
};

const std::string kPair = R"({"prompt": "And of Italy? ", "chosen": "Rome.", "rejected": "Milan."})"
                          "\n";
const std::string kRated = R"({"prompt": "And of Italy? ", "completion": "Rome.", "label": true})"
                           "\n"
                           R"({"prompt": "And of Spain? ", "completion": "Milan.", "label": false})"
                           "\n";

TEST_F(Preferences, ARowIsShownWithItsAnswers) {
  ASSERT_EQ(run("dpo", kPair + kPair), "");
  EXPECT_TRUE(said("preferences: columns prompt, chosen and rejected; 2 rows")) << said_;
  EXPECT_TRUE(said("»Rome.<|im_end|>«")) << said_;
  EXPECT_TRUE(said("»Milan.<|im_end|>«")) << said_;
}

TEST_F(Preferences, DefaultsAreThoseOfTrlWhereNothingIsGiven) {
  ASSERT_EQ(run("dpo", kPair + kPair), "");
  EXPECT_EQ(arguments()["learning_rate"], 1e-6);
  EXPECT_EQ(arguments()["logging_steps"], 10);
  ASSERT_EQ(run("reward", kPair + kPair), "");
  EXPECT_EQ(arguments()["learning_rate"], 1e-4);
  ASSERT_EQ(run("kto", kRated), "");
  EXPECT_EQ(arguments()["train_sampling_strategy"], "sequential");
}

TEST_F(Preferences, NewAdaptersSayNothingYet) {
  ASSERT_EQ(run("dpo", kPair + kPair, {"--use_peft", "--logging_steps", "1"}), "");
  const Json log = read_json(work_.path() / "out" / "trainer_state.json")["log_history"];
  EXPECT_EQ(log[0]["rewards/margins"], 0);
  EXPECT_NEAR(log[0]["loss"].get<double>(), std::log(2.0), 1e-6);
  EXPECT_TRUE(fs::exists(work_.path() / "out" / "adapter_model.safetensors"));
}

TEST_F(Preferences, RowsDoNotChooseALoss) {
  const std::string pairs = run("", kPair), rated = run("", kRated);
  EXPECT_NE(pairs.find("--task dpo, kto, orpo or cpo"), std::string::npos) << pairs;
  EXPECT_NE(pairs.find("--task reward"), std::string::npos) << pairs;
  EXPECT_NE(rated.find("--task kto"), std::string::npos) << rated;
}

TEST_F(Preferences, BadRowsAreNamedBeforeTheFirstStep) {
  struct Bad {
    const char *task, *row, *message;
  };
  const std::string chat =
      R"({"prompt": [{"role": "user", "content": "a"}], "chosen": [{"role": "assistant", "content": "b"}], "rejected": [{"role": "assistant", "content": "c"}]})"
      "\n";
  const Bad cases[] = {
      {"dpo", R"({"prompt": "a", "chosen": "b", "rejected": "b"})", "chosen and rejected are the same"},
      {"reward", R"({"prompt": "a", "chosen": " ", "rejected": "b"})", "chosen is empty"},
      {"orpo",
       R"({"prompt": [{"role": "usr", "content": "a"}], "chosen": [{"role": "assistant", "content": "b"}], "rejected": [{"role": "assistant", "content": "c"}]})",
       "expected a role of system"},
      {"cpo",
       R"({"prompt": [{"role": "user", "content": "a"}], "chosen": [{"role": "user", "content": "b"}], "rejected": [{"role": "assistant", "content": "c"}]})",
       "expected a message of the assistant"},
  };
  for (const Bad& bad : cases) {
    const bool is_chat = std::string_view(bad.row).find("role") != std::string_view::npos;
    const std::string message = run(bad.task, (is_chat ? chat : kPair) + bad.row + "\n");
    EXPECT_NE(message.find("rows.jsonl: row 2"), std::string::npos) << bad.row << ": " << message;
    EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  }
  const std::string none = run("dpo", R"({"chosen": "abc", "rejected": "xyz"})"
                                      "\n");
  EXPECT_NE(none.find("answers that begin with the same one"), std::string::npos) << none;
  const std::string good = R"({"prompt": "a", "completion": "b", "label": 1})"
                           "\n",
                    bad = R"({"prompt": "a", "completion": "b", "label": 2})"
                          "\n";
  const std::string label = run("kto", good + good + bad);
  EXPECT_NE(label.find("rows.jsonl: row 3, column label"), std::string::npos) << label;
}

TEST_F(Preferences, RowsWhosePromptFillsMaxLengthAreNamedAndLeftOut) {
  std::string words;
  for (int i = 0; i < 60; ++i) words += "one two ";
  const std::string lengthy = R"({"prompt": ")" + words + R"(", "chosen": "b", "rejected": "c"})" + "\n";
  for (const char* task : {"dpo", "cpo", "orpo", "reward"}) {
    ASSERT_EQ(run(task, kPair + lengthy + kPair, {"--max_length", "30"}), "") << task;
    EXPECT_TRUE(said("1 of 3 rows are left out")) << said_;
    EXPECT_TRUE(said("rows.jsonl: row 2")) << said_;
  }
  const std::string message = run("dpo", lengthy, {"--max_length", "30"});
  EXPECT_NE(message.find("no row is left to train on"), std::string::npos) << message;
}

TEST_F(Preferences, WhatHasNoMeaningIsRefused) {
  EXPECT_NE(run("dpo", kPair, {"--loss_type", "sigmod"}).find("sigmoid"), std::string::npos);
  EXPECT_NE(run("dpo", kPair, {"--loss_type", "sigmoid", "ipo", "--loss_weights", "1"}).find("--loss_weights"),
            std::string::npos);
  EXPECT_NE(run("dpo", kPair, {"--loss_type", "exo_pair"}).find("--label_smoothing"), std::string::npos);
  EXPECT_NE(run("dpo", kPair, {"--loss_type", "aot", "--use_weighting"}).find("--use_weighting"), std::string::npos);
  EXPECT_NE(run("dpo", kPair, {"--loss_type", "nca_pair", "--f_divergence_type", "forward_kl"}).find("nca_pair"),
            std::string::npos);
  EXPECT_NE(run("dpo", kPair, {"--sync_ref_model", "--precompute_ref_log_probs"}).find("--sync_ref_model"),
            std::string::npos);
  EXPECT_NE(run("kto", kRated, {"--train_sampling_strategy", "random"}).find("sequential"), std::string::npos);
  EXPECT_NE(run("cpo", kPair, {"--loss_type", "apo_zero"}).find("--loss_type"), std::string::npos);
}

// docs/guide/preferences.md: each of the tasks on the file of the guide.
TEST_F(Preferences, TheFileOfTheGuideIsTrainedOn) {
  const std::string rows = read_file(fs::path(test::source_folder()) / "examples" / "data" / "preferences.jsonl");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 20);
  for (const char* task : {"dpo", "kto", "orpo", "cpo", "reward"}) {
    EXPECT_EQ(run(task, rows, {"--max_length", "512"}), "") << task;
    EXPECT_TRUE(said("20 rows")) << said_;
  }
}

// A run that is interrupted goes on with the reference that it had moved.
TEST_F(Preferences, AResumedRunHasTheReferenceThatMoved) {
  std::string rows;
  for (int i = 0; i < 4; ++i)
    rows += R"({"prompt": "And of )" + std::to_string(i) + R"(? ", "chosen": "Rome.", "rejected": "Milan."})" + "\n";
  const std::vector<std::string> flags = {"--sync_ref_model",
                                          "--ref_model_sync_steps",
                                          "2",
                                          "--logging_steps",
                                          "1",
                                          "--learning_rate",
                                          "1e-3",
                                          "--lr_scheduler_type",
                                          "constant",
                                          "--save_steps",
                                          "3"};
  const auto curve = [&](const std::string& steps, std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    write_file(work_.path() / "rows.jsonl", rows);
    more.insert(more.end(),
                {"--task", "dpo", "--model_name_or_path", (test::golden_folder() / "sft/qwen2/model").string(),
                 "--train_file", (work_.path() / "rows.jsonl").string(), "--output_dir",
                 (work_.path() / "out").string(), "--max_steps", steps, "--per_device_train_batch_size", "2"});
    const test::KeptLog quiet;
    fine_tune(parse_train_arguments(more));
    std::vector<double> losses;
    const Json state = read_json(work_.path() / "out" / "trainer_state.json");
    for (const Json& record : state["log_history"])
      if (record.contains("loss")) losses.push_back(record["loss"].get<double>());
    return losses;
  };
  const std::vector<double> whole = curve("6", {});
  const std::vector<double> resumed =
      curve("6", {"--resume_from_checkpoint", (work_.path() / "out" / "checkpoint-3").string()});
  EXPECT_EQ(whole, resumed);
}

}  // namespace
}  // namespace transom

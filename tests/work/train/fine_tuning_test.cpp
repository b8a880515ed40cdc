// SPDX-License-Identifier: Apache-2.0
// What a run does with the files of runs before it, and what it refuses before it trains.
#include "transom/fine_tuning.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "support/message.h"
#include "work/train/files/checkpoints.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kRows =
    "text,label\nann went to rome,trip\nthe tower is old,fact\nann went,trip\nrome is old,fact\n";

class FineTuning : public testing::Test {
 protected:
  std::string run(std::vector<std::string> flags, int64_t steps = 2) {
    flags.insert(flags.end(), {"--model_name_or_path", model_.path().string(), "--output_dir", output_.string(),
                               "--max_steps", std::to_string(steps), "--per_device_train_batch_size", "2"});
    said_.clear();
    set_log_sink([this](LogLevel, std::string_view text) { said_ += std::string(text) + "\n"; });
    const std::string message = test::message_of([&] { result_ = fine_tune(parse_train_arguments(flags)); });
    set_log_sink({});
    return message;
  }
  std::vector<std::string> with(std::vector<std::string> flags) const {
    flags.insert(flags.end(), {"--train_file", rows_});
    return flags;
  }
  bool said(const std::string& text) const { return said_.find(text) != std::string::npos; }

  TinyModel model_;
  std::string rows_ = model_.write("rows.csv", kRows);
  fs::path output_ = model_.path() / "out";
  std::string said_;
  FineTuneResult result_;
};

TEST_F(FineTuning, NeverTakesAnotherRunsCheckpoints) {
  ASSERT_EQ(run(with({})), "");
  EXPECT_EQ(checkpoints_in(output_), std::vector<std::string>{"checkpoint-2"});
  const std::string message = run(with({}), 1);
  EXPECT_NE(message.find("holds checkpoint-2 of another run"), std::string::npos) << message;
  EXPECT_NE(message.find("--overwrite_output_dir"), std::string::npos) << message;
  EXPECT_EQ(checkpoints_in(output_), std::vector<std::string>{"checkpoint-2"});

  // What is not a checkpoint stays.
  fs::create_directories(output_ / "checkpoint-7");
  write_file(output_ / "checkpoint-7" / "notes.txt", "mine");
  write_file(output_ / "notes.txt", "mine");
  ASSERT_EQ(run(with({"--overwrite_output_dir"}), 1), "");
  EXPECT_EQ(checkpoints_in(output_), (std::vector<std::string>{"checkpoint-1", "checkpoint-7"}));
  EXPECT_TRUE(fs::exists(output_ / "notes.txt"));

  // A call that fails before it trains removes nothing.
  EXPECT_NE(run({"--overwrite_output_dir", "--train_file", "nowhere.csv"}), "");
  EXPECT_EQ(last_whole_checkpoint(output_), "checkpoint-1");
  // Nor does one that would remove what it starts from.
  const std::string own = test::message_of([&] {
    fine_tune(parse_train_arguments({"--model_name_or_path", (output_ / "checkpoint-1").string(), "--output_dir",
                                     output_.string(), "--train_file", rows_, "--overwrite_output_dir"}));
  });
  EXPECT_NE(own.find("which the run starts from"), std::string::npos) << own;
  EXPECT_EQ(last_whole_checkpoint(output_), "checkpoint-1");
  // Resuming needs no other word, and removes nothing.
  ASSERT_EQ(run(with({"--overwrite_output_dir", "--resume_from_checkpoint"}), 3), "");
  EXPECT_EQ(checkpoints_in(output_), (std::vector<std::string>{"checkpoint-1", "checkpoint-3", "checkpoint-7"}));
}

TEST_F(FineTuning, AFinishedRunHasNothingLeftToTrain) {
  ASSERT_EQ(run(with({})), "");
  const std::string results = read_file(output_ / "train_results.json"),
                    state = read_file(output_ / "trainer_state.json"),
                    weights = read_file(output_ / "model.safetensors");
  ASSERT_EQ(run(with({"--resume_from_checkpoint", "true", "--do_train"})), "");
  EXPECT_TRUE(said("nothing left to train: step 2 of 2")) << said_;
  EXPECT_TRUE(result_.train.empty());
  EXPECT_EQ(read_file(output_ / "train_results.json"), results);
  EXPECT_EQ(read_file(output_ / "trainer_state.json"), state);
  EXPECT_EQ(read_file(output_ / "model.safetensors"), weights);
}

TEST_F(FineTuning, MissingWeightsAreSaidWhereTheyStayNew) {
  ASSERT_EQ(run(with({})), "");
  EXPECT_TRUE(
      said("2 weights of the new head are initialised (expected: training makes the head): classifier.weight, "
           "classifier.bias"))
      << said_;
  ASSERT_EQ(run(with({"--resume_from_checkpoint"}), 3), "");
  EXPECT_FALSE(said("new head")) << said_;
}

TEST_F(FineTuning, RefusesEvaluationsWithoutData) {
  for (const std::string flag : {"--do_eval", "--eval_strategy=epoch", "--eval_strategy=steps", "--eval_on_start"}) {
    const std::string message = run(with({flag, "--do_train"}));
    EXPECT_NE(message.find("give --validation_file"), std::string::npos) << flag << ": " << message;
    EXPECT_FALSE(fs::exists(output_)) << flag;
  }
  const std::string message = run(with({"--load_best_model_at_end", "--save_strategy", "no"}));
  EXPECT_NE(message.find("load_best_model_at_end: expected eval_strategy steps or epoch"), std::string::npos)
      << message;
}

TEST_F(FineTuning, RefusesAnEmptyLabelAndSaysOneClass) {
  const std::string empty = model_.write("empty.csv", "text,label\nann,1\nrome,0\ntower,\n"),
                    full = model_.write("full.csv", "text,label\nann,1\nrome,0\n"),
                    one = model_.write("one.csv", "text,label\nann,1\nrome,1\n");
  const std::string expected = "row 3, column 'label': expected a label, found nothing, or nan";
  EXPECT_TRUE(run({"--train_file", empty}).ends_with(expected));
  EXPECT_TRUE(run({"--train_file", full, "--validation_file", empty}).ends_with(expected));
  EXPECT_FALSE(fs::exists(output_));
  ASSERT_EQ(run({"--train_file", one}), "");
  EXPECT_TRUE(said("all rows to train on have the label '1'")) << said_;
}

TEST_F(FineTuning, ClassesAreKeptBesideAdapters) {
  const std::vector<std::string> lora = {"--use_peft", "--lora_target_modules", "query", "value"};
  ASSERT_EQ(run(with(lora)), "");
  EXPECT_TRUE(fs::exists(output_ / "adapter_config.json"));
  EXPECT_FALSE(fs::exists(output_ / "model.safetensors"));
  const std::vector<std::string> names = {"fact", "trip"};
  const auto read = Model::from_pretrained(output_.string());
  EXPECT_EQ(read->labels(), names);
  const fs::path merged = model_.path() / "merged";
  read->save_pretrained(merged.string());
  EXPECT_EQ(Model::from_pretrained(merged.string())->labels(), names);
  // Adapters that PEFT wrote have no such file.
  EXPECT_FALSE(fs::exists(output_ / "config.json"));  // Transformers would look for a whole model
  fs::remove(output_ / "classes.json");
  EXPECT_EQ(Model::from_pretrained(output_.string())->labels(), (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
}

}  // namespace
}  // namespace transom

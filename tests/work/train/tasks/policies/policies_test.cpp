// SPDX-License-Identifier: Apache-2.0
// Runs of --task grpo and rloo against TRL's trainers on the completions of their runs, and what is promised of runs
// that write their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/folders.h"
#include "support/ranks.h"
#include "work/train/tasks/policies/policy_runs.h"

namespace transom {
namespace {

class GoldenPolicies : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return test::folder_of_case(GetParam(), test::GoldenSet::kLibraries, "policies"); }
  std::string at(const std::string& name) const { return (folder() / name).lexically_normal().string(); }
};

TEST_P(GoldenPolicies, ARunLogsTheSame) {
  const Json about = read_json(folder() / "case.json"), expected = read_json(folder() / "log_history.json");
  const test::TemporaryFolder work;
  Json given = read_json(folder() / "training_args.json");
  for (Json& reward : given["reward_funcs"])
    if (const std::string word = reward.get<std::string>(); word.starts_with("model:"))
      reward = "model:" + at(word.substr(6));
  given["model_name_or_path"] = at(about["start"].get<std::string>());
  given["train_file"] = at(about["rows"].get<std::string>());
  given["completions_file"] = at("completions.jsonl");
  given["task"] = about["task"];
  given["output_dir"] = (work.path() / "out").string();
  given["save_strategy"] = "no";
  {
    const test::KeptLog quiet;
    fine_tune(parse_train_json(dump_json(given), "training_args.json"));
  }
  const Json found = read_json(work.path() / "out" / "trainer_state.json")["log_history"];
  ASSERT_GE(found.size(), expected.size());
  const Json& distances = about["distances"];
  for (size_t i = 0; i < expected.size(); ++i)
    for (const auto& [name, value] : expected[i].items()) {
      ASSERT_TRUE(found[i].contains(name)) << name << " of record " << i + 1;
      // As far as TRL in float32 is from TRL in float64, ten times, or a part of 100,000.
      // A loss is a mean of advantages around 0, which are of size 1 and rounded to float32.
      const double least = name == "loss" || name == "train_loss" || name == "policy_loss" ? 0x1p-24 : 0;
      const double bound = std::max({least, 1e-5 * std::abs(value.get<double>()), 10 * distances[name].get<double>()});
      EXPECT_NEAR(found[i][name].get<double>(), value.get<double>(), bound) << name << " of record " << i + 1;
    }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenPolicies,
                         testing::ValuesIn(test::golden_cases("case.json", test::GoldenSet::kLibraries, "policies")),
                         test::NameOfCase());

TEST_F(Policies, TwoRunsOfASeedWriteAndLearnTheSame) {
  for (const char* task : {"grpo", "rloo"}) {
    ASSERT_EQ(run(task, questions(8), with(kVowels, {"--log_completions", "--num_completions_to_print", "1"})), "");
    const Json first = log_of();
    const std::string written = completions();
    ASSERT_EQ(run(task, questions(8), with(kVowels, {"--log_completions", "--num_completions_to_print", "1"})), "");
    EXPECT_EQ(log_of(), first) << task;
    EXPECT_EQ(completions(), written) << task;
    EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 16);
    ASSERT_EQ(run(task, questions(8), with(kVowels, {"--log_completions", "--seed", "7"})), "");
    EXPECT_NE(completions(), written) << task;
  }
}

// Killed in the middle of what is learnt from one generation, too.
TEST_F(Policies, AResumedRunGoesOnWithTheCompletionsThatItHad) {
  for (const char* task : {"grpo", "rloo"}) {
    const auto flags =
        with(kVowels, {"--max_steps", "8", "--steps_per_generation", "2", "--num_iterations", "2", "--beta", "0.1",
                       "--save_strategy", "steps", "--save_steps", "3", "--lr_scheduler_type", "constant"});
    ASSERT_EQ(run(task, questions(8), flags), "");
    const Json whole = updates_of();
    ASSERT_EQ(run(task, questions(8), with(flags, {"--resume_from_checkpoint", (out() / "checkpoint-3").string()})),
              "");
    EXPECT_EQ(updates_of(), whole) << task;
  }
}

TEST_F(Policies, TheRewardOfATaskThatIsCheckedRises) {
  for (const char* task : {"grpo", "rloo"}) {
    ASSERT_EQ(
        run(task, questions(8),
            with(kVowels, {"--max_steps", "24", "--learning_rate", "1e-2", "--lr_scheduler_type", "constant",
                           "--per_device_train_batch_size", "16", "--max_completion_length", "3", "--beta", "0"})),
        "");
    const std::vector<double> rewards = curve("reward");
    ASSERT_EQ(rewards.size(), 24u);
    const double before = std::accumulate(rewards.begin(), rewards.begin() + 5, 0.0) / 5,
                 after = std::accumulate(rewards.end() - 5, rewards.end(), 0.0) / 5;
    EXPECT_GT(after, before + 0.2) << task << ": from " << before << " to " << after;
  }
}

// Where the policy does not move, each ratio is 1 to the last bit: with an epsilon of 0 any other would be clipped.
TEST_F(Policies, RatiosOfTheFirstPassAreExactlyOne) {
  const auto flags = with(kVowels, {"--epsilon", "0", "--steps_per_generation", "2", "--num_iterations", "2",
                                    "--max_steps", "4", "--temperature", "0.9"});
  for (const char* task : {"grpo", "rloo"}) {
    ASSERT_EQ(run(task, questions(8), with(flags, {"--learning_rate", "0"})), "");
    for (const char* name : {"clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"})
      EXPECT_EQ(curve(name), std::vector<double>(4, 0)) << task << " " << name;
    ASSERT_EQ(run(task, questions(8), with(flags, {"--learning_rate", "1e-2"})), "");
    const std::vector<double> moved = curve("clip_ratio/region_mean");
    EXPECT_EQ(moved[0], 0) << task;
    EXPECT_GT(*std::max_element(moved.begin(), moved.end()), 0) << task;
  }
}

// Completions are drawn by their numbers among those of all processes.
TEST_F(Policies, TwoProcessesLearnWhatOneDoes) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  ASSERT_EQ(run("grpo", questions(8), with(kVowels, {"--beta", "0.1"})), "");
  const Json alone = updates_of();
  Json given = {{"task", "grpo"},
                {"model_name_or_path", (test::golden_folder() / "sft/qwen2/model").string()},
                {"train_file", (work_.path() / "rows.jsonl").string()},
                {"output_dir", out().string()},
                {"overwrite_output_dir", true},
                {"max_steps", 2},
                {"num_generations", 4},
                {"per_device_train_batch_size", 4},
                {"max_completion_length", 8},
                {"logging_steps", 1},
                {"learning_rate", 1e-3},
                {"save_strategy", "no"},
                {"beta", 0.1},
                {"reward_funcs", {"pattern:[aeiou]"}}};
  write_file(work_.path() / "args.json", dump_json(given));
  for (const test::Outcome& outcome :
       test::run_ranks({"train", (work_.path() / "args.json").string()}, work_.path(), 2))
    ASSERT_EQ(outcome.status, 0) << outcome.error;
  const Json together = updates_of();
  ASSERT_EQ(together.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i)
    for (const auto& [name, value] : alone[i].items())
      EXPECT_NEAR(together[i][name].get<double>(), value.get<double>(), 1e-5) << name << " of record " << i + 1;
}

TEST_F(Policies, AdaptersWriteInPlace) {
  ASSERT_EQ(run("grpo", questions(8), with(kVowels, {"--use_peft", "--beta", "0.1"})), "");
  EXPECT_EQ(curve("kl")[0], 0);  // new adapters say nothing yet
  EXPECT_TRUE(fs::exists(out() / "adapter_model.safetensors"));
}

TEST_F(Policies, EvaluationsWriteTheSameEachTime) {
  ASSERT_EQ(run("grpo", questions(8),
                with(kVowels, {"--validation_file", (work_.path() / "rows.jsonl").string(), "--eval_strategy", "steps",
                               "--eval_steps", "1", "--learning_rate", "0", "--metric_for_best_model", "reward"})),
            "");
  std::vector<Json> evaluated;
  for (const Json& record : log_of())
    if (record.contains("eval_reward")) evaluated.push_back(record);
  ASSERT_GE(evaluated.size(), 2u);
  for (const char* name : {"eval_reward", "eval_loss", "eval_completions/mean_length", "eval_entropy"})
    EXPECT_EQ(evaluated[0][name], evaluated[1][name]) << name;
}

TEST_F(Policies, DefaultsAreThoseOfTrlWhereNothingIsGiven) {
  write_file(work_.path() / "rows.jsonl", questions(8));
  const test::KeptLog quiet;
  fine_tune(parse_train_arguments({"--task", "rloo", "--model_name_or_path",
                                   (test::golden_folder() / "sft/qwen2/model").string(), "--train_file",
                                   (work_.path() / "rows.jsonl").string(), "--output_dir", out().string(),
                                   "--max_steps", "1", "--max_completion_length", "4", "--reward_funcs", "length:3"}));
  const Json arguments = read_json(out() / "training_args.json");
  EXPECT_EQ(arguments["learning_rate"], 1e-6);
  EXPECT_EQ(arguments["logging_steps"], 10);
}

TEST_F(Policies, ARunShowsWhatItReadsAndWrites) {
  ASSERT_EQ(run("grpo", questions(8), with(kVowels, {"--log_completions", "--num_completions_to_print", "2"})), "");
  EXPECT_TRUE(said("prompts: column prompt; rewards: pattern")) << said_;
  EXPECT_TRUE(said("advantage")) << said_;
  const std::vector<double> rewards = curve("rewards/pattern/mean");
  EXPECT_EQ(rewards.size(), 2u);
}

TEST_F(Policies, WhatHasNoMeaningIsRefused) {
  const std::string rows = questions(8);
  const auto refused = [&](const Flags& flags, const std::string& part, const std::string& task = "grpo") {
    const std::string message = run(task, rows, flags);
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  };
  refused({}, "--reward_funcs: expected what completions are rewarded for");
  refused({"--reward_funcs", "accuracy_reward"}, "number:COLUMN");
  refused({"--reward_funcs", "numbr"}, "number");
  refused({"--reward_funcs", "number:result"}, "expected a column");
  refused({"--reward_funcs", "pattern:(a"}, "--reward_funcs: pattern");
  refused(with(kVowels, {"--loss_type", "dap"}), "--loss_type");
  refused(with(kVowels, {"--num_generations", "3"}), "no multiple of 3");
  refused(with(kVowels, {"--num_generations", "1"}), "at least 2");
  refused(with(kVowels, {"--reward_weights", "1", "2"}), "--reward_weights: expected 1");
  refused(with(kVowels, {"--top_entropy_quantile", "0.2"}), "top_entropy_quantile");
  refused(with(kVowels, {"--max_completion_length", "128"}), "--max_completion_length");
  refused(with(kVowels, {"--generation_kwargs", R"({"num_beams": 4})"}), "num_beams");
  refused(with(kVowels, {"--reward_clip_range", "1", "0"}), "--reward_clip_range", "rloo");
  refused(with(kVowels, {"--per_device_train_batch_size", "64"}), "expected at least the 16 prompts");
}

TEST_F(Policies, BadRowsAreNamedBeforeTheFirstStep) {
  const auto refused = [&](const std::string& row, const std::string& part, const std::string& first) {
    const std::string message = run("grpo", first + row + "\n", kVowels);
    EXPECT_NE(message.find("rows.jsonl: row 2"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const std::string text = "{\"prompt\": \"a\"}\n", chat = R"({"prompt": [{"role": "user", "content": "a"}]})"
                                                           "\n";
  refused(R"({"prompt": ""})", "the prompt is empty", text);
  refused(R"({"prompt": [{"role": "usr", "content": "a"}]})", "expected a role of", chat);
  refused(R"({"prompt": [{"role": "assistant", "content": "a"}]})", "ends before the assistant's turn", chat);
  std::string words;
  for (int i = 0; i < 200; ++i) words += "one two ";
  refused(R"({"prompt": ")" + words + R"("})", "expected at most 120", text);
  EXPECT_NE(run("grpo", "{\"text\": \"a\"}\n", kVowels).find("expected a column prompt"), std::string::npos);
}

// docs/guide/policy-training.md: both tasks on the file of the guide.
TEST_F(Policies, TheFileOfTheGuideIsTrainedOn) {
  const std::string rows = read_file(fs::path(test::source_folder()) / "examples" / "data" / "sums.jsonl");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 20);
  for (const char* task : {"grpo", "rloo"}) {
    EXPECT_EQ(run(task, rows, {"--reward_funcs", "number:answer", "length:4"}), "") << task;
    EXPECT_TRUE(said("20 rows")) << said_;
  }
  const std::string sums = read_file(fs::path(test::source_folder()) / "examples" / "data" / "additions.jsonl");
  EXPECT_EQ(run("grpo", sums, {"--reward_funcs", "number:answer", "--max_completion_length", "2"}), "");
  EXPECT_TRUE(said("44 rows")) << said_;
}

}  // namespace
}  // namespace transom

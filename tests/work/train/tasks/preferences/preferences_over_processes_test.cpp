// SPDX-License-Identifier: Apache-2.0
// Preferences on two processes, each with half of the batch, have the curve of one process with all of it: with whole
// weights and sharded, in f32 and under autocast.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

struct SpreadPreferences {
  const char* name;
  const char* task;
  std::vector<std::string> words;  // of both runs
  std::vector<std::string> spread;
  double tolerance = 5e-6;
};

class PreferencesOverProcesses : public testing::TestWithParam<SpreadPreferences> {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  }
  test::Outcome run(const std::string& output, int ranks, const std::vector<std::string>& more) const {
    const SpreadPreferences& test = GetParam();
    const fs::path golden = test::golden_folder();
    const fs::path model =
        golden / (std::string(test.task) == "reward" ? "preferences/qwen2-reward/model" : "sft/qwen2/model");
    std::vector<std::string> words{"train",
                                   "--json",
                                   "--device",
                                   "cpu",
                                   "--task",
                                   test.task,
                                   "--model_name_or_path",
                                   model.string(),
                                   "--train_file",
                                   (golden / "preferences/rows/chats.jsonl").string(),
                                   "--output_dir",
                                   (folder_.path() / output).string(),
                                   "--per_device_train_batch_size",
                                   std::to_string(4 / ranks),
                                   "--max_steps",
                                   "4",
                                   "--logging_steps",
                                   "1",
                                   "--learning_rate",
                                   "0.001",
                                   "--save_strategy",
                                   "no"};
    words.insert(words.end(), test.words.begin(), test.words.end());
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<test::Outcome> outcomes = test::run_ranks(words, folder_.path(), ranks);
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcomes[0];
  }
  test::TemporaryFolder folder_;
};

TEST_P(PreferencesOverProcesses, HaveTheCurveOfOne) {
  const test::Outcome one = run("one", 1, {}), two = run("two", 2, GetParam().spread);
  test::expect_same_curve(one.output, two.output, GetParam().tolerance);
}

// 2^-8 of a number is what 16 bits keep; four updates carry it on.
constexpr double kInBfloat16 = 0.02;
INSTANTIATE_TEST_SUITE_P(
    Tasks, PreferencesOverProcesses,
    testing::Values(SpreadPreferences{"DpoWhole", "dpo", {}, {}},
                    SpreadPreferences{"DpoZero2", "dpo", {}, {"--zero_stage", "2"}},
                    SpreadPreferences{"DpoZero3", "dpo", {}, {"--zero_stage", "3"}},
                    SpreadPreferences{"DpoZero2InBfloat16", "dpo", {"--bf16"}, {"--zero_stage", "2"}, kInBfloat16},
                    // The estimate of the divergence pairs the rows of a process.
                    SpreadPreferences{"KtoZero2", "kto", {"--loss_type", "apo_zero_unpaired"}, {"--zero_stage", "2"}},
                    SpreadPreferences{"OrpoZero3", "orpo", {}, {"--zero_stage", "3"}},
                    SpreadPreferences{"OrpoZero1InBfloat16", "orpo", {"--bf16"}, {"--zero_stage", "1"}, kInBfloat16},
                    SpreadPreferences{"CpoZero2", "cpo", {}, {"--zero_stage", "2"}},
                    SpreadPreferences{"RewardZero3", "reward", {}, {"--zero_stage", "3"}},
                    SpreadPreferences{"RewardWholeInBfloat16", "reward", {"--bf16"}, {}, kInBfloat16}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace transom
